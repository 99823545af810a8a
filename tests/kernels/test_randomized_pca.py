from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.kernels import standardized
from pipeline.kernels.genotypes import alt_frequency, call_counts, pack
from pipeline.kernels.randomized_pca import EXTRA, Krylov, RitzPairs, krylov_start, krylov_step, relationship_product, ritz_pairs

Floats = NDArray[np.float64]


def cohort(n_variants: int = 900, n_samples: int = 70, groups: int = 4) -> tuple[NDArray[np.uint8], Floats]:
    """Packed calls of people of some populations, with missing ones, and the standardized calls."""
    rng = np.random.default_rng(4)
    means = np.clip(rng.uniform(0.2, 0.8, (n_variants, 1)) + rng.normal(0, 0.12, (n_variants, groups)), 0.05, 0.95)
    calls = rng.binomial(2, means[:, np.arange(n_samples) % groups]).astype(np.uint8)
    calls[rng.random(calls.shape) < 0.02] = 3
    frequency = alt_frequency(call_counts(pack(calls), n_samples))
    varies = (frequency > 0) & (frequency < 1)
    calls, f = calls[varies], frequency[varies][:, None]
    return pack(calls), np.where(calls == 3, 0, (calls - 2 * f) / np.sqrt(2 * f * (1 - f)))


def found(packed: NDArray[np.uint8], n_samples: int, components: int, passes: int, seed: int = 1) -> tuple[RitzPairs, Krylov]:
    state = krylov_start(n_samples, components, seed)
    frequency = alt_frequency(call_counts(packed, n_samples))
    for _ in range(passes):
        state = krylov_step(state, relationship_product(packed, n_samples, frequency, state.bases[-1]) / len(packed))
    return ritz_pairs(state, components), state


@pytest.mark.parametrize("n_samples", [1, 31, 70])
def test_relationship_product__equals_the_definition(n_samples: int) -> None:
    packed, standard = cohort(n_samples=n_samples)
    vectors = np.random.default_rng(2).normal(size=(n_samples, 5))
    frequency = alt_frequency(call_counts(packed, n_samples))
    product = relationship_product(packed, n_samples, frequency, vectors)
    np.testing.assert_allclose(product, standard.T @ (standard @ vectors), rtol=1e-10, atol=1e-9)
    empty = relationship_product(packed[:0], n_samples, frequency[:0], vectors)
    assert np.array_equal(empty, np.zeros((n_samples, 5)))


def test_relationship_product__in_float32_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    packed, standard = cohort()
    monkeypatch.setattr(standardized, "_SMALL", 1)
    vectors = np.random.default_rng(2).normal(size=(70, 5))
    product = relationship_product(packed, 70, alt_frequency(call_counts(packed, 70)), vectors)
    expected = standard.T @ (standard @ vectors)
    assert 0 < np.abs(product - expected).max() / np.abs(expected).max() < 1e-6


def test_ritz_pairs__are_the_leading_eigenvectors() -> None:
    packed, standard = cohort(n_samples=200)
    values, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
    pairs, state = found(packed, 200, 5, 10)
    basis = np.concatenate(state.bases, axis=1)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    np.testing.assert_allclose(pairs.values[:3], values[::-1][:3], rtol=1e-12)
    np.testing.assert_allclose(pairs.values, values[::-1][:5], rtol=1e-4)
    assert (pairs.values <= values[::-1][:5] * (1 + 1e-12)).all()
    together = np.abs((pairs.vectors * vectors[:, ::-1][:, :5]).sum(axis=0))
    assert together[:3].min() > 1 - 1e-10
    assert (pairs.residuals[:3] < 1e-6).all()
    exact = np.linalg.norm(standard.T @ (standard @ pairs.vectors) / len(standard) - pairs.vectors * pairs.values, axis=0) / pairs.values
    np.testing.assert_allclose(pairs.residuals, exact, rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("n_samples", [1, 3, 23])
def test_ritz_pairs__of_fewer_people_than_the_basis_could_hold_are_exact(n_samples: int) -> None:
    packed, standard = cohort(n_samples=n_samples)
    components = min(3, n_samples)
    pairs, state = found(packed, n_samples, components, 10)
    assert sum(block.shape[1] for block in state.bases) <= n_samples
    np.testing.assert_allclose(
        pairs.values, np.linalg.eigvalsh(standard.T @ standard / len(standard))[::-1][:components], rtol=1e-10, atol=1e-12
    )


def test_krylov_start__is_orthonormal_and_the_same_for_a_seed() -> None:
    (start,), products = krylov_start(50, 3, 8)
    np.testing.assert_allclose(start.T @ start, np.eye(3 + EXTRA), atol=1e-13)
    assert products == ()
    assert np.array_equal(start, krylov_start(50, 3, 8).bases[0])
    assert not np.allclose(start, krylov_start(50, 3, 9).bases[0])
