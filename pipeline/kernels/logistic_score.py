"""The score test of a binary trait on each variant, with covariates: the null model's fit and products, no regression of its own.

U = g'r and V = g'Wg - (g'WX)(X'WX)^-1(X'Wg), with r the null model's residuals and W its weights; z = U / sqrt(V) (Rao 1948).

A variant with missing genotypes is tested on its called people C (complete case): U = g'r - (g'WX)_C (X'WX)_C^-1 (X'r)_C and V from sums
over C, which is the test after one step of Newton's method from the null model towards that of C; its weights stay the null model's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, alt_frequency, call_counts, variant_blocks
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.kernels.logistic_null import NullModel
from pipeline.kernels.logistic_terms import solve

FINE, TOO_FEW, MONOMORPHIC, COLLINEAR, COVARIATES, ONE_GROUP, SEPARATED, UNCONVERGED, NO_SADDLE = range(9)
REASONS = (
    "",
    "too few called samples",
    "no variation among the called samples",
    "collinear with the covariates",
    "the covariates are collinear among the called samples",
    "only cases or only controls among the called samples",
    "no finite estimate: the variant, or the covariates, separate cases from controls; Firth's method gives one",
    "Firth's method did not converge",
    "the saddle point of the score was not found",
)
"""Why a variant has no result, by its code."""

COLLINEAR_BELOW = 1e-9
SINGULAR = 1e-9


@dataclass(frozen=True)
class ScoreTest:
    """Results of v variants."""

    score: Array
    """`float64[v]`: U."""
    information: Array
    """`float64[v]`: V; NaN where `reason` is not 0."""
    n: Array
    """`int64[v]`: called people."""
    effect_allele_frequency: Array
    """`float64[v]`: of ALT among their alleles."""
    reason: Array
    """`uint8[v]`: place in `REASONS`, 0 where all is well."""


@dataclass(frozen=True)
class _Sums:
    """Of v variants over their called people; genotypes count from a mean."""

    called: Array
    cases: Array
    frequency: Array
    varies: Array
    score: Array
    own: Array
    """g'Wg."""
    information: Array
    regular: Array


def score_test(block: GenotypeBlock, design: LogisticDesign, trait: int) -> ScoreTest:
    """Score tests of every variant of a block with one trait of the design. Raises ValueError for a design of other samples."""
    if design.n_samples != block.n_samples:
        raise ValueError(f"The design is of {design.n_samples} samples, the genotypes are of {block.n_samples}.")
    if block.compiled:
        return _finish(_compiled_sums(block, design, trait), design)
    if block.xp is np:
        return score_test_plain(block, design, trait)
    from pipeline.kernels.device.score import score_on_device

    return _joined(block, block_bytes(block.array, BLOCK_BYTES), lambda part: score_on_device(part, design, design.null(trait)))


