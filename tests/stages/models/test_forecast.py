"""forecast: what it gives equals statsmodels called by hand and the formulas of the book, for any parts."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import DataError, PlaceError, StageError
from pipeline.stages.models import _classical
from pipeline.stages.models.forecast import Forecast
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, assert_same_for_any_parts, plan_stage, run_stage
from tests.small import inside

Z = 1.959963984540054


def sales(stores: int = 4, months: int = 60) -> pl.DataFrame:
    """Months of stores that grow and have a season, by turns added and multiplied."""
    random = np.random.default_rng(20261121)
    month = pl.date_range(date(2019, 1, 1), interval="1mo", end=date(2040, 1, 1), eager=True).head(months)
    wave = np.sin(np.arange(months) * 2 * np.pi / 12)
    frames = []
    for store in range(stores):
        noise, level = random.normal(size=months), 100 + store * np.arange(months)
        sold = level * (1 + 0.2 * wave) * (1 + 0.03 * noise) if store % 2 else level + 15 * wave + 4 * noise
        frames.append(pl.DataFrame({"store": [f"s{store}"] * months, "month": month, "sold": sold}))
    return pl.concat(frames)


def plain(values: Any, **more: Any) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Forecasts and fit of one series of whole numbers."""
    frame = pl.DataFrame({"at": range(len(values)), "y": np.asarray(values, float)})
    found = run_stage(Forecast(**{"time": "at", "value": "y", "horizon": 4, **more}), {"rows": frame})
    return found[""], found["fit"].row(0, named=True)


SALES = sales()
STAGE: dict[str, Any] = {"series": ("store",), "time": "month", "value": "sold", "horizon": 6, "season": 12}
EXAMPLES = [
    StageExample(Forecast(**STAGE, method="seasonal_naive", holdout=6, history=8), {"rows": SALES}),
    StageExample(Forecast(**STAGE, method="drift", every="1mo"), {"rows": SALES}),
    StageExample(Forecast(**STAGE | {"season": 4}, multiplicative=False, holdout=3), {"rows": sales(2, 24)}, needs="statsmodels"),
    StageExample(Forecast(time="month", value="sold", horizon=2, method="drift"), {"rows": sales(1, 20)}),
]


@pytest.fixture(scope="module")
def smoothed() -> dict[str, pl.DataFrame]:
    """Two stores by exponential smoothing."""
    return run_stage(Forecast(**STAGE), {"rows": SALES.filter(pl.col("store").is_in(["s0", "s1"]))}, parts=2)


@pytest.mark.parametrize("store", ["s0", "s1"])
def test_forecast_by_ets__is_statsmodels_best_model_by_hand(store: str, smoothed: dict[str, pl.DataFrame]) -> None:
    import pandas as pd
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    values = pd.Series(SALES.filter(pl.col("store") == store)["sold"].to_numpy())
    fitted = {}
    for error, (trend, damped), season in product(("add", "mul"), ((None, False), ("add", False), ("add", True)), (None, "add", "mul")):
        if (error, season) != ("add", "mul"):
            more = {"seasonal": season, "seasonal_periods": 12} if season else {}
            model = ETSModel(values, error=error, trend=trend, damped_trend=damped, **more)
            fitted[model.short_name] = model.fit(disp=False)
    best = min(fitted, key=lambda name: fitted[name].aicc)
    ahead = fitted[best].get_prediction(60, 65, simulate_repetitions=1_000, random_state=SEED).summary_frame(alpha=0.05)
    rows = smoothed[""].filter(pl.col("store") == store)
    for ours, theirs in (("mean", "mean"), ("lower", "pi_lower"), ("upper", "pi_upper")):
        np.testing.assert_allclose(rows[ours], ahead[theirs], rtol=1e-12)
    fit = smoothed["fit"].filter(pl.col("store") == store).row(0, named=True)
    assert fit["model"].replace("ETS(", "").replace(")", "").replace(",", "") == best
    assert fit["aicc"] == pytest.approx(fitted[best].aicc, rel=1e-12)
    assert fit["alpha"] == pytest.approx(fitted[best].smoothing_level, rel=1e-12)


def test_forecast_by_ets__multiplies_only_where_it_may_and_values_are_above_zero(smoothed: dict[str, pl.DataFrame]) -> None:
    (multiplied,) = smoothed["fit"].filter(pl.col("model").str.contains("M"))["store"].head(1)
    rows = SALES.filter(pl.col("store") == multiplied)
    for more, values in (({"multiplicative": False}, rows), ({}, rows.with_columns(pl.col("sold") - 200))):
        assert "M" not in run_stage(Forecast(**STAGE, **more), {"rows": values})["fit"]["model"][0]


