"""SKAT and its kin of scores drawn under the null, and where one variant makes them chi-square."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pipeline.kernels.variance_components import RHO, SetCovariance, combination_weights, set_tests, variant_weights

RNG = np.random.default_rng(6)


def random_covariance(variants: int) -> NDArray[np.float64]:
    people = RNG.normal(size=(variants, 3 * variants)) + RNG.normal(size=3 * variants)
    weights = RNG.gamma(1.0, size=variants)
    return np.asarray(people @ people.T * np.outer(weights, weights))


def test_set_tests__under_the_null_are_uniform() -> None:
    covariance = random_covariance(8)
    shared, root = SetCovariance.of(covariance), np.linalg.cholesky(covariance)
    found: dict[str, list[float]] = {}
    for scores in (root @ RNG.normal(size=(8, 300))).T:
        single = -np.log10(stats.chi2.sf(scores**2 / np.diag(covariance), 1))
        for name, value in set_tests(shared, scores, single, np.ones(8)).items():
            found.setdefault(name, []).append(10**-value)
    assert set(found) == {"skat", "skat_o", "skat_o_acat", "acat_v", "acat_o"}
    for name, p in found.items():
        assert stats.kstest(p, "uniform").pvalue > 0.01, name


def test_grid__run_from_skat_to_the_burden_test() -> None:
    covariance = random_covariance(6)
    scores = np.linalg.cholesky(covariance) @ RNG.normal(size=6)
    grid = SetCovariance.of(covariance).grid(scores)
    assert len(grid) == len(RHO)
    assert 10 ** -grid[-1] == pytest.approx(stats.chi2.sf(scores.sum() ** 2 / covariance.sum(), 1), rel=1e-5)
    values = np.linalg.eigvalsh(covariance)
    drawn = (values * np.random.default_rng(1).chisquare(1, (100_000, 6))).sum(axis=1)
    assert 10 ** -grid[0] == pytest.approx((drawn > (scores**2).sum()).mean(), abs=0.006)


def test_set_tests__of_one_variant_are_its_own() -> None:
    p = -np.log10(stats.chi2.sf(3.0**2 / 4.0, 1))
    found = set_tests(SetCovariance.of(np.array([[4.0]])), np.array([3.0]), np.array([p]), np.ones(1))
    assert all(value == pytest.approx(p, rel=1e-5) for value in found.values())


def test_optimal__stays_between_the_least_and_its_bound() -> None:
    covariance = np.diag([1.0, 2.0, 3.0, 4.0])
    shared = SetCovariance.of(covariance)
    for size in (0.1, 1, 4, 12, 200):
        grid = shared.grid(size * np.array([1.0, 1, -1, 2]))
        assert grid.max() >= shared.optimal(grid) >= max(0, grid.max() - np.log10(8))
    balanced = np.array([[1.0, -1.0], [-1.0, 1.0]])  # the mean's score does not vary
    grid = SetCovariance.of(balanced).grid(np.array([2.0, -2.0]))[:1]
    assert SetCovariance.of(balanced).optimal(grid) == grid.max()


def test_weights__are_beta_densities_of_the_minor_allele() -> None:
    frequency = np.array([0.001, 0.3, 0.98])
    np.testing.assert_allclose(variant_weights(frequency), 25 * (1 - np.array([0.001, 0.3, 0.02])) ** 24)
    np.testing.assert_allclose(combination_weights(frequency, (1, 1)), frequency * (1 - frequency))


def test_set_covariance__refuses_scores_that_do_not_vary() -> None:
    with pytest.raises(ValueError, match="do not vary"):
        SetCovariance.of(np.zeros((2, 2)))
