"""Logistic regression of a binary trait on each variant, with covariates: maximum likelihood (Wald) and Firth's penalized likelihood.

Newton's method for many variants side by side, from the null model's fit and one step of the score test. With the margin m (log odds of
what a person is), q = 1 / (1 + exp(m)) and w = q (1 - q), the gradient is X'(+-q) and the information X'WX; the covariates' part of the
latter is one matrix product of the weights with products of the covariates' pairs. Missing genotypes have weight 0, so each variant
is the regression of its called people (complete case).

Firth's (logistic_firth.py), as Heinze & Schemper (2002), Stat Med 21:2409-2419, has standard errors from X'WX, as PLINK 2.00a3.5 reports
them; its penalized likelihood ratio holds the effect at none and keeps the genotype in the penalty, as logistf, EPACTS and regenie do.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import BLOCK_BYTES, Array
from pipeline.kernels.logistic_design import NullModel
from pipeline.kernels.logistic_firth import firth, likelihood_ratio
from pipeline.kernels.logistic_wald import wald

Method = Literal["wald", "firth", "firth_fallback"]
PValue = Literal["wald", "lrt"]

SCORE, WALD, FIRTH, FIRTH_LRT = range(4)
TESTS = ("score", "wald", "firth", "firth_lrt")

_TEMPORARY_BYTES = 4 << 20


@dataclass(frozen=True)
class Refit:
    """Estimates of v variants; NaN where there is none: separation for `WALD`, no convergence for Firth's."""

    beta: Array
    """`float64[v]`, log odds ratio of one more in the genotype."""
    standard_error: Array
    """`float64[v]`."""
    statistic: Array
    """`float64[v]`: beta over its standard error; for `FIRTH_LRT` the root of the likelihood ratio, with the sign of beta."""
    test: Array
    """`uint8[v]`: place in `TESTS`."""

    @classmethod
    def joined(cls, fits: list[Refit]) -> Refit:
        """Fits of blocks of variants, one after another."""
        xp = array_module(fits[0].beta)
        return cls(*(xp.concatenate([getattr(fit, field.name) for fit in fits]) for field in fields(cls)))


def refit(genotypes: Array, null: NullModel, method: Method, p: PValue = "wald") -> Refit:
    """Regressions of the trait on each row of `float64[v, n]`, NaN where missing, of the null model's people.

    `firth_fallback` is maximum likelihood, and Firth's where that has no finite maximum (separation). `p: lrt` tests Firth's by the
    penalized likelihood ratio.
    """
    limit = _TEMPORARY_BYTES if null.xp is np else 16 * BLOCK_BYTES
    # Second derivatives take cubes of the columns, of those variants alone whose climb is slow.
    step = max(1, limit // (8 * max(genotypes.shape[1], (len(null.basis) + 1) ** 3 // 4)))
    blocks = range(0, max(1, len(genotypes)), step)
    return Refit.joined([_refit_block(genotypes[start : start + step], null, method, p) for start in blocks])


def _refit_block(genotypes: Array, null: NullModel, method: Method, p: PValue) -> Refit:
    """Fits of a few variants."""
    xp = null.xp
    called = ~xp.isnan(genotypes)
    means = xp.where(called, genotypes, 0).sum(axis=1) / xp.maximum(called.sum(axis=1), 1)
    centred = xp.where(called, genotypes - means[:, None], 0)
    mask = called.astype(xp.float64)
    if method == "firth":
        beta, error, rows = xp.full(len(centred), xp.nan), xp.full(len(centred), xp.nan), xp.arange(len(centred))
    else:
        beta, error = wald(centred, mask, null)
        rows = xp.nonzero(xp.isnan(beta))[0]
    statistic, test = beta / error, xp.full(len(centred), WALD, xp.uint8)
    if method != "wald" and len(rows):
        found = firth(centred[rows], mask[rows], null)
        beta[rows], error[rows], test[rows] = found.beta, found.standard_error, FIRTH
        statistic[rows] = found.beta / found.standard_error
        if p == "lrt":
            statistic[rows], test[rows] = likelihood_ratio(centred[rows], mask[rows], null, found), FIRTH_LRT
    return Refit(beta, error, statistic, test)