def test_forecast_by_the_seasonal_naive__has_the_books_intervals() -> None:
    """Table 5.2 of Hyndman & Athanasopoulos, fpp3: sigma sqrt(k + 1), with sigma of the residuals (5.5)."""
    values = [1.0, 5, 2, 8, 3, 6]
    found, _ = plain(values, method="seasonal_naive", season=2, horizon=5)
    assert found["mean"].to_list() == [3, 6, 3, 6, 3]
    sigma = sqrt((1 + 9 + 1 + 4) / 4)
    np.testing.assert_allclose(found["upper"] - found["mean"], [Z * sigma * sqrt(k) for k in (1, 1, 2, 2, 3)], rtol=1e-12)
    np.testing.assert_allclose(found["mean"] - found["lower"], found["upper"] - found["mean"], rtol=1e-12)


def test_forecast_by_drift__is_the_line_through_both_ends_with_the_books_intervals() -> None:
    """fpp3: y + h (y - first) / (T - 1), sigma sqrt(h (1 + h / (T - 1))), one parameter of the residuals' freedom."""
    values = np.array([2.0, 4, 3, 7, 10])
    found, _ = plain(values, method="drift", level=0.8, horizon=3)
    assert found["mean"].to_list() == [12, 14, 16]
    residuals = np.diff(values) - 2
    sigma = sqrt((residuals**2).sum() / 3)
    np.testing.assert_allclose(found["upper"] - found["mean"], [1.2815515655446004 * sigma * sqrt(h * (1 + h / 4)) for h in (1, 2, 3)])


def test_forecast__measures_values_held_out_as_their_definitions_say() -> None:
    values = np.array([3.0, 6, 4, 8, 5, 7, 9, 2])
    found, fit = plain(values, method="drift", season=2, horizon=1, holdout=3, history=4)
    before, after = values[:5], values[5:]
    ahead, _ = plain(before, method="drift", season=2, horizon=3)
    scale = np.abs(before[2:] - before[:-2]).mean()
    naive = np.array([8.0, 5, 8])
    assert fit["mase"] == pytest.approx(np.abs(after - ahead["mean"].to_numpy()).mean() / scale)
    assert fit["naive_mase"] == pytest.approx(np.abs(after - naive).mean() / scale)
    for name, guess in (("smape", ahead["mean"].to_numpy()), ("naive_smape", naive)):
        assert fit[name] == pytest.approx(np.mean([200 * abs(a - b) / (abs(a) + abs(b)) for a, b in zip(after, guess, strict=True)]))
    assert fit["coverage"] == pytest.approx(np.mean((ahead["lower"].to_numpy() <= after) & (after <= ahead["upper"].to_numpy())))
    shown = found.head(4)
    assert shown["observed"].to_list() == [5, 7, 9, 2]
    np.testing.assert_allclose(shown["mean"].to_list()[1:], ahead["mean"])
    assert shown["mean"][0] is None
    assert found["observed"][4] is None


STEPS = ["1d", "2d", "1w", "1mo", "1q", "1y", "15m", "1h", "30s"]


@pytest.mark.parametrize("start", [date(2023, 1, 31), date(2024, 2, 29), date(2023, 7, 15), date(2023, 12, 1)], ids=str)
@pytest.mark.parametrize("every", STEPS)
def test_forecast__goes_on_in_the_step_that_it_finds(every: str, start: date) -> None:
    days = every.endswith(("d", "w", "mo", "q", "y"))
    zero: Any = start if days else datetime(start.year, start.month, start.day, 8)
    unit = every.lstrip("0123456789")
    size = int(every.removesuffix(unit))
    steps = pl.DataFrame({"by": [f"{size * number}{unit}" for number in range(9)], "from": [zero] * 9})
    times = steps.select(pl.col("from").dt.offset_by(pl.col("by"))).to_series()
    if start.day > 28 and every.endswith(("mo", "q", "y")):
        times = times.dt.month_end()
    frame = pl.DataFrame({"t": times, "y": np.arange(9.0)})
    for more in ({}, {"every": every}):
        found = run_stage(Forecast(time="t", value="y", horizon=4, method="drift", **more), {"rows": frame.head(5)})[""]
        assert found["t"].to_list() == times.to_list()[5:]


