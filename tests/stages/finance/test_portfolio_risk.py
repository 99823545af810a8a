"""portfolio_risk: the same however paths and rows are divided, near closed forms, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.stats import norm

import pipeline.stages.finance._simulated as simulated
from pipeline.errors import DataError, StageError
from pipeline.stages.finance.portfolio_risk import PortfolioRisk
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

ASSETS = pl.DataFrame(
    {
        "asset": ["steel", "grain", "cable"],
        "spot": [100.0, 50.0, 20.0],
        "drift": [0.05, 0.02, 0.0],
        "volatility": [0.2, 0.3, 0.4],
        "dividend_yield": [0.01, None, 0.0],
        "mean_reversion": [None, None, 2.0],
        "long_variance": [None, None, 0.15],
        "volatility_of_variance": [None, None, 0.4],
        "spot_variance_correlation": [None, None, -0.6],
    }
)
PLAIN = ASSETS.select("asset", "spot", "drift", "volatility")
CORRELATIONS = pl.DataFrame({"asset": ["steel", "cable", "grain"], "other": ["grain", "steel", "cable"], "correlation": [0.3, 0.5, 0.1]})
POSITIONS = pl.DataFrame(
    {
        "position": [4, 2, 3, 1],
        "asset": ["steel", "cable", "grain", "steel"],
        "quantity": [100, 300, -50, -200],
        "kind": [None, "share", "put", "call"],
        "strike": [None, None, 52.0, 105.0],
        "expiry_years": [None, None, 0.5, 0.25],
        "implied_volatility": [None, None, 0.32, None],
    }
)
SHARES = POSITIONS.head(2).select("position", "asset", "quantity")
TABLES = {"positions": POSITIONS, "assets": ASSETS, "correlations": CORRELATIONS}
SMALL = {"paths": 20_000, "steps_per_day": 1, "levels": (0.95, 0.99)}
PUT = {"kind": "put", "strike": 90.0, "expiry_years": 1.0}
EXAMPLES = [
    StageExample(PortfolioRisk(**SMALL, rate=0.02), TABLES),
    StageExample(PortfolioRisk(**SMALL, copula="student_t", degrees_of_freedom=5), {**TABLES, "assets": PLAIN, "positions": SHARES}),
    StageExample(PortfolioRisk(paths=2_000, levels=(0.9,)), {"positions": SHARES.head(1), "assets": PLAIN.head(1)}),
]


def given(**changed: Any) -> dict[str, Any]:
    """The tables with some columns changed, `assets={"spot": -1}` say in the first row."""
    found = dict(TABLES)
    for table, columns in changed.items():
        frame = found[table]
        for name, value in columns.items():
            frame = frame.with_columns(pl.Series(name, [value, *frame[name][1:]], dtype=frame[name].dtype))
        found[table] = frame
    return found


def test_portfolio_risk__is_the_same_for_any_parts_and_order_of_rows() -> None:
    assert_same_for_any_parts(PortfolioRisk(**SMALL), TABLES, sort_by=["level"])


def test_portfolio_risk__is_the_same_to_the_last_digit_for_any_ranges_of_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = PortfolioRisk(paths=70_000, steps_per_day=1)
    one = run_stage(stage, TABLES)
    monkeypatch.setattr(simulated, "LEAST", 777)
    monkeypatch.setattr(simulated, "TASKS", 9)
    other = run_stage(stage, TABLES)
    for name in one:
        assert_frame_equal(one[name], other[name], check_exact=True)


def test_a_share__loses_what_a_lognormal_distribution_says() -> None:
    tables = {"positions": SHARES.head(1), "assets": PLAIN.head(1)}
    found = run_stage(PortfolioRisk(paths=300_000, levels=(0.95, 0.99), horizon_days=20), tables)
    mean, spread = (0.05 - 0.02) * 20 / 252, 0.2 * np.sqrt(20 / 252)
    for row in found[""].iter_rows(named=True):
        z = norm.ppf(1 - row["level"])
        value, end = 100 * 100 * (1 - np.exp(mean + spread * z)), row["value_at_risk_high"] - row["value_at_risk_low"]
        shortfall = 100 * 100 * (1 - np.exp(mean + spread**2 / 2) * norm.cdf(z - spread) / (1 - row["level"]))
        assert row["value_at_risk"] == pytest.approx(value, abs=end)  # 3.9 standard errors
        assert row["expected_shortfall"] == pytest.approx(shortfall, abs=row["expected_shortfall_high"] - row["expected_shortfall_low"])
        assert row["value_at_risk_low"] < row["value_at_risk"] < row["value_at_risk_high"]
        assert row["paths"] == 300_000


def test_contributions__sum_to_the_measures_and_bins_to_the_paths() -> None:
    found = run_stage(PortfolioRisk(**SMALL), TABLES)
    sums = found["contributions"].group_by("level").agg(pl.col("value_at_risk", "expected_shortfall").sum()).sort("level")
    measures = ["level", "value_at_risk", "expected_shortfall"]
    assert_frame_equal(sums.select(measures), found[""].select(measures).sort("level"), rel_tol=1e-9)
    assert found["contributions"]["position"].to_list() == [1, 2, 3, 4] * 2
    assert found["contributions"]["kind"].to_list() == ["call", "share", "put", "share"] * 2
    shares = found["contributions"].filter(kind="share")
    assert shares["value"].to_list() == [6000.0, 10000.0] * 2
    losses = found["losses"]
    assert losses["paths"].sum() == 20_000
    assert losses["low"][1:].to_list() == losses["high"][:-1].to_list()
    low, high = (losses.filter(pl.col(edge) > found[""]["value_at_risk"][0])["paths"].sum() for edge in ("low", "high"))
    assert low <= 1000 <= high + losses["paths"][-1]


def test_a_t_copula__has_the_same_margins_and_the_heavier_tail() -> None:
    tables = {"positions": SHARES, "assets": PLAIN, "correlations": CORRELATIONS}
    stages = [PortfolioRisk(paths=200_000, levels=(0.999,), **more) for more in ({}, {"copula": "student_t", "degrees_of_freedom": 3})]
    gaussian, student = (run_stage(stage, tables)[""].row(0, named=True) for stage in stages)
    assert student["value_at_risk_low"] > gaussian["value_at_risk_high"]


def test_another_seed__gives_other_paths_and_the_same_seed_the_same() -> None:
    one, again, other = (run_stage(PortfolioRisk(**SMALL, seed=seed), TABLES)[""] for seed in (1, 1, 2))
    assert one.equals(again)
    assert not one.equals(other)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"assets": {"spot": -1.0}}, r"assets: 'steel' has spot -1\.0; a number above 0 is needed"),
        ({"assets": {"volatility": 20.0}}, r"assets: 'steel' has volatility 20\.0; a number above 0 and up to 10 is needed"),
        ({"assets": {"drift": None}}, "assets: 'steel' has drift None; a number above -10 and up to 10"),
        ({"assets": {"asset": "grain"}}, "assets: every row has a name of its own in 'asset', and 2 have 'grain'"),
        ({"assets": {"long_variance": 0.1}}, "assets: 'steel' has mean_reversion None; a number above 0 and up to 10000"),
        ({"correlations": {"correlation": 1.5}}, r"that of 'steel' with 'grain' is 1\.5; a number from -1 to 1"),
        ({"correlations": {"asset": "grain", "other": "cable"}}, "each pair of assets has one row, and 'grain' with 'cable' has another"),
        ({"correlations": {"other": "grian"}}, r"'grian' is none of the assets\. Did you mean 'grain'"),
        ({"correlations": {"correlation": -0.99}}, "no assets can be correlated so: the matrix has the eigenvalue -"),
        ({"positions": {"asset": "stele"}}, r"positions: 4 is of 'stele', which is none of the assets\. Did you mean 'steel'"),
        ({"positions": {"kind": "future"}}, "positions: 4 is a 'future'; share, call and put are known"),
        ({"positions": {"kind": "call"}}, "positions: 4 has strike None; a number above 0 is needed"),
        ({"positions": {**PUT, "expiry_years": 0.01}}, r"positions: 4 expires in 0\.01 years, before the horizon of 0\.03968"),
        ({"positions": {**PUT, "implied_volatility": 0.0}}, r"positions: 4 has implied_volatility 0\.0; one above 0 and up to 10"),
    ],
)  # fmt: skip
def test_values_that_cannot_be__are_refused(changed: dict[str, dict[str, Any]], text: str) -> None:
    with pytest.raises(DataError, match=text):
        run_stage(PortfolioRisk(**SMALL), given(**changed))


def test_tables_that_lack_rows__are_refused() -> None:
    with pytest.raises(DataError, match=r"none is given for .*Give a row for every pair"):
        run_stage(PortfolioRisk(**SMALL), {**TABLES, "correlations": CORRELATIONS.head(2)})
    with pytest.raises(DataError, match="the table given as 'positions' has no rows"):
        run_stage(PortfolioRisk(**SMALL), {**TABLES, "positions": POSITIONS.clear()})
    with pytest.raises(DataError, match=r"'cable' is of Heston's model, and a t copula ties moves over the whole horizon"):
        run_stage(PortfolioRisk(**SMALL, copula="student_t", degrees_of_freedom=4), TABLES)


def test_what_does_not_fit__is_refused_at_plan_time() -> None:
    with pytest.raises(StageError, match=r"20,000 paths leave 2\.0 beyond level 0\.9999, and 10 are needed"):
        plan_stage(PortfolioRisk(paths=20_000, levels=(0.9999,)), TABLES)
    with pytest.raises(StageError, match=r"2,000,000 steps, and 100,000 are the most"):
        plan_stage(PortfolioRisk(horizon_days=2_000, steps_per_day=1_000), TABLES)
    with pytest.raises(StageError, match="copula student_t needs degrees_of_freedom"):
        plan_stage(PortfolioRisk(copula="student_t"), TABLES)
    with pytest.raises(StageError, match="no other copula has them"):
        plan_stage(PortfolioRisk(degrees_of_freedom=4), TABLES)
    with pytest.raises(StageError, match=r"'assets'.*no column 'spot'"):
        plan_stage(PortfolioRisk(), {**TABLES, "assets": ASSETS.drop("spot")})
    with pytest.raises(StageError, match="columns of Heston's model, but not 'long_variance'"):
        plan_stage(PortfolioRisk(), {**TABLES, "assets": ASSETS.drop("long_variance")})
    with pytest.raises(StageError, match=r"'positions'.*no column 'strike'"):
        plan_stage(PortfolioRisk(), {**TABLES, "positions": POSITIONS.drop("strike")})
    with pytest.raises(StageError, match="'correlation' is String, and numbers are needed"):
        plan_stage(PortfolioRisk(), {**TABLES, "correlations": CORRELATIONS.cast({"correlation": pl.String})})
