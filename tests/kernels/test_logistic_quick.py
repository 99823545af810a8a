from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.kernels.logistic_firth import firth
from pipeline.kernels.logistic_null import NullModel, triple_places
from pipeline.kernels.logistic_penalty import pairs_plain, penalized_terms, traces_plain
from pipeline.kernels.logistic_quick import quick_firth, quick_firth_plain, quick_wald, quick_wald_plain
from pipeline.kernels.logistic_terms import Maximum, centre, centre_plain, land_plain, squares_plain
from pipeline.kernels.logistic_wald import wald

Floats = NDArray[np.float64]
COHORTS = [
    # People, cases, covariates, what these explain, and most copies of ALT a person; variants that are settled at least.
    (120, 50, 2, 0.3, 1.0, 130, 130),
    (150, 30, 3, 2.5, 0.05, 90, 0),
    (400, 15, 3, 2.5, 0.02, 10, 0),
    (300, 100, 8, 0.5, 0.3, 100, 100),
    (1500, 60, 1, 0.2, 0.05, 60, 40),
    (60, 20, 5, 0.5, 1.0, 110, 100),
]


def cohort(number: int) -> tuple[Floats, Floats, NullModel]:
    """Centred genotypes of 150 variants, a mask, and the null model."""
    people, cases, covariates, strength, most, *_ = COHORTS[number]
    rng = np.random.default_rng(number)
    values = rng.normal(size=(people, covariates))
    values[:, 0] = values[:, 0] > 0.8
    liability = strength * values.sum(axis=1) + rng.logistic(size=people)
    trait = (liability >= np.sort(liability)[-cases]).astype(float)
    genotypes = rng.binomial(2, rng.uniform(most / 10, most, (150, 1)) / 2, (150, people)).astype(float)
    genotypes[:, 0] = np.maximum(genotypes[:, 0], 1 - np.median(genotypes, axis=1))
    genotypes[:50][rng.random((50, people)) < 0.05] = np.nan
    return *centre(genotypes), LogisticDesign.build(values, trait[:, None]).null(0)


def assert_same(quick: Maximum, careful: Maximum) -> Any:
    """Where there is one; gives where that is."""
    settled = ~np.isnan(quick.beta)
    off = abs(quick.beta - careful.beta)[settled] / careful.standard_error[settled]
    assert off.max(initial=0) < 1e-6
    np.testing.assert_allclose(quick.standard_error[settled], careful.standard_error[settled], rtol=1e-6)
    return settled


@pytest.mark.parametrize("number", range(len(COHORTS)))
def test_quick_wald__gives_the_maximum_or_leaves_it(number: int) -> None:
    centred, mask, null = cohort(number)
    settled = assert_same(quick_wald(centred, mask, null), wald(centred, mask, null))
    assert settled.sum() >= COHORTS[number][5]


@pytest.mark.parametrize("free", [True, False], ids=["free", "held"])
@pytest.mark.parametrize("number", range(len(COHORTS)))
def test_quick_firth__gives_the_higher_of_two_maxima_or_leaves_it(number: int, free: bool) -> None:
    centred, mask, null = cohort(number)
    quick = quick_firth(centred, mask, null, free=free)
    settled = assert_same(quick, firth(centred, mask, null, free=free))
    assert settled.sum() >= COHORTS[number][6]
    if not free:
        assert (quick.beta[settled] == 0).all()


@pytest.mark.parametrize("number", range(len(COHORTS)))
def test_quick_steps__compiled_are_the_plain_ones(number: int) -> None:
    centred, mask, null = cohort(number)
    for found, expected in [
        (quick_wald(centred, mask, null), quick_wald_plain(centred, mask, null)),
        (quick_firth(centred, mask, null), quick_firth_plain(centred, mask, null)),
        (quick_firth(centred, mask, null, free=False), quick_firth_plain(centred, mask, null, free=False)),
    ]:
        np.testing.assert_allclose(found.point, expected.point, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-8)
    nothing = quick_firth(centred[:0], mask[:0], null), quick_wald(centred[:0], mask[:0], null)
    assert [one.point.shape for one in nothing] == [(0, len(null.basis) + 1)] * 2


@pytest.mark.parametrize("number", range(len(COHORTS)))
def test_penalized_likelihood__stays_below_the_sum_that_quick_firth_relies_on(number: int) -> None:
    centred, mask, null = cohort(number)
    rng = np.random.default_rng(number)
    signed = centred * null.signs
    columns = np.concatenate([np.broadcast_to(null.signed.T, (*signed.shape, len(null.basis))), signed[:, :, None]], axis=2)
    start = np.concatenate([null.coefficients, [0.0]]) + rng.normal(0, 0.2, (len(signed), columns.shape[2]))
    here = penalized_terms(signed, mask, null, start)
    squares = np.einsum("vni,vij,vnj->vn", columns, here.inverse, columns) * mask
    np.testing.assert_allclose(here.leverages, squares * here.weights, rtol=1e-6, atol=1e-12)
    assert (here.largest >= squares.max(axis=1) * (1 - 1e-9))[here.regular].all()

    def heights(point: Floats) -> Floats:
        margins = np.einsum("vni,vi->vn", columns, point)
        hit = 1 / (1 + np.exp(-margins))
        return np.asarray((mask * (squares * hit * (1 - hit) / 2 - np.logaddexp(0, -margins))).sum(axis=1))

    for spread in (0.1, 1.0, 10.0):
        point = start + rng.normal(0, spread, start.shape)
        there = penalized_terms(signed, mask, null, point)
        known = here.regular & there.regular
        assert known.sum() > 20
        above = (there.value - here.value - heights(point) + heights(start))[known]
        assert above.max() < 1e-7


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 7), (33, 64), (2, 1001)])
def test_compiled_sweeps__are_the_plain_ones(shape: tuple[int, int]) -> None:
    from pipeline.kernels.compiled.logistic import fill_traces, land_each
    from pipeline.kernels.compiled.logistic_systems import fill_pairs, fill_squares

    rng = np.random.default_rng(shape[1])
    genotypes = rng.integers(0, 3, shape).astype(float)
    genotypes[rng.random(shape) < 0.2] = np.nan
    for ours, plain in zip(centre(genotypes), centre_plain(genotypes), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-12, atol=1e-14)
    moved, turned, signed, bends = rng.normal(size=(4, *shape))
    mask, slopes = (rng.random(shape) < 0.9).astype(float), (rng.normal(size=shape[0]), rng.normal(size=shape[0]))
    if shape[0]:
        expected = land_plain(moved, turned, (signed, mask, bends), slopes)
        found = np.empty(shape[0]), np.empty(shape[0])
        land_each(moved, turned, (signed, mask, bends), slopes, found)
        for ours, plain in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, plain, rtol=1e-11, atol=1e-12)
    pairs, cross, own = rng.normal(size=(shape[0], 6)), rng.normal(size=(shape[0], 3)), rng.normal(size=shape[0])
    squares, again = np.empty((shape[0], 4, 4)), np.empty((shape[0], 6))
    fill_squares(pairs, cross, own, squares)
    assert np.array_equal(squares, squares_plain(pairs, cross, own))
    fill_pairs(squares, again)
    assert np.array_equal(again, pairs_plain(squares))
    sums, traces = rng.normal(size=(shape[0], 20)), np.empty(squares.shape)
    fill_traces(sums, triple_places(3), squares, traces)
    np.testing.assert_allclose(traces, traces_plain(sums, squares), rtol=1e-11, atol=1e-12)