def test_forecast__finds_one_step_for_all_series() -> None:
    frame = pl.DataFrame({"s": ["a", "a", "a", "b", "b", "c"], "t": [0, 4, 8, 3, 5, 100], "y": [1.0, 2, 3, 1, 2, 9]})
    stage = {"series": "s", "time": "t", "value": "y", "horizon": 1, "method": "drift"}
    with pytest.raises(DataError, match=r"s 'a': no value at 2 and 1 more, where a step is 2\. Fill it by gaps"):
        run_stage(Forecast(**stage), {"rows": frame})
    found = run_stage(Forecast(**stage, gaps="linear"), {"rows": frame})[""]
    assert dict(found.select("s", "t").rows()) == {"a": 10, "b": 7, "c": 102}


def test_forecast__fills_gaps_as_polars_does() -> None:
    days = [date(2024, 2, 26) + timedelta(days=day) for day in (0, 1, 4, 5, 9)]
    frame = pl.DataFrame({"t": days, "y": [1.0, 2, 5, None, 8]})
    whole = frame.upsample("t", every="1d")
    stage = {"time": "t", "value": "y", "horizon": 1, "method": "drift", "history": 10}
    expected = {"linear": whole["y"].interpolate(), "previous": whole["y"].forward_fill(), "zero": whole["y"].fill_null(0)}
    for gaps, values in expected.items():
        found = run_stage(Forecast(**stage, gaps=gaps), {"rows": frame})
        assert found[""]["observed"].head(10).to_list() == values.to_list()
        assert found["fit"].select("observations", "filled").row(0) == (4, 6)
    with pytest.raises(DataError, match=r"the series: no value at 2024-02-28 and 5 more, where a step is 1d"):
        run_stage(Forecast(**stage), {"rows": frame})


SHORT: dict[str, Any] = {"time": "t", "value": "y", "series": ("s",), "horizon": 1, "method": "drift"}


@pytest.mark.parametrize(
    ("t", "more", "said"),
    [
        ([1, 2, 2], {}, r"s 'a': the time 2 comes twice\. Aggregate"),
        ([1, None, 2], {}, r"s 'a': 1 of 3 rows have no time"),
        ([date(2024, 1, 1), date(2024, 2, 1), date(2024, 2, 15)], {"every": "1mo"}, r"not all at one place of their months \(2024-01-01"),
        ([date(2024, 1, 1), date(2024, 1, 8), date(2024, 1, 10)], {"every": "1w"}, r"2024-01-10 is no whole number of steps of 1w after"),
        ([7], {}, r"no series has two different values of 't'"),
    ],
    ids=["twice", "none", "months", "between", "alone"],
)
def test_forecast__refuses_times_that_are_no_steps(t: list[Any], more: dict[str, Any], said: str) -> None:
    frame = pl.DataFrame({"s": ["a"] * len(t), "t": t, "y": np.arange(len(t), dtype=float)})
    with pytest.raises(DataError, match=said):
        run_stage(Forecast(**SHORT, **more), {"rows": frame})


def test_forecast__refuses_times_ahead_that_their_type_does_not_hold() -> None:
    frame = pl.DataFrame({"t": pl.Series([253, 254], dtype=pl.UInt8), "y": [1.0, 2]})
    stage: dict[str, Any] = {"time": "t", "value": "y", "method": "seasonal_naive"}
    assert run_stage(Forecast(**stage, horizon=1), {"rows": frame})[""]["t"].to_list() == [255]
    with pytest.raises(DataError, match="'t' would be 256, which UInt8 does not hold"):
        run_stage(Forecast(**stage, horizon=2), {"rows": frame})


def test_forecast__says_how_short_constant_and_empty_series_were_forecast() -> None:
    rows = {"long": [1.0, 3, 2, 5, 4, 6, 8, 7, 9, 12, 11], "flat": [2.0] * 12, "two": [1.0, 4], "one": [5.0], "season": [1.0, 5, 2]}
    frame = pl.concat([pl.DataFrame({"s": name, "t": range(len(y)), "y": y}) for name, y in rows.items()])
    frame = pl.concat([frame, pl.DataFrame({"s": ["none", "none"], "t": [0, 1], "y": [None, float("inf")]})])
    found = run_stage(Forecast(series="s", time="t", value="y", horizon=2, season=2), {"rows": frame})
    fits = {row["s"]: (row["method"], row["reason"]) for row in found["fit"].iter_rows(named=True)}
    assert fits == {
        "long": ("ets", None),
        "flat": ("naive", "constant"),
        "two": ("naive", "short"),
        "one": ("naive", "short"),
        "season": ("seasonal_naive", "short"),
        "none": (None, "empty"),
    }
    ahead = {name: found[""].filter(pl.col("s") == name) for name in rows}
    assert ahead["one"].select("mean", "lower").row(1) == (5.0, None)
    assert ahead["flat"].select("mean", "lower", "upper").row(1) == (2.0, 2.0, 2.0)
    assert ahead["season"]["mean"].to_list() == [5, 2]
    assert "none" not in found[""]["s"].to_list()


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**900])
@pytest.mark.parametrize("method", ["seasonal_naive", "drift", "ets"])
def test_forecast__does_not_mind_huge_and_tiny_numbers(method: str, scale: float) -> None:
    values = np.array([3.0, 6, 4, 8, 5, 7, 9, 2, 4, 8, 5, 9])
    (plain_rows, plain_fit), (found, fit) = (plain(values * by, method=method, season=2, holdout=2) for by in (1.0, scale))
    for name in ("mean", "lower", "upper"):
        np.testing.assert_allclose(found[name] / scale, plain_rows[name], rtol=1e-4)
    assert fit["mase"] == pytest.approx(plain_fit["mase"], rel=1e-4)
    if method == "ets":
        assert fit["aicc"] == pytest.approx(plain_fit["aicc"] + 24 * np.log(scale), rel=1e-6)


