"""The score test of a binary trait on a GPU: one product for a block of variants, and a kernel each for what comes before and after it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.launch import DeviceKernel, blocks_for
from pipeline.kernels.device.centred import CALLED, FREQUENCY, SQUARES, THREADS, centred, summed
from pipeline.kernels.device.explained import explained
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.kernels.logistic_null import NullModel
from pipeline.kernels.logistic_score import (
    COLLINEAR,
    COLLINEAR_BELOW,
    COVARIATES,
    FINE,
    MONOMORPHIC,
    ONE_GROUP,
    SINGULAR,
    TOO_FEW,
    ScoreTest,
)

if TYPE_CHECKING:
    from numba import cuda


def weigh_variants(dense: Any, calls: Any, people: Any, weighed: Any) -> None:
    """A block takes a variant, a thread every n-th person."""
    room = cuda.shared.array(128, np.float64)
    variant, own, cases = cuda.blockIdx.x, 0.0, 0.0
    for person in range(cuda.threadIdx.x, dense.shape[1], cuda.blockDim.x):
        own += people[0, person] * dense[variant, person] * dense[variant, person]
        if np.int32(calls[variant, person >> 2]) >> np.int32(2 * (person & 3)) & 3 != 3:
            cases += people[1, person]
    own, cases = summed(own, room), summed(cases, room)
    if cuda.threadIdx.x == 0:
        weighed[0, variant] = own
        weighed[1, variant] = cases


def _weigh_variants(dense: Any, calls: Any, people: Any, weighed: Any) -> None:
    fields = np.array([0, 2, 4, 6], np.uint8)
    called = (calls[:, :, None] >> fields & 3).reshape(len(calls), -1)[:, : dense.shape[1]] != 3
    weighed[:] = dense**2 @ people[0], called @ people[1]


weighed_variants = DeviceKernel(
    weigh_variants, "float64[:,::1] uint8[:,::1] float64[:,::1] float64[:,::1]", _weigh_variants, THREADS, (summed,)
)
"""Write g'Wg and the cases with a call, `float64[2, v]`; a block for each variant.

From dense genotypes, calls, and the people's weights and whether they are cases, `float64[2, n]`, 0 where they are not used.
"""


def conclude_score(moments: Any, own: Any, weighed: Any, crossed: Any, columns: int, tests: Any, samples: Any, reasons: Any) -> None:
    """A thread takes a variant."""
    variant = cuda.grid(1)
    if variant >= samples.shape[0]:
        return
    called, cases, left = moments[0, variant], weighed[1, variant], own[0, variant]
    reason = FINE
    if called - columns < 2 or called == 0:
        reason = TOO_FEW
    elif not moments[2, variant] > moments[3, variant]:
        reason = MONOMORPHIC
    elif cases == 0 or cases == called:
        reason = ONE_GROUP
    elif not own[1, variant] > SINGULAR:
        reason = COVARIATES
    elif left <= COLLINEAR_BELOW * weighed[0, variant]:
        reason = COLLINEAR
    tests[0, variant] = crossed[0, variant, 0]
    tests[1, variant] = left if reason == FINE else math.nan
    samples[variant] = int(called)
    reasons[variant] = reason


def _conclude_score(moments: Any, own: Any, weighed: Any, crossed: Any, columns: int, tests: Any, samples: Any, reasons: Any) -> None:
    called = moments[CALLED]
    reasons[:] = np.where(own[0] <= COLLINEAR_BELOW * weighed[0], COLLINEAR, FINE)
    reasons[~(own[1] > SINGULAR)] = COVARIATES
    reasons[(weighed[1] == 0) | (weighed[1] == called)] = ONE_GROUP
    reasons[~(moments[SQUARES] > moments[3])] = MONOMORPHIC
    reasons[(called - columns < 2) | (called == 0)] = TOO_FEW
    tests[:] = crossed[0, :, 0], np.where(reasons == FINE, own[0], np.nan)
    samples[:] = called


score_conclusions = DeviceKernel(
    conclude_score,
    "float64[:,::1] float64[:,::1] float64[:,::1] float64[:,:,::1] int64 float64[:,::1] int64[::1] uint8[::1]",
    _conclude_score,
    THREADS,
)
"""Write U and V, `float64[2, v]`, called people, and reasons, from moments (`device.centred`), what covariates leave (`device.explained`),
`weighed_variants` and the columns; a thread for each variant."""


def people_of(design: LogisticDesign, null: NullModel) -> tuple[Any, Any, Any]:
    """By sample, 0 where not used: the whitened basis `float64[n, k]`; it times the weights, and residuals; weights and cases."""
    xp = array_module(design.basis)
    whitened = null.whitening @ null.basis
    rows = xp.concatenate([whitened, whitened * null.weights, xp.stack([null.residuals, null.weights, xp.maximum(null.signs, 0)])])
    spread = xp.zeros((len(rows), design.n_samples))
    spread[:, design.people] = rows
    columns = design.columns
    return xp.ascontiguousarray(spread[:columns].T), xp.ascontiguousarray(spread[columns:-2].T), spread[-2:]


def score_on_device(block: GenotypeBlock, design: LogisticDesign, null: NullModel) -> ScoreTest:
    """What `score_test` gives, of CuPy arrays and a design beside them, of as many variants as memory holds."""
    xp, variants = block.xp, len(block)
    basis, weighted, people = people_of(design, null)
    genotypes = centred(block, design.mask, design.used)
    weighed, tests = xp.empty((2, variants)), xp.empty((2, variants))
    weighed_variants(variants, genotypes.dense, genotypes.calls, people, weighed)
    product = genotypes.dense @ weighted
    left = explained((genotypes.calls, weighed[0]), design.mask, (basis, weighted), product, xp.zeros(1), relative=True)
    samples, reasons = xp.empty(variants, xp.int64), xp.empty(variants, xp.uint8)
    arrays = genotypes.moments, left.own, weighed, left.crossed
    score_conclusions(blocks_for(variants, THREADS), *arrays, design.columns, tests, samples, reasons)
    return ScoreTest(tests[0], tests[1], samples, genotypes.moments[FREQUENCY], reasons)
