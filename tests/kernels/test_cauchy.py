from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pipeline.kernels.cauchy import cauchy_combination


def combined(p: list[float], weights: list[float] | None = None) -> float:
    return 10 ** -cauchy_combination(-np.log10(p), None if weights is None else np.array(weights))


def test_cauchy_combination__is_the_tail_of_the_weighted_mean() -> None:
    p, weights = np.array([0.02, 0.5, 0.7]), np.array([1.0, 2.0, 0.5])
    mean = weights @ stats.cauchy.isf(p) / weights.sum()
    assert combined([0.02, 0.5, 0.7], [1, 2, 0.5]) == pytest.approx(stats.cauchy.sf(mean), rel=1e-12)
    assert combined([0.3] * 9) == pytest.approx(0.3, rel=1e-12)


def test_cauchy_combination__keeps_its_digits_where_p_is_tiny() -> None:
    assert combined([1e-200, 0.5]) == pytest.approx(2e-200, rel=1e-12)
    assert combined([1e-14, 1e-16]) == pytest.approx(2 / (1e14 + 1e16), rel=1e-9)
    assert combined([1e-20, 10**-0.1], [1e-19, 1]) == pytest.approx(stats.cauchy.sf(10 / np.pi + stats.cauchy.isf(10**-0.1)), rel=1e-9)


def test_cauchy_combination__has_no_least_p() -> None:
    assert cauchy_combination(np.array([5_000.0])) == pytest.approx(5_000)
    assert cauchy_combination(np.array([400.0, 401, 0.2])) == pytest.approx(400 + np.log10(11 / 3))
    assert cauchy_combination(np.array([7.0, 330]), np.array([1, 1e-300])) == pytest.approx(30)
    assert cauchy_combination(np.array([7.0, 330]), np.array([1, 1e-320])) == pytest.approx(10, abs=0.01)


def test_cauchy_combination__takes_no_p_for_more_than_it_is_and_leaves_out_what_is_missing() -> None:
    assert combined([1.0, 0.01]) == pytest.approx(combined([0.999, 0.01]), rel=1e-12)
    assert combined([np.nan, 0.2]) == pytest.approx(0.2)
    assert np.isnan(combined([np.nan]))
