"""LD score regression: ldsc's numbers, and the same regressions fitted block by block with numpy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri

from pipeline.kernels.ld_score_regression import Scores, genetic_correlation, genetic_covariance, heritability

M = 150_000.0
# ldsc 2.0.1 (ldscore.regressions.Hsq and RG, 200 blocks) of `two_traits`: heritability, its error, intercept, its error.
TWO_STEPS = (0.3851472662160695, 0.03291146433923927, 1.0547324810173633, 0.05855901849122067)
ONE_STEP = (0.3956780788699772, 0.03251717576615705, 1.0407903889887822, 0.05825442897624401)
HELD = (0.4122048758019036, 0.03018379683804551)
# Correlation, its error, covariance, its error, intercept, its error.
CORRELATION = (
    0.44858461721122433,
    0.04798647953804317,
    0.15513664738972646,
    0.020028590206227506,
    0.24781959514637608,
    0.04264253921337975,
)
CORRELATION_TWO_STEPS = (
    0.4459684617640442, 0.05021681972681731, 0.15039043013093947, 0.019833856163680937, 0.2547420747365412, 0.041171137781379256,
)  # fmt: skip
CORRELATION_HELD = (0.9934932914764202, 0.0576327014919739, 0.35956195103189864, 0.025760247796578224)


def scrambled(rows: int, columns: int, seed: int) -> NDArray[np.float64]:
    """Numbers from 0 to 1 that are the same with any library (splitmix64)."""
    x = (np.arange(rows * columns, dtype=np.uint64) + np.uint64(1 + seed * 10**9)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype(float) / 2**53).reshape(rows, columns)


@cache
def two_traits() -> tuple[Any, Any, Any]:
    """z and n of two correlated traits of overlapping people, and LD scores: 4,000 variants, to six digits."""
    u, e = scrambled(6, 4000, 77), ndtri(scrambled(2, 4000, 78))
    ld, n = 1 + 60 * u[0] ** 3, (np.floor(40_000 + 10_000 * u[1]), np.floor(60_000 + 5_000 * u[2]))
    shared, other = ndtri(u[5]), ndtri(u[4])
    first = np.sqrt(0.4 * ld / M * n[0]) * shared + 1.05 * e[0]
    second = np.sqrt(0.3 * ld / M * n[1]) * (0.5 * shared + np.sqrt(0.75) * other) + 1.02 * (0.2 * e[0] + np.sqrt(0.96) * e[1])
    return (np.round(first, 6), np.round(second, 6)), n, np.round(ld, 6)


def numbers(limit: float | None, held: float | None = None) -> tuple[float, ...]:
    z, n, ld = two_traits()
    fit = heritability(z[0] ** 2, n[0], Scores(ld, M, 200, limit), held)
    return float(fit.total.value[0]), float(fit.total.standard_error[0]), fit.intercept, fit.intercept_error


def correlated(limit: float | None, held: tuple[float | None, float | None] = (None, None)) -> tuple[float, ...]:
    z, n, ld = two_traits()
    scores = Scores(ld, M, 200, limit)
    fits = heritability(z[0] ** 2, n[0], scores, held[0]), heritability(z[1] ** 2, n[1], scores, held[0])
    covariance = genetic_covariance(z, n, scores, fits, held[1])
    total = covariance.total
    return (
        *genetic_correlation(covariance, fits), float(total.value[0]), float(total.standard_error[0]), covariance.intercept,
        covariance.intercept_error,
    )  # fmt: skip


def test_heritability__is_that_of_ldsc_in_two_steps_in_one_and_with_a_given_intercept() -> None:
    assert numbers(30.0) == pytest.approx(TWO_STEPS, rel=1e-10)
    assert numbers(None) == pytest.approx(ONE_STEP, rel=1e-10)
    assert numbers(None, 1.02)[:2] == pytest.approx(HELD, rel=1e-10)
    assert np.isnan(numbers(None, 1.02)[3])


def test_genetic_correlation__is_that_of_ldsc() -> None:
    assert correlated(None) == pytest.approx(CORRELATION, rel=1e-10)
    assert correlated(30.0) == pytest.approx(CORRELATION_TWO_STEPS, rel=1e-10)
    assert correlated(None, (1.0, 0.0))[:4] == pytest.approx(CORRELATION_HELD, rel=1e-10)


def test_heritability__jackknife_leaves_blocks_out_one_after_another() -> None:
    """The last weights, found the slow way, and a weighted least squares without each block."""
    z, n, ld = two_traits()
    chi, x = z[0] ** 2, np.column_stack([n[0] * ld / M, np.ones(4000)])
    b = np.array([(chi.mean() - 1) / x[:, 0].mean(), 1.0])
    for _ in range(3):
        weights = 1 / (2 * (b[1] + b[0] * x[:, 0]) ** 2 * ld)
        b = np.linalg.lstsq(x * np.sqrt(weights)[:, None], chi * np.sqrt(weights))[0]
    without = []
    for low in range(0, 4000, 20):
        rest = np.r_[0:low, low + 20 : 4000]
        root = np.sqrt(weights[rest])
        without.append(np.linalg.lstsq(x[rest] * root[:, None], chi[rest] * root)[0])
    error = np.sqrt(199 / 200 * ((np.array(without) - np.mean(without, axis=0)) ** 2).sum(axis=0))
    assert numbers(None) == pytest.approx((b[0], error[0], b[1], error[1]), rel=1e-9)


def test_genetic_correlation__of_a_trait_without_heritability_is_none() -> None:
    z, n, ld = two_traits()
    scores = Scores(ld, M, 50)
    flat = np.where(np.arange(4000) % 2 == 0, 1.0, -1.0) * (1 + 0.001 * (70 - ld))
    fits = heritability(z[0] ** 2, n[0], scores), heritability(flat**2, n[1], scores)
    assert fits[1].total.value[0] < 0
    assert np.isnan(genetic_correlation(genetic_covariance((z[0], flat), n, scores, fits), fits)).all()
    below = replace(fits[0], intercept=-20.0)
    none = genetic_covariance(z, n, scores, (below, fits[0]))
    assert np.isnan([none.total.value[0], none.total.standard_error[0], none.intercept, *genetic_correlation(none, (below, fits[0]))]).all()
