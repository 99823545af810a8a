"""The exact test of Hardy-Weinberg equilibrium on the X chromosome, with men, for many variants at once.

Graffelman & Weir (2016), Heredity 116:558-568: among women and men with so many copies of an allele in all, both how the copies fall to the
sexes and how many women are heterozygous are outcomes. With f heterozygous women, a and b homozygous ones and m and k men with either
allele, an outcome's probability is proportional to 2^f / (a! f! b! m! k!). The p-value is the sum over all that are no more likely than
the one observed: it falls where the sexes differ in frequency, too.
"""

from __future__ import annotations

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.device import hardy_weinberg as on_device
from pipeline.kernels.factorials import log_factorials
from pipeline.kernels.genotypes import BLOCK_BYTES, Array
from pipeline.kernels.hardy_weinberg import Distribution, checked_counts, first_place

_CACHE_BYTES = 1 << 20


def hwe_x_exact(counts: Array, midp: bool = False) -> Array:
    """P-value `float64[v]` from `counts: int[v, 5]`: women homozygous REF, heterozygous, homozygous ALT; men with REF, with ALT.

    NaN where nobody is called. With `midp` the outcomes as likely as the observed one count half. Raises ValueError for a negative count.
    """
    counts = checked_counts(*counts.T)
    if array_module(counts) is not np:
        return on_device.tested(on_device.exact_x, counts, midp, hwe_x_by_logarithms)
    from pipeline.kernels.compiled.hardy_weinberg import exact_x

    p_values = np.empty(len(counts))
    exact_x(counts, midp, p_values)
    beyond = p_values < 0
    p_values[beyond] = hwe_x_by_logarithms(counts[beyond], midp)
    return p_values


def hwe_x_by_logarithms(counts: Array, midp: bool = False) -> Array:
    """As `hwe_x_exact`, from `int64[v, 5]`, by array functions: where a walk leaves a table, and as its oracle."""
    xp = array_module(counts)
    p_values = xp.full(len(counts), xp.nan)
    largest = int((2 * counts[:, :3].sum(axis=1) + counts[:, 3:].sum(axis=1)).max()) if len(counts) else 0
    log_factorial = log_factorials(largest, counts)
    rows = xp.flatnonzero(counts.sum(axis=1) > 0)
    step = max(1, (_CACHE_BYTES if xp is np else BLOCK_BYTES) // (8 * (largest + 1)))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        p_values[some] = _p_values(counts[some], log_factorial, midp)
    return p_values


def _p_values(counts: Array, log_factorial: Array, midp: bool) -> Array:
    """One outcome of every number of men with ALT that is possible, as a row; each row's tails among women, summed by variant."""
    xp = array_module(counts)
    women, men = counts[:, :3].sum(axis=1), counts[:, 3:].sum(axis=1)
    alt = counts[:, 1] + 2 * counts[:, 2] + counts[:, 4]
    least, most = xp.maximum(0, alt - 2 * women), xp.minimum(men, alt)
    ends = xp.cumsum(most - least + 1)
    place = xp.arange(int(ends[-1]))
    variant = xp.searchsorted(ends, place, side="right")
    men_alt = most[variant] - (ends[variant] - 1 - place)
    women_alt = alt[variant] - men_alt
    distribution = Distribution(women[variant], xp.minimum(women_alt, 2 * women[variant] - women_alt), log_factorial)
    of_men = log_factorial[men_alt] + log_factorial[men[variant] - men_alt]
    observed = counts[:, 1] * float(np.log(2)) - log_factorial[counts].sum(axis=1)
    # A logarithm is a difference of numbers as large as log n!, so ties are equal to their rounding.
    tolerance = 8 * np.finfo(np.float64).eps * xp.maximum(log_factorial[2 * women + men], 50.0)
    tails, ties = _tails(distribution, observed[variant] + of_men, tolerance[variant])
    total = xp.bincount(variant, tails, len(counts)) - (0.5 * xp.bincount(variant, ties, len(counts)) if midp else 0)
    alleles = 2 * women + men
    whole = log_factorial[alleles] - log_factorial[alt] - log_factorial[alleles - alt] - log_factorial[women] - log_factorial[men]
    # All outcomes together weigh C(2 women + men, alt) / (women! men!).
    return xp.minimum(1.0, total * xp.exp(observed - whole))


def _tails(distribution: Distribution, observed: Array, tolerance: Array) -> tuple[Array, Array]:
    """Of each row, the outcomes that weigh no more than `observed` (a logarithm), in its units, and how many weigh as much."""
    mode, parity = distribution.mode(), distribution.minor & 1
    right = _tail(distribution, mode, (distribution.minor - mode) // 2 + 1, observed, tolerance, up=True)
    left = _tail(distribution, mode - 2, (mode - parity) // 2, observed, tolerance, up=False)
    return right[0] + left[0], right[1] + left[1]


def _tail(distribution: Distribution, start: Array, limit: Array, observed: Array, tolerance: Array, *, up: bool) -> tuple[Array, Array]:
    """As `_tails`, on one side of the mode: of `limit` outcomes from `start` on."""
    xp = array_module(start)
    step = 2 if up else -2
    reached = first_place(limit, lambda place: distribution.log_weight(start + step * place) <= observed + tolerance)
    exists = reached < limit
    het = xp.where(exists, start + step * reached, distribution.minor & 1)
    gap = xp.where(exists, distribution.log_weight(het) - observed, -xp.inf)
    return xp.exp(gap) * distribution.chain(het, up), (abs(gap) <= tolerance).astype(xp.float64)