def test_forecast__over_two_workers_is_that_of_one(workers: ClusterSession) -> None:
    stage = Forecast(**{**STAGE, "method": "drift"}, holdout=5, history=3)
    whole, found = run_stage(stage, {"rows": SALES}), run_stage(stage, {"rows": SALES}, 5, workers)
    for name, by in (("", ["store", "month"]), ("fit", ["store"])):
        assert_frame_equal(found[name].sort(by), whole[name].sort(by), check_exact=True)


def test_forecast__does_not_depend_on_parts_nor_on_the_order_of_rows() -> None:
    stage = Forecast(**{**STAGE, "method": "seasonal_naive"}, holdout=5, history=3)
    assert_same_for_any_parts(stage, {"rows": SALES}, sort_by=["store", "month"])
    assert run_stage(stage, {"rows": SALES.clear()})[""].height == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"time": "y"}, "column 'y' is Float64: times are dates"),
        ({"time": "z"}, r"column 'z' is Datetime.*Derive a date or a timestamp without zone"),
        ({"value": "s"}, "column 's' is String, and numbers are needed"),
        ({"series": "y"}, "a fraction is no key"),
        ({"series": "t"}, "series, time and value name a column twice"),
        ({"every": "1mo"}, "'1mo' is no step of this column: a whole number is"),
        ({"time": "d", "every": "1h"}, "'1h' is no step of this column: a number of y, q, mo, w, d is"),
        ({"series": "mean"}, "column 'mean' has the name of a column of the forecasts"),
    ],
    ids=["float", "zone", "text", "fraction", "twice", "step", "hours", "taken"],
)
def test_forecast__refuses_columns_before_a_run(more: dict[str, Any], said: str) -> None:
    schema = {"s": pl.String(), "t": pl.Int64(), "y": pl.Float64(), "d": pl.Date(), "z": pl.Datetime("us", "UTC"), "mean": pl.Int64()}
    rows = pl.DataFrame(schema=schema)
    with pytest.raises(StageError, match=said):
        plan_stage(Forecast(**{**SHORT, **more}), {"rows": rows})


def test_forecast__without_statsmodels_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_classical, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"statsmodels is not installed\. Install it with: pip install '\.\[classical\]'"):
        plan_stage(Forecast(**STAGE), {"rows": SALES})
    plan_stage(Forecast(**{**STAGE, "method": "drift"}), {"rows": SALES})


JOB = """\
job: ahead
results: results
inputs: {sales: {format: parquet, path: sales.parquet}}
stages:
  - {use: forecast, from: sales, as: ahead, series: store, time: month, value: sold, horizon: 6, season: 12, holdout: 6, history: 24,
     method: drift}
outputs: {ahead: {from: ahead}, fits: {from: ahead.fit}}
"""


def test_a_job_of_forecasts__has_measures_counts_and_pictures(tmp_path: Any) -> None:
    pl.concat([SALES, SALES.head(4).with_columns(store=pl.lit("new"))]).write_parquet(tmp_path / "sales.parquet", row_group_size=70)
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
    fits = run.table("fits").to_polars()
    told = run.metrics["ahead"]
    assert told["drift"]["mase"] == pytest.approx(fits["mase"].mean())
    assert told["seasonal_naive"]["smape"] == pytest.approx(fits["naive_smape"].mean())
    page = (tmp_path / "results" / "current" / "report.html").read_text()
    assert "Forecasts" in page
    assert "series too short to hold values out" in page
