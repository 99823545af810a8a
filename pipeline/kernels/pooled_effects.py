"""Effects of several studies pooled variant by variant: fixed effects, random effects, and whether the studies differ.

Weights are inverse variances. Cochran 1954 (Biometrics 10:101-129) for Q; DerSimonian & Laird 1986 (Control Clin Trials 7:177-188) for the
variance between studies; Higgins & Thompson 2002 (Stat Med 21:1539-1558) for I squared.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.backend.arrays import array_module, special_module
from pipeline.kernels.genotypes import Array


@dataclass(frozen=True)
class PooledEffects:
    """Of v variants, `float64[v]`; NaN where no study has the variant, and of the studies' differences where fewer than two have."""

    beta: Array
    standard_error: Array
    beta_random: Array
    standard_error_random: Array
    q: Array
    p_heterogeneity: Array
    i_squared: Array
    tau_squared: Array
    studies: Array
    """`int64[v]`: how many have it."""


def pooled_effects(beta: Array, standard_error: Array) -> PooledEffects:
    """From effects and their standard errors `float64[v, k]` of k studies; NaN, or an error that is not above 0, where one has none."""
    xp = array_module(beta)
    there = xp.isfinite(beta) & xp.isfinite(standard_error) & (standard_error > 0)
    effects, variances = xp.where(there, beta, 0.0), xp.where(there, standard_error, 1.0) ** 2
    studies = there.sum(axis=1)
    some, several = studies > 0, studies > 1

    def pooled(between: Array) -> tuple[Array, Array, Array]:
        """Weights `[v, k]`, and the mean by them with its standard error."""
        weights = there / (variances + between[:, None])
        total = xp.where(some, weights.sum(axis=1), 1.0)
        return weights, xp.where(some, (weights * effects).sum(axis=1) / total, xp.nan), xp.where(some, total**-0.5, xp.nan)

    weights, mean, error = pooled(xp.zeros(len(beta)))
    centre = xp.where(some, mean, 0.0)
    q = (weights * (effects - centre[:, None]) ** 2).sum(axis=1)
    freedom = xp.where(several, studies - 1, 1)
    total = xp.where(some, weights.sum(axis=1), 1.0)
    scale = xp.where(several, total - (weights**2).sum(axis=1) / total, 1.0)
    between = xp.where(several, xp.maximum(q - freedom, 0.0) / scale, 0.0)
    _, mean_random, error_random = pooled(between)
    p_value = special_module(q).gammaincc(freedom / 2, q / 2)
    shared = xp.where(q > 0, xp.maximum(q - freedom, 0.0) / xp.where(q > 0, q, 1.0), 0.0)
    q, p_value, shared, between = (xp.where(several, values, xp.nan) for values in (q, p_value, shared, between))
    return PooledEffects(mean, error, mean_random, error_random, q, p_value, shared, between, studies)
