"""Logistic regression of a binary trait on each variant, with covariates: maximum likelihood (Wald) and Firth's penalized likelihood.

Newton's method for many variants side by side, from the null model's fit and one step of the score test. With the margin m (log odds of
what a person is), q = 1 / (1 + exp(m)) and w = q (1 - q), the gradient is X'(+-q) and the information X'WX; the covariates' part of the
latter is one matrix product of the weights with products of the covariates' pairs. Missing genotypes have weight 0, so each variant
is the regression of its called people (complete case).

Firth's (logistic_firth.py), as Heinze & Schemper (2002), Stat Med 21:2409-2419, has standard errors from X'WX, as PLINK 2.00a3.5 reports
them; its penalized likelihood ratio holds the effect at none and keeps the genotype in the penalty, as logistf, EPACTS and regenie do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Literal

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import BLOCK_BYTES, Array
from pipeline.kernels.logistic_firth import firth, likelihood_ratio
from pipeline.kernels.logistic_null import NullModel
from pipeline.kernels.logistic_quick import quick_firth, quick_wald
from pipeline.kernels.logistic_terms import Maximum, centre
from pipeline.kernels.logistic_wald import wald

Method = Literal["wald", "firth", "firth_fallback"]
PValue = Literal["wald", "lrt"]

SCORE, WALD, FIRTH, FIRTH_LRT = range(4)
TESTS = ("score", "wald", "firth", "firth_lrt")

Fit = Callable[[Array, Array, NullModel], Maximum]

_TEMPORARY_BYTES = 4 << 20
_TOGETHER = 256


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
        if len(fits) == 1:
            return fits[0]
        xp = array_module(fits[0].beta)
        return cls(*(xp.concatenate([getattr(fit, field.name) for fit in fits]) for field in fields(cls)))


def refit(genotypes: Array, null: NullModel, method: Method, p: PValue = "wald") -> Refit:
    """Regressions of the trait on each row of `float64[v, n]`, NaN where missing, of the null model's people.

    `firth_fallback` is maximum likelihood, and Firth's where that has no finite maximum (separation). `p: lrt` tests Firth's by the
    penalized likelihood ratio.
    """
    xp = null.xp
    if xp is not np:
        from pipeline.kernels.device.refits import refit_on_device

        return Refit(*refit_on_device(genotypes, null, method, ratio=p == "lrt"))
    beta, error = xp.full(len(genotypes), xp.nan), xp.full(len(genotypes), xp.nan)
    test, rows = xp.full(len(genotypes), WALD, xp.uint8), xp.arange(len(genotypes))
    if method != "firth":
        found = _maxima(genotypes, null, quick_wald, wald)
        beta, error = found.beta, found.standard_error
        rows = xp.nonzero(xp.isnan(beta))[0]
    statistic = beta / error
    if method != "wald" and len(rows):
        genotypes = genotypes[rows]
        found = _maxima(genotypes, null, quick_firth, firth)
        beta[rows], error[rows], test[rows] = found.beta, found.standard_error, FIRTH
        statistic[rows] = found.beta / found.standard_error
        if p == "lrt":
            statistic[rows], test[rows] = _roots(genotypes, null, found), FIRTH_LRT
    return Refit(beta, error, statistic, test)


def _maxima(genotypes: Array, null: NullModel, quick: Fit, careful: Fit) -> Maximum:
    """Those of all variants, by `careful` where `quick` gives none."""
    xp = null.xp
    found = Maximum.unknown(null, len(genotypes))
    for fit, together in ((quick, _TOGETHER), (careful, len(genotypes))):
        left = xp.nonzero(xp.isnan(found.beta))[0]
        for rows in _blocks(left, genotypes, null, together):
            one = fit(*centre(genotypes[rows]), null)
            found.point[rows], found.standard_error[rows] = one.point, one.standard_error
    return found


def _roots(genotypes: Array, null: NullModel, found: Maximum) -> Array:
    """Signed roots of the penalized likelihood ratios, `float64[v]`."""
    none = _maxima(genotypes, null, partial(quick_firth, free=False), partial(firth, free=False))
    roots = null.xp.empty(len(genotypes))
    for rows in _blocks(null.xp.arange(len(genotypes)), genotypes, null, len(genotypes)):
        ends = (Maximum(one.point[rows], one.standard_error[rows]) for one in (found, none))
        roots[rows] = likelihood_ratio(*centre(genotypes[rows]), null, *ends)
    return roots


def _blocks(rows: Array, genotypes: Array, null: NullModel, together: int) -> Iterator[Array]:
    """Some of `rows` at a time: at most `together`, and few enough for their temporaries."""
    limit = _TEMPORARY_BYTES if null.xp is np else 16 * BLOCK_BYTES
    # Second derivatives take cubes of the columns, of those variants alone whose climb is slow.
    step = max(1, limit // (8 * max(genotypes.shape[1], (len(null.basis) + 1) ** 3 // 4)))
    step = min(step, max(1, together)) if null.xp is np else step
    for start in range(0, len(rows), step):
        yield rows[start : start + step]
