"""Both levels of a whole-genome regression against a plain one, which makes every matrix and solves it by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.kernels import ridge_predictors as level_0
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.ridge_design import RidgeDesign
from pipeline.kernels.ridge_predictors import SHARES, ridge_predictors
from pipeline.kernels.ridge_systems import ridge_effects
from pipeline.kernels.stacked_ridge import stacked_ridge

Numbers = NDArray[np.float64]
PEOPLE, SIZES = 143, (30, 17, 25)
CHROMOSOMES = (0, 0, 1)


def cohort() -> tuple[NDArray[np.uint8], Numbers, Numbers]:
    """Calls with gaps, of frequencies from rare to nearly fixed, two covariates, and three traits, one with gaps."""
    rng = np.random.default_rng(5)
    frequency = rng.beta(0.6, 0.6, (sum(SIZES), 1)).clip(0.02, 0.98)
    calls = rng.binomial(2, frequency, (sum(SIZES), PEOPLE)).astype(np.uint8)
    calls[:, 0], calls[:, 1] = 0, 2  # everything varies
    covariates = rng.normal(50, 9, (PEOPLE, 2))
    traits = rng.normal(0, 3, (PEOPLE, 3)) + 0.1 * covariates[:, :1] + calls[3][:, None] - calls[40][:, None]
    calls[rng.random(calls.shape) < 0.03] = 3
    traits[rng.random(PEOPLE) < 0.1, 1] = np.nan
    return calls, covariates, traits


def projected(values: Numbers, basis: Numbers) -> Numbers:
    """Rows less the mean of what they have, 0 where they have nothing, less what the basis explains, over norm / sqrt(n - k)."""
    filled = np.where(np.isnan(values), np.nanmean(values, axis=1, keepdims=True), values)
    left = filled - np.linalg.lstsq(basis, filled.T, rcond=None)[0].T @ basis.T
    return np.asarray(left / np.linalg.norm(left, axis=1, keepdims=True) * np.sqrt(basis.shape[0] - basis.shape[1]))


def folds_of(people: int, folds: int) -> list[NDArray[np.int64]]:
    fold = np.minimum(np.arange(people) // (people // folds), folds - 1)
    return [np.flatnonzero(fold == number) for number in range(folds)]


def cross_validated(rows: Numbers, trait: Numbers, penalty: float, folds: int = 5) -> tuple[Numbers, list[Numbers]]:
    """Each fold's people predicted by the others', by ridge regression on the rows; and the effects."""
    found, effects = np.empty(len(trait)), list[Numbers]()
    for out in folds_of(len(trait), folds):
        others = np.setdiff1d(np.arange(len(trait)), out)
        some = rows[:, others]
        effects.append(np.asarray(np.linalg.solve(some @ some.T + penalty * np.eye(len(rows)), some @ trait[others]), np.float64))
        found[out] = rows[:, out].T @ effects[-1]
    return found, effects


def plain_predictors(genotypes: Numbers, covariates: Numbers, traits: Numbers, sizes: Sequence[int]) -> Numbers:
    """`[block, t, h, n]`."""
    basis = np.column_stack([np.ones(len(covariates)), covariates])
    rows, scaled = projected(genotypes, basis), projected(traits.T, basis)
    blocks = np.split(rows, np.cumsum(sizes)[:-1])
    penalties = [len(rows) * (1 - share) / share for share in SHARES]
    found = np.array([[[cross_validated(block, trait, penalty)[0] for penalty in penalties] for trait in scaled] for block in blocks])
    return np.asarray((found - found.mean(axis=3, keepdims=True)) / found.std(axis=3, ddof=1, keepdims=True))


def blocks_of(calls: NDArray[np.uint8], *, dosages: bool) -> list[GenotypeBlock]:
    floats = np.where(calls == 3, np.nan, calls).astype(np.float32)
    return [
        GenotypeBlock(None, some, PEOPLE) if dosages else GenotypeBlock(pack(calls[low : low + len(some)]), None, PEOPLE)
        for low, some in zip(np.cumsum([0, *SIZES[:-1]]), np.split(floats, np.cumsum(SIZES)[:-1]), strict=True)
    ]


@pytest.mark.parametrize("dosages", [False, True])
@pytest.mark.parametrize(("small", "tolerance"), [(10**6, 2e-6), (0, 3e-5)])
def test_ridge_predictors__are_the_plain_ones(dosages: bool, small: int, tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_0, "_SMALL", small)
    monkeypatch.setattr(level_0, "BLOCK_BYTES", 4_000)  # some people at a time
    calls, covariates, traits = cohort()
    design = RidgeDesign.build(covariates, traits)
    found = np.array([ridge_predictors(block, design, sum(SIZES)) for block in blocks_of(calls, dosages=dosages)])
    expected = plain_predictors(np.where(calls == 3, np.nan, calls), covariates, traits, SIZES)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=tolerance)


def test_ridge_predictors__of_a_variant_that_covariates_explain_are_those_without_it() -> None:
    calls, covariates, traits = cohort()
    covariates[:, 1] = np.where(calls[2] == 3, calls[2][calls[2] != 3].mean(), calls[2])
    design = RidgeDesign.build(covariates, traits)
    whole, without = (
        ridge_predictors(GenotypeBlock(pack(some), None, PEOPLE), design, 30) for some in (calls[:30], np.delete(calls[:30], 2, 0))
    )
    np.testing.assert_allclose(whole, without, atol=2e-6)


def test_stacked_ridge__is_the_plain_one() -> None:
    calls, covariates, traits = cohort()
    design = RidgeDesign.build(covariates, traits)
    predictors = (
        plain_predictors(np.where(calls == 3, np.nan, calls), covariates, traits, SIZES).transpose(1, 0, 2, 3).reshape(3, -1, PEOPLE)
    )
    chromosomes = np.repeat(CHROMOSOMES, len(SHARES)).tolist()
    for place, rows in enumerate(predictors):
        found = stacked_ridge(rows.astype(np.float32), chromosomes, design.traits[:, place], design.folds)
        trait, penalties = design.traits[:, place], [len(rows) * (1 - share) / share for share in SHARES]
        fits = [cross_validated(rows, trait, penalty) for penalty in penalties]
        assert found.mean_squared_error is not None
        assert found.r_squared is not None
        np.testing.assert_allclose(found.mean_squared_error, [((trait - fit) ** 2).mean() for fit, _ in fits], rtol=1e-6)
        np.testing.assert_allclose(found.r_squared, [np.corrcoef(trait, fit)[0, 1] ** 2 for fit, _ in fits], rtol=1e-4, atol=1e-7)
        assert found.best == int(np.argmin([((trait - fit) ** 2).mean() for fit, _ in fits]))
        effects = fits[found.best][1]
        for left_out in (0, 1, 2):  # the last is none
            kept = np.array(chromosomes) != left_out
            expected = np.empty(PEOPLE)
            for out, effect in zip(folds_of(PEOPLE, 5), effects, strict=True):
                expected[out] = rows[kept][:, out].T @ effect[kept]
            np.testing.assert_allclose(found.predictions[left_out], expected, atol=1e-6)


def test_both_levels__of_many_people_and_few_blocks_keep_the_digits_that_a_small_penalty_looks_at() -> None:
    """Ten predictors of 4,000 people: at the least penalty level 1 is nearly free among predictions that are nearly the same."""
    rng = np.random.default_rng(6)
    calls = rng.binomial(2, rng.uniform(0.05, 0.95, (600, 1)), (600, 4_000)).astype(np.uint8)
    covariates, traits = rng.normal(50, 9, (4_000, 2)), rng.normal(0, 3, (4_000, 1))
    design, chromosomes = RidgeDesign.build(covariates, traits), np.repeat([0, 1], len(SHARES)).tolist()
    blocks = [GenotypeBlock(pack(some), None, 4_000) for some in (calls[:300], calls[300:])]
    predictors = np.concatenate([ridge_predictors(block, design, 600)[0] for block in blocks])
    rows = plain_predictors(calls.astype(float), covariates, traits, (300, 300))[:, 0].reshape(-1, 4_000)
    found = stacked_ridge(predictors, chromosomes, design.traits[:, 0], design.folds)
    assert found.best == len(SHARES) - 1
    expected, _ = cross_validated(rows, design.traits[:, 0], float(found.penalties[-1]))
    assert abs(found.predictions[-1] - expected).max() < 3e-5 * expected.std()


def test_ridge_effects__in_float32_are_those_of_float64_or_float64_itself() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, 25))  # of rank 25
    right = rng.normal(size=(40, 2))
    found = ridge_effects(rows @ rows.T, right, [1e-9, 1e-3, 10.0], single=True)
    for solution, penalty in zip(found, (1e-9, 1e-3, 10.0), strict=True):
        expected = np.linalg.solve(rows @ rows.T + penalty * np.eye(40), right)
        assert np.linalg.norm(solution - expected) <= 1e-4 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda covariates, traits: (covariates[:7], traits[:7]), "7 people have a trait and all covariates; 5 folds need 10"),
        (lambda covariates, traits: (covariates[:, [0, 0]], traits), "Covariate 'b' is a linear combination of the intercept and a"),
        (lambda covariates, traits: (covariates, traits * 0), "Trait 'x' is constant"),
        (lambda covariates, traits: (covariates, traits * np.nan), "Trait 'x' is missing for all 143 samples"),
    ],
)
def test_ridge_design__refuses_what_it_cannot_fit(change: Any, text: str) -> None:
    _, covariates, traits = cohort()
    covariates, traits = change(covariates, traits)
    with pytest.raises(DataError, match=text):
        RidgeDesign.build(covariates, traits, (("a", "b"), ("x", "y", "z")))
