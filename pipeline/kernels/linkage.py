"""Linkage disequilibrium of pairs of variants: r^2 of hard calls, and of haplotypes of greatest likelihood.

Both are of the people called for both variants. Packed calls may be NumPy or CuPy arrays, and answers are of the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.kernels.device.linkage import haplotype_squares
from pipeline.kernels.genotypes import Array, call_counts, pack

Bools = NDArray[np.bool_]
_LOW_BITS = 0x55


@dataclass(frozen=True)
class Samples:
    """How many people the calls are of, and whose heterozygous calls count as missing (`bool[n]`, where there are such)."""

    count: int
    haploid: Bools | None = None


def paired_calls(packed: Array, n_samples: int, index: int) -> Array:
    """People by their calls of variant `index` and of every variant of `packed: uint8[v, w]`: `int64[v, 3, 3]`, 0 to 2 copies of ALT."""
    xp = array_module(packed)
    one = packed[index]
    low, high = one & _LOW_BITS, one >> 1 & _LOW_BITS
    padding = xp.asarray(pack(np.full((1, n_samples), 3, np.uint8)))[0] & _LOW_BITS
    counts = xp.empty((len(packed), 3, 3), xp.int64)
    for copies, bits in enumerate((~(low | high) & padding, low & ~high, high & ~low)):
        among = call_counts(packed & bits * 3, n_samples)
        among[:, 0] -= n_samples - int(xp.bitwise_count(bits).sum())
        counts[:, copies] = among[:, :3]
    return counts


def haplotype_r_squared(packed: Array, n_samples: int, index: int) -> Array:
    """r^2 of the haplotypes of variant `index` of `packed: uint8[v, w]` with every variant, `float64[v]`; NaN where one does not vary.

    Frequencies of the haplotypes are those of greatest likelihood under random mating (Excoffier & Slatkin 1995), found as roots of the
    cubic that an expectation-maximization step leaves in place; PLINK's --clump and --ld use the same.
    """
    xp = array_module(packed)
    if xp is not np:
        squared = xp.empty(len(packed))
        haplotype_squares(len(packed), xp.ascontiguousarray(packed), index, 4 * packed.shape[1] - n_samples, squared)
        return squared
    return haplotype_linkage(paired_calls(packed, n_samples, index).astype(np.float64))[0] ** 2


def haplotype_linkage(counts: Array) -> tuple[Array, Array]:
    """r and D' of the haplotypes of pairs of variants, `float64[p]` both, their signs those of ALT with ALT; NaN where one does not vary.

    `counts: float64[p, 3, 3]`: people by their copies of ALT of the first and of the second. Frequencies are those of greatest likelihood,
    as above; D' is D over what it can be at most with these frequencies of alleles (Lewontin 1964).
    """
    xp = array_module(counts)
    doubles = counts[:, 1, 1]
    # Haplotypes that are certain: both ALT, the first ALT alone, the second ALT alone, neither.
    both = 2 * counts[:, 2, 2] + counts[:, 2, 1] + counts[:, 1, 2]
    first = 2 * counts[:, 2, 0] + counts[:, 2, 1] + counts[:, 1, 0]
    second = 2 * counts[:, 0, 2] + counts[:, 1, 2] + counts[:, 0, 1]
    neither = 2 * counts[:, 0, 0] + counts[:, 1, 0] + counts[:, 0, 1]
    total = xp.maximum(both + first + second + neither + 2 * doubles, 1)
    coupled = _coupled(xp, xp.stack([both, first, second, neither]), doubles)
    one, other = (both + first + doubles) / total, (both + second + doubles) / total
    variance = one * (1 - one) * other * (1 - other)
    varies = variance > 0
    covariance = (both + coupled) / total - one * other
    most = xp.where(covariance > 0, xp.minimum(one * (1 - other), (1 - one) * other), xp.minimum(one * other, (1 - one) * (1 - other)))
    r = covariance / xp.sqrt(xp.where(varies, variance, 1))
    d_prime = xp.clip(covariance / xp.where(varies, most, 1), -1, 1)
    return xp.where(varies, r, xp.nan), xp.where(varies, d_prime, xp.nan)


def _coupled(xp: Any, certain: Array, doubles: Array) -> Array:
    """Of the people heterozygous for both, how many have both ALT on one haplotype, `float64[v]`; `certain[4, v]` as above.

    Where the cubic rises through zero the likelihood has a maximum; its turning points part [0, doubles] into three stretches.
    """
    both, first, second, neither = certain
    spread = both + neither - first - second - 2 * doubles
    cubic = (
        2.0 + 0 * doubles,
        spread - doubles,
        both * neither + (first + doubles) * (second + doubles) - doubles * (both + neither),
        -doubles * both * neither,
    )
    root = xp.sqrt(xp.maximum(cubic[1] ** 2 - 3 * cubic[0] * cubic[2], 0))
    turns = [xp.clip((-cubic[1] + sign * root) / (3 * cubic[0]), 0, doubles) for sign in (-1, 1)]
    low, high = xp.stack([0 * doubles, *turns]), xp.stack([*turns, doubles])
    rises = (_value(cubic, low) <= 0) & (_value(cubic, high) >= 0)
    for _ in range(60):
        middle = (low + high) / 2
        below = _value(cubic, middle) < 0
        low, high = xp.where(below, middle, low), xp.where(below, high, middle)
    found = (low + high) / 2
    counted = xp.stack([both + found, first + doubles - found, second + doubles - found, neither + found])
    logs = (certain[:, None, :] * xp.log(xp.maximum(counted, 1e-300))).sum(axis=0)
    logs += doubles * xp.log(xp.maximum(counted[0] * counted[3] + counted[1] * counted[2], 1e-300))
    best = xp.where(rises, logs, -xp.inf).argmax(axis=0)
    return xp.take_along_axis(found, best[None, :], axis=0)[0]


def _value(cubic: tuple[Array, ...], at: Array) -> Array:
    """The cubic with these coefficients, highest power first, at some points."""
    return ((cubic[0] * at + cubic[1]) * at + cubic[2]) * at + cubic[3]


def without_haploid_heterozygotes(packed: Array, samples: Samples) -> Array:
    """The calls with the heterozygous ones of haploid people missing."""
    if samples.haploid is None:
        return packed
    xp = array_module(packed)
    haploid = xp.asarray(pack(samples.haploid[None].astype(np.uint8)))
    return packed | (packed & ~(packed >> 1) & haploid) << 1
