"""Value at risk against scipy's own distributions, and Kupiec's test against its published table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from pipeline.kernels.risk import historical_risk, kupiec_p_value, parametric_risk, stretches

RETURNS = np.random.default_rng(7).standard_t(4, (3, 500)) * 0.01


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_parametric_risk__is_the_quantile_and_the_tail_mean_of_a_normal(level: float) -> None:
    value, short = parametric_risk(RETURNS, level, 10)
    for row, (found, mean) in enumerate(zip(value, short, strict=True)):
        law = norm(RETURNS[row].mean() * 10, RETURNS[row].std(ddof=1) * np.sqrt(10))
        assert found == pytest.approx(-law.ppf(1 - level), rel=1e-12)
        assert mean == pytest.approx(-law.expect(lambda x: x, ub=law.ppf(1 - level), conditional=True), rel=1e-6)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_historical_risk__is_the_quantile_and_the_mean_of_what_is_worse(level: float) -> None:
    value, short = historical_risk(RETURNS, level)
    for row in range(3):
        cut = np.quantile(RETURNS[row], 1 - level)
        assert value[row] == -cut
        assert short[row] == pytest.approx(-RETURNS[row][RETURNS[row] <= cut].mean(), rel=1e-12)
    assert historical_risk(RETURNS, level, 4)[0] == pytest.approx(2 * value)


def test_stretches__are_all_that_have_a_return_after_them() -> None:
    found = np.concatenate(list(stretches(np.arange(6.0), 3)))
    assert found.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert [len(block) for block in stretches(np.arange(3.0), 3)] == []


@pytest.mark.parametrize(
    ("level", "days", "low", "high"),
    [(0.99, 255, 0, 7), (0.99, 510, 1, 11), (0.99, 1000, 4, 17), (0.95, 255, 6, 21), (0.95, 510, 16, 36), (0.95, 1000, 37, 65)],
)
def test_kupiec__rejects_at_5_percent_outside_his_table(level: float, days: int, low: int, high: int) -> None:
    """Kupiec 1995, table 3: a model is kept where `low < exceedances < high` (at 99 % of 255 days where there are fewer than 7)."""
    assert min(kupiec_p_value(days, count, level) for count in range(low + 1, high)) > 0.05
    assert kupiec_p_value(days, high, level) < 0.05
    assert low == 0 or kupiec_p_value(days, low, level) < 0.05
