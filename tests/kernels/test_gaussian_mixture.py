"""Mixtures by blocks of rows: densities are SciPy's, and sums of blocks those of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.kernels.gaussian_mixture import (
    Kind,
    Mixture,
    added,
    log_densities,
    maximized,
    mixture_sums,
    nearest_sums,
    parameters,
    posteriors,
)

KINDS: list[Kind] = ["full", "diagonal", "tied"]


def mixture_of(kind: Kind, rows: Any) -> Mixture:
    centers = rows[:3]
    return maximized(centers, nearest_sums(rows, centers, kind), kind, 1e-6)


def points(rows: int = 300, features: int = 4) -> Any:
    return np.random.default_rng(7).normal(size=(rows, features)) * np.arange(1, features + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_log_densities__are_scipys_and_the_same_for_a_row_alone(kind: Kind) -> None:
    from scipy.stats import multivariate_normal

    rows = points()
    mixture = mixture_of(kind, rows)
    spreads = [mixture.covariances if kind == "tied" else mixture.covariances[number] for number in range(3)]
    densities = [multivariate_normal(mean, spread).logpdf(rows) for mean, spread in zip(mixture.means, spreads, strict=True)]
    expected = np.log(mixture.weights) + np.stack(densities, axis=1)
    np.testing.assert_allclose(log_densities(rows, mixture, kind), expected, rtol=1e-10)
    alone = log_densities(rows, mixture, kind, alone=True)
    np.testing.assert_allclose(alone, expected, rtol=1e-10)
    assert all(np.array_equal(log_densities(rows[at : at + 1], mixture, kind, alone=True)[0], alone[at]) for at in range(50))
    shares, density = posteriors(expected)
    np.testing.assert_allclose(density, np.log(np.exp(expected).sum(axis=1)), rtol=1e-12)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_mixture_sums__of_blocks_add_up(kind: Kind) -> None:
    rows = points()
    mixture = mixture_of(kind, rows)
    whole = maximized(mixture.means, mixture_sums(rows, mixture, kind), kind, 0)
    blocks = added([mixture_sums(block, mixture, kind) for block in np.split(rows, [0, 7, 200])])
    for found, expected in zip(maximized(mixture.means, blocks, kind, 0), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert blocks.rows == 300


def test_posteriors__of_rows_far_from_all_are_finite() -> None:
    shares, density = posteriors(np.array([[-1e5, -1e5 - 1], [-np.inf, 0.0]]))
    np.testing.assert_allclose(shares, [[1 / (1 + np.exp(-1)), 1 / (1 + np.e)], [0, 1]], rtol=1e-12)
    assert np.isfinite(density).all()


def test_parameters__count_what_scikit_learn_counts() -> None:
    from sklearn.mixture import GaussianMixture

    for kind in KINDS:
        oracle = GaussianMixture(3, covariance_type={"diagonal": "diag"}.get(kind, kind)).fit(points())
        assert parameters(3, 4, kind) == oracle._n_parameters()
