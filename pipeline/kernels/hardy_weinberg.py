"""The exact test of Hardy-Weinberg equilibrium, for many variants at once.

Wigginton, Cutler & Abecasis (2005), Am J Hum Genet 76:887-893: given n people and m copies of the minor allele, the number of
heterozygotes h has the probability n! / (a! h! b!) * 2^h * m! (2n - m)! / (2n)!, with a = (m - h) / 2 and b = n - h - a homozygotes. The
p-value is the sum over all h that are no more likely than the one observed.

Neighbouring h differ by a simple ratio, and the probabilities fall away from one mode on either side. So each sum is a chain of ratios that
starts where it is largest and ends when a term no longer counts; logarithms place only the three starts, and nothing under- or overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.device import hardy_weinberg as on_device
from pipeline.kernels.factorials import log_factorials
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, variant_blocks

_CACHE_BYTES = 1 << 17
_NEGLIGIBLE = 1e-20
_STEPS = 8


def hwe_exact(hom_ref: Array, het: Array, hom_alt: Array, midp: bool = False) -> Array:
    """P-value `float64[v]` of the exact test from the counts `int[v]` of the three genotypes; NaN where nobody is called.

    With `midp` the outcomes as likely as the observed one count half. Time grows with the standard deviation of the heterozygotes, not with
    the number of people. Raises ValueError for a negative count.
    """
    counts = checked_counts(hom_ref, het, hom_alt)
    if array_module(counts) is not np:
        return on_device.tested(on_device.exact, counts, midp, hwe_by_logarithms)
    from pipeline.kernels.compiled.hardy_weinberg import exact

    p_values = np.empty(len(counts))
    exact(counts, midp, p_values)
    beyond = p_values < 0
    p_values[beyond] = hwe_by_logarithms(counts[beyond], midp)
    return p_values


def checked_counts(*columns: Array) -> Array:
    """Counts side by side, `int64[v, columns]`. Raises ValueError for a negative one."""
    xp = array_module(*columns)
    counts = xp.stack([xp.asarray(column).astype(xp.int64) for column in columns], axis=1)
    if counts.size and int(counts.min()) < 0:
        raise ValueError(f"Counts of genotypes cannot be negative; found {int(counts.min())}.")
    return counts


def hwe_by_logarithms(counts: Array, midp: bool = False) -> Array:
    """As `hwe_exact`, from `int64[v, 3]`, by array functions: where a walk leaves a table, and as its oracle."""
    xp = array_module(counts)
    counts = counts.T
    people = counts.sum(axis=0)
    minor = counts[1] + 2 * xp.minimum(counts[0], counts[2])
    size = int(people.max()) + 1 if people.size else 0
    # One number for each distinct (people, minor alleles, heterozygotes), of which real cohorts have few.
    key = (people * size + minor) * size + counts[1]
    key = key if size < 1 << 20 else xp.arange(len(people))
    _, first, inverse = xp.unique(key, return_index=True, return_inverse=True)
    log_factorial = log_factorials(max(0, size - 1), counts)
    distinct = xp.empty(len(first))
    for block in variant_blocks(len(first), 8, _CACHE_BYTES if xp is np else BLOCK_BYTES):
        rows = first[block]
        distinct[block] = _p_values(Distribution(people[rows], minor[rows], log_factorial), counts[1][rows], midp)
    return xp.where(people > 0, distinct[inverse], xp.nan)


@dataclass(frozen=True)
class Distribution:
    """Heterozygotes among `people` with `minor` copies of an allele (`int64[v]` each); factorials of up to max(people) as logarithms."""

    people: Array
    minor: Array
    log_factorial: Array

    def homozygotes(self, het: Array) -> tuple[Array, Array]:
        """Homozygotes of the rarer and of the more frequent allele."""
        rare = (self.minor - het) // 2
        return rare, self.people - het - rare

    def log_weight(self, het: Array) -> Array:
        """Logarithm of the probability of `het` heterozygotes, less a constant of the distribution."""
        rare, common = self.homozygotes(het)
        table = self.log_factorial
        return het * float(np.log(2)) - table[rare] - table[het] - table[common]

    def mode(self) -> Array:
        """The most likely number of heterozygotes (the larger of two), exactly.

        P(h + 2) / P(h) = (m - h)(2n - m - h) / ((h + 1)(h + 2)) is at least 1 just where h <= (m(2n - m) - 2) / (2n + 3).
        """
        parity = self.minor & 1
        last_rise = (self.minor * (2 * self.people - self.minor) - 2) // (2 * self.people + 3)
        return parity + 2 * ((last_rise - parity) // 2 + 1)

    def chain(self, het: Array, up: bool) -> Array:
        """Sum over het, het + 2, ... (or het - 2, ... where not `up`) of the probabilities, in units of the first one.

        Terms must fall from some point near `het` on. Limits need no test: the ratio at the last possible count is 0.
        """
        xp = array_module(het)
        total = xp.ones(len(het))
        rare, common = self.homozygotes(het)
        state = [column.astype(xp.float64) for column in (het, rare, common)]
        term, rows = xp.ones(len(het)), xp.arange(len(het))
        sums = total.copy()
        step = _step_up if up else _step_down
        while len(rows):
            for _ in range(_STEPS):
                term *= step(state)
                sums += term
            total[rows] = sums
            going = term > _NEGLIGIBLE * sums
            rows, term, sums, state = rows[going], term[going], sums[going], [column[going] for column in state]
        return total

    def chains(self, het: Array, up: Array) -> Array:
        """As `chain`, with a direction for each variant."""
        xp = array_module(het)
        total = xp.empty(len(het))
        for direction in (True, False):
            rows = xp.flatnonzero(up == direction)
            total[rows] = Distribution(self.people[rows], self.minor[rows], self.log_factorial).chain(het[rows], direction)
        return total


def _step_up(state: list[Array]) -> Array:
    """P(h + 2) / P(h), and the state (heterozygotes, homozygotes of the rarer and of the other allele) moved there."""
    het, rare, common = state
    ratio = 4 * rare * common / ((het + 1) * (het + 2))
    het += 2
    rare -= 1
    common -= 1
    return ratio


def _step_down(state: list[Array]) -> Array:
    """P(h - 2) / P(h), and the state moved there."""
    het, rare, common = state
    rare += 1
    common += 1
    ratio = het * (het - 1) / (4 * rare * common)
    het -= 2
    return ratio


def _p_values(distribution: Distribution, het: Array, midp: bool) -> Array:
    """Both tails over the whole, each in units of the observed probability."""
    xp = array_module(het)
    mode, observed = distribution.mode(), distribution.log_weight(het)
    right = het >= mode
    # A logarithm is a difference of numbers as large as log n!, so ties are equal to their rounding.
    tolerance = 8 * np.finfo(np.float64).eps * xp.maximum(distribution.log_factorial[distribution.people], 50.0)
    start, step = xp.where(right, mode - 2, mode), xp.where(right, -2, 2)
    limit = xp.where(right, (start - (distribution.minor & 1)) // 2, (distribution.minor - start) // 2) + 1
    start = xp.where(limit > 0, start, het)  # nothing on the other side: any count that is possible
    reached = first_place(limit, lambda place: distribution.log_weight(start + step * place) <= observed + tolerance)
    exists = reached < limit
    far = xp.where(exists, start + step * reached, het)
    gap = distribution.log_weight(far) - observed
    # Away from the mode on whichever side `far` lies; where there is no other tail `far` is the observed count.
    other = distribution.chains(far, xp.where(exists, ~right, right))
    tails = distribution.chains(het, right) + exists * xp.exp(gap) * other
    if midp:
        tails -= 0.5 + 0.5 * (exists & (abs(gap) <= tolerance))
    whole = distribution.chain(mode, True) + distribution.chain(mode, False) - 1
    return xp.minimum(1.0, tails * xp.exp(observed - distribution.log_weight(mode)) / whole)


def first_place(limit: Array, holds: Callable[[Array], Array]) -> Array:
    """The first place 0 .. limit - 1 of each variant from which `holds` is true, `limit` where there is none; by halving."""
    xp = array_module(limit)
    low, high = xp.zeros_like(limit), limit.copy()
    for _ in range(int(limit.max()).bit_length() if len(limit) else 0):
        middle = (low + high) // 2
        open_, true = low < high, holds(xp.minimum(middle, xp.maximum(limit - 1, 0)))
        high = xp.where(open_ & true, middle, high)
        low = xp.where(open_ & ~true, middle + 1, low)
    return low
