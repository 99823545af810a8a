"""value_at_risk."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from pipeline.errors import DataError, StageError
from pipeline.stages.finance.value_at_risk import ValueAtRisk
from pipeline.testing.examples import Between, StageExample
from pipeline.testing.stages import plan_stage, run_stage

DAYS = 60
RNG = np.random.default_rng(11)
RETURNS = pl.DataFrame(
    {
        "book": np.repeat(["a", "b"], DAYS),
        "day": [dt.date(2024, 1, 1) + dt.timedelta(days=int(day)) for day in np.tile(np.arange(DAYS), 2)],
        "earned": np.concatenate([RNG.normal(0.001, 0.02, DAYS), RNG.standard_t(3, DAYS) * 0.01]),
    }
).sample(fraction=1, shuffle=True, seed=3)
STAGE = ValueAtRisk(by="book", time="day", value="earned", levels=(0.9, 0.95), window=20)
EXAMPLES = [
    StageExample(STAGE, {"rows": RETURNS}),
    StageExample(ValueAtRisk(time="n", value="x"), {"rows": pl.DataFrame({"n": [1, 2, 3], "x": [0.1, None, -0.2]})}),
]


def series(book: str) -> np.ndarray:
    return RETURNS.filter(pl.col("book") == book).sort("day")["earned"].to_numpy()


def test_days__are_what_the_window_before_each_says() -> None:
    days = run_stage(STAGE, {"rows": RETURNS})["days"]
    assert days.height == 2 * (DAYS - 20) * 2 * 2
    for book in ("a", "b"):
        returns = series(book)
        for level in (0.9, 0.95):
            found = days.filter(book=book, method="historical", level=level)
            said = [-np.quantile(returns[at - 20 : at], 1 - level) for at in range(20, DAYS)]
            assert found["value_at_risk"].to_list() == pytest.approx(said, abs=1e-15)
            assert found["exceeded"].to_list() == [-returns[at] > said[at - 20] for at in range(20, DAYS)]
            found = days.filter(book=book, method="parametric", level=level)
            said = [-norm(returns[at - 20 : at].mean(), returns[at - 20 : at].std(ddof=1)).ppf(1 - level) for at in range(20, DAYS)]
            assert found["value_at_risk"].to_list() == pytest.approx(said, abs=1e-12)


def test_series__have_the_risk_of_their_last_window_and_how_it_held() -> None:
    found = run_stage(STAGE, {"rows": RETURNS})
    assert found[""]["observations"].to_list() == [20] * 8
    assert found[""]["tested"].to_list() == [DAYS - 20] * 8
    held = found["days"].group_by("book", "method", "level").agg(pl.col("exceeded").sum().cast(pl.Int64))
    both = found[""].join(held, on=["book", "method", "level"])
    assert both.height == 8
    assert both["exceedances"].to_list() == both["exceeded"].to_list()
    last = found[""].filter(book="b", method="historical", level=0.95)["value_at_risk"].item()
    assert last == pytest.approx(-np.quantile(series("b")[-20:], 0.05))


def test_without_a_window__all_returns_count_over_the_horizon() -> None:
    found = run_stage(ValueAtRisk(by="book", time="day", value="earned", levels=(0.99,), horizon=10), {"rows": RETURNS})
    assert list(found) == [""]
    risk = found[""].filter(book="a", method="parametric")["value_at_risk"].item()
    returns = series("a")
    assert risk == pytest.approx(-(10 * returns.mean() + norm.ppf(0.01) * returns.std(ddof=1) * np.sqrt(10)))


@pytest.mark.parametrize("parts", [2, 7])
def test_value_at_risk__is_the_same_in_any_parts_and_on_workers(parts: int) -> None:
    one = run_stage(STAGE, {"rows": RETURNS})
    for found in (run_stage(STAGE, {"rows": RETURNS}, parts), run_stage(STAGE, {"rows": RETURNS}, parts, Between())):
        assert all(found[name].sort(pl.all()).equals(one[name].sort(pl.all())) for name in one)


def test_returns__that_are_missing_are_left_out_and_times_must_be_there_once() -> None:
    gaps = pl.DataFrame({"n": [1, 2, 3, 4], "x": [0.1, None, -0.2, 0.05]})
    assert run_stage(ValueAtRisk(time="n", value="x", levels=(0.9,)), {"rows": gaps})[""]["observations"].to_list() == [3, 3]
    one = run_stage(ValueAtRisk(time="n", value="x", levels=(0.9,)), {"rows": gaps.head(1)})[""]
    assert one["value_at_risk"].to_list() == [None, None]
    with pytest.raises(DataError, match=r"each time once.*n 1, x 0.1"):
        run_stage(ValueAtRisk(time="n", value="x"), {"rows": pl.concat([gaps, gaps])})
    with pytest.raises(StageError, match="dates, timestamps or whole numbers"):
        plan_stage(ValueAtRisk(time="x", value="x"), {"rows": gaps})
    with pytest.raises(StageError, match="'x' names a series or its time, too"):
        plan_stage(ValueAtRisk(by="x", time="n", value="x"), {"rows": gaps.with_columns(x=pl.lit(1))})
    with pytest.raises(StageError, match="a column 'method' of its own"):
        plan_stage(ValueAtRisk(by="method", time="n", value="x"), {"rows": gaps.with_columns(method=pl.lit("a"))})
