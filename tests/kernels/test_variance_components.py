"""SKAT and its kin of scores drawn under the null, and where one variant makes them chi-square."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pipeline.kernels.variance_components import RHO, SetCovariance, combination_weights, set_p_values, variant_weights

RNG = np.random.default_rng(6)


def random_covariance(variants: int) -> NDArray[np.float64]:
    people = RNG.normal(size=(variants, 3 * variants)) + RNG.normal(size=3 * variants)
    weights = RNG.gamma(1.0, size=variants)
    return np.asarray(people @ people.T * np.outer(weights, weights))


def test_set_p_values__under_the_null_are_uniform() -> None:
    covariance = random_covariance(8)
    shared, root = SetCovariance.of(covariance), np.linalg.cholesky(covariance)
    found: dict[str, list[float]] = {}
    for scores in (root @ RNG.normal(size=(8, 300))).T:
        single = stats.chi2.sf(scores**2 / np.diag(covariance), 1)
        for name, value in set_p_values(shared, scores, single, np.ones(8)).items():
            found.setdefault(name, []).append(value)
    assert set(found) == {"skat", "skat_o", "skat_o_acat", "acat_v", "acat_o"}
    for name, p in found.items():
        assert stats.kstest(p, "uniform").pvalue > 0.01, name


def test_grid_p_values__run_from_skat_to_the_burden_test() -> None:
    covariance = random_covariance(6)
    scores = np.linalg.cholesky(covariance) @ RNG.normal(size=6)
    grid = SetCovariance.of(covariance).grid_p_values(scores)
    assert len(grid) == len(RHO)
    assert grid[-1] == pytest.approx(stats.chi2.sf(scores.sum() ** 2 / covariance.sum(), 1), rel=1e-5)
    values = np.linalg.eigvalsh(covariance)
    drawn = (values * np.random.default_rng(1).chisquare(1, (100_000, 6))).sum(axis=1)
    assert grid[0] == pytest.approx((drawn > (scores**2).sum()).mean(), abs=0.006)


def test_set_p_values__of_one_variant_are_its_own() -> None:
    p = stats.chi2.sf(3.0**2 / 4.0, 1)
    found = set_p_values(SetCovariance.of(np.array([[4.0]])), np.array([3.0]), np.array([p]), np.ones(1))
    assert all(value == pytest.approx(p, rel=1e-5) for value in found.values())


def test_optimal_p_value__stays_between_the_least_and_its_bound() -> None:
    covariance = np.diag([1.0, 2.0, 3.0, 4.0])
    shared = SetCovariance.of(covariance)
    for size in (0.1, 1, 4, 12):
        grid = shared.grid_p_values(size * np.array([1.0, 1, -1, 2]))
        assert grid.min() <= shared.optimal_p_value(grid) <= min(1, 8 * grid.min())
    balanced = np.array([[1.0, -1.0], [-1.0, 1.0]])  # the mean's score does not vary
    grid = SetCovariance.of(balanced).grid_p_values(np.array([2.0, -2.0]))[:1]
    assert SetCovariance.of(balanced).optimal_p_value(grid) == grid.min()


def test_weights__are_beta_densities_of_the_minor_allele() -> None:
    frequency = np.array([0.001, 0.3, 0.98])
    np.testing.assert_allclose(variant_weights(frequency), 25 * (1 - np.array([0.001, 0.3, 0.02])) ** 24)
    np.testing.assert_allclose(combination_weights(frequency, (1, 1)), frequency * (1 - frequency))


def test_set_covariance__refuses_scores_that_do_not_vary() -> None:
    with pytest.raises(ValueError, match="do not vary"):
        SetCovariance.of(np.zeros((2, 2)))
