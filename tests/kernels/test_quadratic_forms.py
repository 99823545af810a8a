"""Weighted sums of chi-squares: the chi-square distribution, Davies' published examples, gamma sums, and drawn numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pipeline.kernels.quadratic_forms import SADDLE_BELOW, mixture_tail, quadratic_form_logarithm, saddle_point_logarithm

DAVIES = [  # weights with their multiplicities, and P(Q < q) at three places (Davies 1980, table 1)
    ([6, 3, 1], (1, 7, 20), (0.0542, 0.4936, 0.8760)),
    ([6, 6, 3, 3, 1, 1], (2, 20, 60), (0.0064, 0.6002, 0.9839)),
    ([6] * 6 + [3] * 4 + [1] * 2, (10, 50, 120), (0.0027, 0.5648, 0.9912)),
]


@pytest.mark.parametrize("freedom", [1, 2, 5, 60])
def test_mixture_tail__of_equal_weights_is_chi_square(freedom: int) -> None:
    p = np.array([1 - 1e-6, 0.9, 0.5, 0.1, 1e-4, 1e-12, 1e-100, 1e-250])
    value = stats.chi2.isf(p, freedom)
    np.testing.assert_allclose(mixture_tail(np.full(freedom, 3.0), 3 * value), p, rtol=2e-5)
    np.testing.assert_allclose(1 - mixture_tail(np.ones(freedom), value[:2]), 1 - p[:2], rtol=1e-5)


@pytest.mark.parametrize(("weights", "values", "expected"), DAVIES)
def test_mixture_tail__has_the_values_of_davies(weights: list[float], values: tuple[float, ...], expected: tuple[float, ...]) -> None:
    np.testing.assert_allclose(1 - mixture_tail(np.array(weights, float), np.array(values, float)), expected, atol=1.1e-4)


def test_mixture_tail__of_two_pairs_is_the_sum_of_exponentials() -> None:
    value = np.array([0.1, 3.0, 40.0, 300.0])
    expected = (3 * np.exp(-value / 6) - np.exp(-value / 2)) / 2  # of 3 (X1 + X2) + (X3 + X4)
    np.testing.assert_allclose(mixture_tail(np.array([3.0, 3, 1, 1, 0]), value), expected, rtol=1e-5)


def test_mixture_tail__of_many_uneven_weights_is_what_is_drawn() -> None:
    rng = np.random.default_rng(4)
    weights = rng.gamma(0.3, size=100)
    drawn = (weights * rng.chisquare(1, (40_000, 100))).sum(axis=1)
    value = np.quantile(drawn, [0.05, 0.3, 0.7, 0.95, 0.99])
    np.testing.assert_allclose(mixture_tail(weights, value), [0.95, 0.7, 0.3, 0.05, 0.01], atol=0.01)


def test_saddle_point_logarithm__is_near_for_several_weights_and_worst_for_one() -> None:
    weights, value = np.array([5.0, 4, 3, 2, 2, 1, 1, 1]), np.array([3.0, 19, 60, 120])
    np.testing.assert_allclose(10 ** -saddle_point_logarithm(weights, value), mixture_tail(weights, value), rtol=0.03)
    one = 10 ** -saddle_point_logarithm(np.ones(1), stats.chi2.isf([1e-6, 1e-30], 1)) / [1e-6, 1e-30]
    assert (one > 1.05).all()
    assert (one < 1.15).all()


def test_saddle_point_logarithm__has_no_least_p() -> None:
    value = np.array([100.0, 60.0]) ** 2
    expected = -(stats.norm.logsf(np.sqrt(value)) + np.log(2)) / np.log(10)  # 2,173 and 784
    np.testing.assert_allclose(saddle_point_logarithm(np.ones(1), value), expected, atol=0.07)
    two = saddle_point_logarithm(np.array([1, 0.5]), value)
    np.testing.assert_allclose(two, expected - np.log10(2) / 2, atol=0.07)  # far out, of the greatest weight times (1 - 1/2)^-1/2


def test_quadratic_form_logarithm__takes_the_saddle_point_where_it_is_small() -> None:
    weights, value = np.array([2.0, 1.0]), np.array([3.0, 70.0, -1.0])
    found = quadratic_form_logarithm(weights, value)
    assert 10 ** -found[0] == pytest.approx(mixture_tail(weights, value[:1])[0], rel=1e-8)
    assert found[2] == 0
    assert found[1] == saddle_point_logarithm(weights, value[1:2])[0] > -np.log10(SADDLE_BELOW)


def test_mixture_tail__refuses_weights_that_are_none() -> None:
    with pytest.raises(ValueError, match="are 0 or more, and at least one is more"):
        mixture_tail(np.array([1.0, -0.5]), np.array([1.0]))
    with pytest.raises(ValueError, match="at least one is more"):
        mixture_tail(np.zeros(3), np.array([1.0]))
