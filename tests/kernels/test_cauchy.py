from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pipeline.kernels.cauchy import cauchy_combination


def test_cauchy_combination__is_the_tail_of_the_weighted_mean() -> None:
    p, weights = np.array([0.02, 0.5, 0.7]), np.array([1.0, 2.0, 0.5])
    mean = weights @ stats.cauchy.isf(p) / weights.sum()
    assert cauchy_combination(p, weights) == pytest.approx(stats.cauchy.sf(mean), rel=1e-12)
    assert cauchy_combination(np.full(9, 0.3)) == pytest.approx(0.3, rel=1e-12)


def test_cauchy_combination__keeps_its_digits_where_p_is_tiny() -> None:
    assert cauchy_combination(np.array([1e-200, 0.5])) == pytest.approx(2e-200, rel=1e-12)
    assert cauchy_combination(np.array([1e-14, 1e-16])) == pytest.approx(2 / (1e14 + 1e16), rel=1e-9)


def test_cauchy_combination__takes_no_p_for_more_than_it_is_and_leaves_out_what_is_missing() -> None:
    assert cauchy_combination(np.array([1.0, 0.01])) == cauchy_combination(np.array([0.999, 0.01]))
    assert cauchy_combination(np.array([np.nan, 0.2])) == pytest.approx(0.2)
    assert np.isnan(cauchy_combination(np.array([np.nan])))