def score_test_plain(block: GenotypeBlock, design: LogisticDesign, trait: int) -> ScoreTest:
    """What `score_test` gives, by array operations: for dosages, and as the oracle of the compiled and the GPU's kernels."""
    design = design.beside(block.array)
    null = design.null(trait)
    return _joined(block, BLOCK_BYTES // 4, lambda part: _finish(_plain_sums(part, design, null), design))


def _joined(block: GenotypeBlock, limit: int, test: Callable[[GenotypeBlock], ScoreTest]) -> ScoreTest:
    """The tests of a block, some variants at a time."""
    tests = [test(block.part(rows)) for rows in variant_blocks(len(block), 8 * block.n_samples, limit)] or [test(block)]
    if len(tests) == 1:
        return tests[0]
    return ScoreTest(**{name: block.xp.concatenate([getattr(one, name) for one in tests]) for name in ScoreTest.__dataclass_fields__})


def _finish(sums: _Sums, design: LogisticDesign) -> ScoreTest:
    xp = design.xp
    reason = xp.full(len(sums.called), FINE, xp.uint8)
    reason[sums.information <= COLLINEAR_BELOW * sums.own] = COLLINEAR
    reason[~sums.regular] = COVARIATES
    reason[(sums.cases == 0) | (sums.cases == sums.called)] = ONE_GROUP
    reason[~sums.varies] = MONOMORPHIC
    reason[(sums.called - design.columns < 2) | (sums.called == 0)] = TOO_FEW
    information = xp.where(reason == FINE, sums.information, xp.nan)
    return ScoreTest(sums.score, information, sums.called.astype(xp.int64), sums.frequency, reason)


def _plain_sums(block: GenotypeBlock, design: LogisticDesign, null: NullModel) -> _Sums:
    """Sums of dense genotypes, centred before any product."""
    xp = block.xp
    genotypes = block.coded(slice(None))[:, design.people]
    missing = xp.isnan(genotypes)
    absent = missing.astype(xp.float64)
    called = genotypes.shape[1] - absent.sum(axis=1)
    means = xp.where(missing, 0, genotypes).sum(axis=1) / xp.maximum(called, 1)
    size = abs(xp.where(missing, 0, genotypes)).max(axis=1)
    centred = xp.where(missing, 0, genotypes - means[:, None])
    cases = (null.signs > 0).astype(xp.float64)
    roots, whitened = xp.sqrt(null.weights), null.whitening @ null.basis
    products = centred @ (whitened * null.weights).T
    own = (centred**2) @ null.weights
    first, second = xp.triu_indices(design.columns)
    matrices = xp.broadcast_to(xp.eye(design.columns), (len(block), design.columns, design.columns)).copy()
    matrices[:, first, second] -= absent @ ((whitened * roots)[first] * (whitened * roots)[second]).T
    matrices[:, second, first] = matrices[:, first, second]
    shift = -absent @ (whitened * null.residuals).T
    solved = solve(matrices, xp.stack([products, shift], axis=2))
    solution = solved.solution
    alleles, called = block.alleles(design.mask)
    return _Sums(
        called=called,
        cases=cases.sum() - absent @ cases,
        frequency=xp.where(called > 0, alleles / 2 / xp.maximum(called, 1), xp.nan),
        # Dosages are printed to a few digits at best: a spread of 1e-12 of their size is that of rounding.
        varies=(centred**2).sum(axis=1) > called * (1e-12 * size) ** 2,
        score=centred @ null.residuals - (products * solution[:, :, 1]).sum(axis=1),
        own=own,
        information=own - (products * solution[:, :, 0]).sum(axis=1),
        regular=solved.least > SINGULAR,
    )


def _compiled_sums(block: GenotypeBlock, design: LogisticDesign, trait: int) -> _Sums:
    """Sums of packed calls from shared products; nothing is unpacked."""
    from pipeline.kernels.compiled.logistic_score import fill_missing_people, score_each
    from pipeline.kernels.compiled.products import calls_product

    null, (one, two) = design.null(trait), block.codes
    calls = np.ascontiguousarray(block.calls) & design.mask
    counts = call_counts(calls, design.n_samples)
    counts[:, 0] -= design.n_samples - design.used
    called = counts[:, :3].sum(axis=1)
    spread = called * (one**2 * counts[:, 1] + two**2 * counts[:, 2]) - (one * counts[:, 1] + two * counts[:, 2]) ** 2
    # By person: the whitened basis, residual, weight.
    values = np.zeros((design.n_samples, design.columns + 2))
    values[design.people] = np.vstack([null.whitening @ null.basis, null.residuals, null.weights]).T
    weighted = np.concatenate([values[:, :-2] * values[:, -1:], values[:, -2:-1]], axis=1)
    products = calls_product(calls, weighted, block.codes)
    squares = np.ascontiguousarray(calls_product(calls, np.ascontiguousarray(values[:, -1:]), (one**2, two**2))[:, 0])
    starts = np.concatenate([[0], np.cumsum(counts[:, 3])])
    missing = np.empty(starts[-1], np.int64)
    fill_missing_people(calls, missing)
    score, own, information, least, cases = (np.empty(len(calls)) for _ in range(5))
    score_each(products, squares, (starts, missing), values, (score, own, information, least, cases))
    return _Sums(
        called=called,
        cases=(null.signs > 0).sum() - cases,
        frequency=alt_frequency(counts),
        varies=spread > 0,
        score=score,
        own=own,
        information=information,
        regular=least > SINGULAR,
    )
