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
from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_firth import firth, likelihood_ratio
from pipeline.kernels.logistic_null import NullModel
from pipeline.kernels.logistic_quick import quick_firth, quick_wald
from pipeline.kernels.logistic_terms import Maximum, centre
from pipeline.kernels.logistic_wald import wald

Method = Literal["wald", "firth", "firth_fallback"]
PValue = Literal["wald", "lrt"]

SCORE, WALD, FIRTH, FIRTH_LRT, FIRTH_APPROXIMATE, SPA = range(6)
TESTS = ("score", "wald", "firth", "firth_lrt", "firth_approximate", "spa")

Fit = Callable[[Array, Array, NullModel], Maximum]
Rows = Callable[[Array], Array]
"""Genotypes `float64[r, n]`, NaN where missing, of the variants at `int64[r]`."""

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
    if null.xp is not np and null.offset is None:
        from pipeline.kernels.device.refits import refit_on_device

        return Refit(*refit_on_device(genotypes, null, method, ratio=p == "lrt"))
    return refit_each(lambda rows: genotypes[rows], len(genotypes), null, (method, p))


def refit_each(unpacked: Rows, count: int, null: NullModel, how: tuple[Method, PValue]) -> Refit:
    """What `refit` gives of as many variants, whose genotypes are `unpacked` a few at a time: on a CPU, and where there is an offset."""
    (method, p), xp = how, null.xp
    beta, error = xp.full(count, xp.nan), xp.full(count, xp.nan)
    test, rows = xp.full(count, WALD, xp.uint8), xp.arange(count)
    if method != "firth":
        found = _maxima(unpacked, rows, null, quick_wald, wald)
        beta, error = found.beta, found.standard_error
        rows = xp.flatnonzero(xp.isnan(beta))
    statistic = beta / error
    if method != "wald" and len(rows):
        found = _maxima(unpacked, rows, null, quick_firth, firth)
        beta[rows], error[rows], test[rows] = found.beta, found.standard_error, FIRTH
        statistic[rows] = found.beta / found.standard_error
        if p == "lrt":
            statistic[rows], test[rows] = _roots(unpacked, rows, null, found), FIRTH_LRT
    return Refit(beta, error, statistic, test)


def _maxima(unpacked: Rows, rows: Array, null: NullModel, quick: Fit, careful: Fit) -> Maximum:
    """Those of the variants at `rows`, by `careful` where `quick` gives none."""
    found = Maximum.unknown(null, len(rows))
    for fit, together in ((quick, _TOGETHER), (careful, len(rows))):
        left = null.xp.flatnonzero(null.xp.isnan(found.beta))
        for places in _blocks(left, null, together):
            one = fit(*centre(unpacked(rows[places])), null)
            found.point[places], found.standard_error[places] = one.point, one.standard_error
    return found


def _roots(unpacked: Rows, rows: Array, null: NullModel, found: Maximum) -> Array:
    """Signed roots of the penalized likelihood ratios of the variants at `rows`, `float64[r]`."""
    none = _maxima(unpacked, rows, null, partial(quick_firth, free=False), partial(firth, free=False))
    roots = null.xp.empty(len(rows))
    for places in _blocks(null.xp.arange(len(rows)), null, len(rows)):
        ends = (Maximum(one.point[places], one.standard_error[places]) for one in (found, none))
        roots[places] = likelihood_ratio(*centre(unpacked(rows[places])), null, *ends)
    return roots


def _blocks(places: Array, null: NullModel, together: int) -> Iterator[Array]:
    """Some of `places` at a time: at most `together`, and few enough for their temporaries."""
    # Second derivatives take cubes of the columns, of those variants alone whose climb is slow.
    step = max(1, block_bytes(places, _TEMPORARY_BYTES) // (8 * max(len(null.signs), (len(null.basis) + 1) ** 3 // 4)))
    step = min(step, max(1, together))
    for start in range(0, len(places), step):
        yield places[start : start + step]
