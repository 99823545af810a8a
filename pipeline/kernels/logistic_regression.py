"""Logistic regression of a binary trait on each variant, with covariates: maximum likelihood (Wald) and Firth's penalized likelihood.

Newton's method for many variants side by side, from the null model's fit and one step of the score test. With the margin m (log odds of
what a person is), q = 1 / (1 + exp(m)) and w = q (1 - q), the gradient is X'(+-q) and the information X'WX; the covariates' part of the
latter is one matrix product of the weights with products of the covariates' pairs. Missing genotypes have weight 0, so each variant
is the regression of its called people (complete case).

Firth (1993), Biometrika 80:27-38, as Heinze & Schemper (2002), Stat Med 21:2409-2419: the gradient is X'(r + h (1/2 - mu)), h the
diagonal of W^(1/2) X (X'WX)^-1 X'W^(1/2). Its standard errors come from X'WX, as PLINK 2.00a3.5 reports them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import BLOCK_BYTES, Array
from pipeline.kernels.logistic_design import CONVERGED, MOST_STEPS, NullModel
from pipeline.kernels.logistic_terms import gradient_and_information, solve

Method = Literal["wald", "firth", "firth_fallback"]

SCORE, WALD, FIRTH = range(3)
TESTS = ("score", "wald", "firth")

MOST_FIRTH_STEPS = 100
_LARGEST_STEP = 3.0
_OVERSHOT = -0.5
_LEAST_LEFT, _SINGULAR = 1e-9, 1e-12
_VARIANTS, _FEWEST = 64, 8  # side by side


@dataclass(frozen=True)
class Refit:
    """Estimates of v variants; NaN where there is none: separation for `WALD`, no convergence for `FIRTH`."""

    beta: Array
    """`float64[v]`, log odds ratio of one more in the genotype."""
    standard_error: Array
    """`float64[v]`."""
    test: Array
    """`uint8[v]`: `WALD` or `FIRTH`."""


@dataclass
class _Search:
    """Where Newton's method stands for v variants: the point taken last, the step to try from it, and the gain that step promised."""

    variant: Array
    """`int64[v]`: their places."""
    signed: Array
    """`float64[v, n]`: centred genotypes times the signs."""
    mask: Array
    """`float64[v, n]`."""
    largest: Array
    """`float64[v]`: the largest step of the genotype's coefficient."""
    taken: Array
    """`float64[v, k + 1]`."""
    step: Array
    """`float64[v, k + 1]`."""
    promised: Array
    """`float64[v]`."""

    @classmethod
    def start(cls, centred: Array, mask: Array, null: NullModel) -> _Search:
        """One step of the score test from the null model, as if no genotype were missing; it is taken as it is."""
        xp = null.xp
        products = (centred * null.weights) @ (null.whitening @ null.basis).T
        own = (centred**2) @ null.weights
        largest = _LARGEST_STEP / xp.maximum(abs(centred).max(axis=1), 1e-100)
        score = centred @ null.residuals
        beta = xp.clip(score / xp.maximum(own - (products**2).sum(axis=1), _LEAST_LEFT * own + 1e-100), -largest, largest)
        taken = xp.concatenate([null.coefficients - beta[:, None] * (products @ null.whitening), beta[:, None]], axis=1)
        signed, variants = centred * null.signs, xp.arange(len(centred))
        return cls(variants, signed, mask, largest, taken, step=xp.zeros_like(taken), promised=xp.zeros(len(centred)))

    def advanced(self, gradient: Array, newton: Array, gain: Array, overshot: Array) -> _Search:
        """From the point tried: Newton's step, or back where the slope along the step has turned too far."""
        xp = array_module(gradient)
        slope = (gradient * self.step).sum(axis=1)
        back = xp.clip(self.promised / xp.where(overshot, self.promised - slope, 1.0), 0.1, 0.5)
        ahead = xp.minimum(1.0, self.largest / xp.maximum(abs(newton[:, -1]), 1e-100))
        return replace(
            self,
            taken=xp.where(overshot[:, None], self.taken, self.taken + self.step),
            step=xp.where(overshot[:, None], back[:, None] * self.step, ahead[:, None] * newton),
            promised=xp.where(overshot, back * self.promised, ahead * gain),
        )

    def kept(self, stay: Array) -> _Search:
        """Some of the variants."""
        if bool(stay.all()):
            return self
        return _Search(*(getattr(self, field.name)[stay] for field in fields(self)))


def refit(genotypes: Array, null: NullModel, method: Method) -> Refit:
    """Regressions of the trait on each row of `float64[v, n]`, NaN where missing, of the null model's people.

    `firth_fallback` is maximum likelihood, and Firth's where that does not converge, as it has no finite maximum (separation).
    """
    xp = null.xp
    limit = BLOCK_BYTES // 4 if xp is np else 16 * BLOCK_BYTES
    step = max(_FEWEST, min(_VARIANTS if xp is np else len(genotypes), limit // (8 * genotypes.shape[1])))
    blocks = [_refit_block(genotypes[start : start + step], null, method) for start in range(0, max(1, len(genotypes)), step)]
    return Refit(*(xp.concatenate([block[place] for block in blocks]) for place in range(3)))


def _refit_block(genotypes: Array, null: NullModel, method: Method) -> tuple[Array, Array, Array]:
    """Beta, standard error and test of a few variants."""
    xp = null.xp
    called = ~xp.isnan(genotypes)
    means = xp.where(called, genotypes, 0).sum(axis=1) / xp.maximum(called.sum(axis=1), 1)
    centred = xp.where(called, genotypes - means[:, None], 0)
    mask = called.astype(xp.float64)
    test = xp.full(len(genotypes), FIRTH if method == "firth" else WALD, xp.uint8)
    beta, error = _newton(centred, mask, null, firth=method == "firth")
    failed = xp.nonzero(xp.isnan(beta))[0]
    if method == "firth_fallback" and len(failed):
        beta[failed], error[failed] = _newton(centred[failed], mask[failed], null, firth=True)
        test[failed] = FIRTH
    return beta, error, test


def _newton(centred: Array, mask: Array, null: NullModel, *, firth: bool) -> tuple[Array, Array]:
    """Beta and its standard error, `float64[v]` each, NaN where the method does not converge; a variant is left as soon as it has."""
    xp = null.xp
    beta, error = xp.full(len(centred), xp.nan), xp.full(len(centred), xp.nan)
    search = _Search.start(centred, mask, null)
    for _ in range(MOST_FIRTH_STEPS if firth else MOST_STEPS):
        if not len(search.variant):
            break
        tried = search.taken + search.step
        gradient, information = gradient_and_information(search.signed, search.mask, null, tried, firth=firth)
        step, own, least = solve(information, gradient[:, :, None])
        regular = least > _SINGULAR
        gain = (gradient * step[:, :, 0]).sum(axis=1)
        overshot = (gradient * search.step).sum(axis=1) < _OVERSHOT * search.promised
        done = regular & ~overshot & (gain < CONVERGED)
        beta[search.variant[done]] = (tried + step[:, :, 0])[done, -1]
        error[search.variant[done]] = own[done] ** -0.5
        search = search.advanced(gradient, step[:, :, 0], gain, overshot).kept((regular | overshot) & ~done)
    return beta, error
