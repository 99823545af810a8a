"""simulate_prices: paths as rows, the same however they are divided, that pay what Black and Scholes say."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline.stages.finance._simulated as simulated
import pipeline.stages.finance.simulate_prices as stage
from pipeline.errors import DataError, StageError
from pipeline.kernels.black_scholes import Option, option_values
from pipeline.stages.finance.simulate_prices import SimulatePrices
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import counts_of, plan_stage, run_stage
from tests.stages.finance.test_portfolio_risk import ASSETS, CORRELATIONS, PLAIN

TABLES = {"assets": ASSETS, "correlations": CORRELATIONS}
EXAMPLES = [
    StageExample(SimulatePrices(paths=1_000, steps_per_day=1), TABLES),
    StageExample(SimulatePrices(paths=1_000), {"assets": PLAIN.head(1)}),
]


def test_simulate_prices__are_a_row_a_path_and_asset_the_same_for_any_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_stage(SimulatePrices(paths=3_000, steps_per_day=1), TABLES)[""]
    assert whole.head(4).select("path", "asset").rows() == [(0, "cable"), (0, "grain"), (0, "steel"), (1, "cable")]
    assert whole.height == 9_000
    monkeypatch.setattr(simulated, "LEAST", 111)
    monkeypatch.setattr(simulated, "TASKS", 7)
    monkeypatch.setattr(stage, "BLOCK", 50)
    assert_frame_equal(run_stage(SimulatePrices(paths=3_000, steps_per_day=1), TABLES)[""], whole, check_exact=True)
    assert counts_of(SimulatePrices(paths=3_000, steps_per_day=1), TABLES) == {"paths": 3_000}


def test_simulate_prices__pay_a_call_what_black_and_scholes_say() -> None:
    assets = PLAIN.with_columns(drift=pl.lit(0.03))
    prices = run_stage(SimulatePrices(paths=200_000, horizon_days=126), {"assets": assets, "correlations": CORRELATIONS})[""]
    for name, spot, volatility in (("steel", 100.0, 0.2), ("grain", 50.0, 0.3)):
        paid = (prices.filter(asset=name)["price"].to_numpy() - spot).clip(0) * np.exp(-0.03 * 0.5)
        value = option_values(np.log([spot]), np.array([spot]), Option(1, spot, 0.5, volatility, 0.03, 0))[0]
        assert abs(paid.mean() - value) < 4 * paid.std() / np.sqrt(len(paid))


def test_simulate_prices__refuse_what_portfolio_risk_refuses() -> None:
    with pytest.raises(DataError, match="none is given for 'cable' with 'grain'"):
        run_stage(SimulatePrices(paths=1_000), {"assets": PLAIN})
    with pytest.raises(StageError, match="no column 'volatility'"):
        plan_stage(SimulatePrices(paths=1_000), {"assets": PLAIN.drop("volatility")})
