"""Least squares with coefficients of 0 or more: SciPy's, and the mixture of chi-squares of its null."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from pipeline.kernels.sign_constrained import independent, mixture_weights, non_negative_fit, sign_constrained_tests

RNG = np.random.default_rng(9)


def columns(number: int, shared: float) -> NDArray[np.float64]:
    return np.asarray(RNG.normal(size=(60, number)) + shared * RNG.normal(size=(60, 1)))


@pytest.mark.parametrize(("number", "shared"), [(1, 0.0), (3, 0.5), (9, 0.0), (12, 6.0)])
def test_non_negative_fit__is_what_scipy_finds(number: int, shared: float) -> None:
    x, y = columns(number, shared), RNG.normal(size=(25, 60))
    found, free = non_negative_fit(x.T @ x, y @ x)
    expected = np.array([optimize.nnls(x, one)[0] for one in y])
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_array_equal(free, expected > 0)


@pytest.mark.parametrize(("number", "shared"), [(2, 1.0), (3, 0.6), (7, 0.8)])
def test_mixture_weights__are_how_often_coefficients_are_above_nothing(number: int, shared: float) -> None:
    x = columns(number, shared)
    scores = RNG.normal(size=(40_000, 60)) @ x
    counted = np.bincount(non_negative_fit(x.T @ x, scores)[1].sum(axis=1), minlength=number + 1) / len(scores)
    found = mixture_weights(x.T @ x)
    np.testing.assert_allclose(found, counted, atol=0.012)
    assert found.sum() == pytest.approx(1)


def test_mixture_weights__of_independent_columns_are_binomial_to_the_last() -> None:
    expected = stats.binom.pmf(np.arange(10), 9, 0.5)
    found = mixture_weights(np.diag(np.arange(1.0, 10)))
    np.testing.assert_allclose(found, expected, atol=0.01)
    np.testing.assert_allclose(found[-2:], expected[-2:], rtol=1e-6)  # too rare to be counted


def test_sign_constrained_tests__are_as_small_as_often_as_they_say() -> None:
    x = columns(4, 0.7)
    products, weights = x.T @ x, mixture_weights(x.T @ x)
    drawn = np.random.default_rng(2).normal(size=(2000, 60)) @ x
    p = 10 ** -np.array([sign_constrained_tests(products, scores, weights, 1e9) for scores in drawn])
    for level in (0.02, 0.1, 0.3):  # of one sign; of both it is conservative beyond small ones
        np.testing.assert_allclose((p[:, 1:] < level).mean(axis=0), level, atol=3.5 * np.sqrt(level / 2000))
    assert (p[:, 0] < 0.02).mean() == pytest.approx(0.02, abs=0.012)
    strong = sign_constrained_tests(products, products.sum(axis=1), weights, 1e9)
    assert strong[1] > 10 > strong[2]
    assert strong[0] == pytest.approx(strong[1] - np.log10(2), rel=1e-6)
    negative = sign_constrained_tests(products, -products.sum(axis=1), weights, 1e9)
    assert negative[0] == strong[0]
    assert negative[1:] == (strong[2], strong[1])


def test_independent__leaves_out_what_others_explain() -> None:
    x = np.eye(60)
    x = np.column_stack([x[0], x[0], 0 * x[0], x[1], 3 * x[0] - 2 * x[1], x[2]])
    assert independent(x.T @ x).tolist() == [3, 4, 5]  # the longest, and of the others that of which most is left


def test_independent__keeps_the_masks_that_regenie_keeps() -> None:
    """Sums of carriers of three masks up to three frequencies; --sbat-verbose of regenie 4.1.2 named those that it kept."""
    different = np.array(
        [
            [112, 115, 113, 116, 118, 147],
            [115, 178, 116, 179, 121, 233],
            [113, 116, 158, 161, 168, 214],
            [116, 179, 161, 224, 171, 300],
            [118, 121, 168, 171, 256, 319],
            [147, 233, 214, 300, 319, 1335],
        ],
        float,
    )
    places = [0, 1, 1, 2, 3, 3, 4, 5, 5]  # nothing lies between 0.05 and 0.2
    kept = independent(different[np.ix_(places, places)])
    assert sorted(places[place] for place in kept) == [1, 2, 3, 4, 5]  # M1.0.05, M2.0.01, M2.0.05, M3.0.01 and M3.0.05
