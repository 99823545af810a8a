"""The passes over people of a logistic regression, each in one sweep of the data."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, fused, inlined

Floats = NDArray[np.float64]


def _float_of(_typing_context: Any, bits: Any) -> Any:
    """How numba writes `_float_from_bits`: its signature, and no instruction at all."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[Any]) -> Any:
        """The same bits."""
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(bits), generate


def _bits_of(_typing_context: Any, number: Any) -> Any:
    """How numba writes `_bits_from_float`: its signature, and no instruction at all."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[Any]) -> Any:
        """The same bits."""
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(number), generate


_float_from_bits: Any = intrinsic(_float_of)
_bits_from_float: Any = intrinsic(_bits_of)

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_WHOLE = 1.5 * 2.0**52  # a number of some hundreds added to this is rounded, and stands in the last bits


@inlined
def _exp(x: float) -> float:
    """exp(x) to 2 units in the last place, in straight-line code that vectorizes; x is held within -700 and 700.

    x = k ln 2 + r with ln 2 in two pieces (Cody & Waite 1980), then the Taylor series of exp(r), |r| < 0.35, to the 13th power.
    """
    x = min(max(x, -700.0), 700.0)
    shifted = x * _LOG2_E + _WHOLE
    k = shifted - _WHOLE
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    s = 1 / 6227020800.0
    s = s * r + 1 / 479001600.0
    s = s * r + 1 / 39916800.0
    s = s * r + 1 / 3628800.0
    s = s * r + 1 / 362880.0
    s = s * r + 1 / 40320.0
    s = s * r + 1 / 5040.0
    s = s * r + 1 / 720.0
    s = s * r + 1 / 120.0
    s = s * r + 1 / 24.0
    s = s * r + 1 / 6.0
    s = s * r + 0.5
    s = s * r + 1.0
    s = s * r + 1.0
    exact: float = s * _float_from_bits((_bits_from_float(shifted) + 1023) << 52)
    return exact


def _summed(a: Floats, b: Floats) -> float:
    """Sum of a times b."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


def _highest(a: Floats) -> float:
    """The largest entry, or 0."""
    highest = 0.0
    for i in range(len(a)):
        highest = max(highest, a[i])
    return highest


# The order of a sum is free, and a largest entry is of numbers, so that they vectorize.
sum_of_products: Any = numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})(_summed)
largest_of: Any = numba.njit(nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc"})(_highest)


@fused
def fill_terms(margins: Floats, signed: Floats, mask: Floats, slopes: Floats, found: Any) -> None:
    """What `terms_plain` gives: the missed probabilities in place of the margins, and into `found` the other arrays and sums."""
    weights, weighted, gradient, information = found
    for v in range(margins.shape[0]):
        margin, genotype, known, weight, product = margins[v], signed[v], mask[v], weights[v], weighted[v]
        slope = slopes[v]
        for i in range(len(margin)):
            odds = _exp(-(margin[i] + genotype[i] * slope))
            hit = 1 / (1 + odds)
            missed = odds * hit * known[i]
            margin[i] = missed
            weight[i] = missed * hit
            product[i] = missed * hit * genotype[i]
        gradient[v] = sum_of_products(margin, genotype)
        information[v] = sum_of_products(product, genotype)


@fused
def fill_missed(margins: Floats, signed: Floats, mask: Floats, slopes: Floats, gradient: Floats) -> None:
    """Of what `fill_terms` gives, the missed probabilities in place of the margins, and the gradient."""
    for v in range(margins.shape[0]):
        margin, genotype, known = margins[v], signed[v], mask[v]
        slope = slopes[v]
        for i in range(len(margin)):
            odds = _exp(-(margin[i] + genotype[i] * slope))
            margin[i] = odds / (1 + odds) * known[i]
        gradient[v] = sum_of_products(margin, genotype)


@compiled
def log_likelihood_each(missed: Floats, weights: Floats, out: Floats) -> None:
    """What `log_likelihood_plain` gives, into `out`; a logarithm is taken where the product of many probabilities has become small."""
    for v in range(missed.shape[0]):
        total, product = 0.0, 1.0
        for i in range(missed.shape[1]):
            if missed[v, i] > 0:
                hit = weights[v, i] / missed[v, i]
                if hit < 1e-100:
                    total += np.log(hit)
                else:
                    product *= hit
                if product < 1e-100:
                    total += np.log(product)
                    product = 1.0
        out[v] = total + np.log(product)


@fused
def penalize(missed: Floats, weights: Floats, signed: Floats, hat: Any, found: Any) -> None:
    """What `penalize_plain` gives, missed probabilities and leverages in place, and `found` filled; `hat` are its last three arguments."""
    leverages, cross, own = hat
    gradient, largest = found
    for v in range(missed.shape[0]):
        share, weight, genotype, leverage, other = missed[v], weights[v], signed[v], leverages[v], cross[v]
        square = own[v]
        for i in range(len(share)):
            leverage[i] += genotype[i] * (other[i] + genotype[i] * square)
        largest[v] = largest_of(leverage)
        for i in range(len(share)):
            h = leverage[i] * weight[i]
            share[i] += h * (share[i] - 0.5)
            leverage[i] = h
        gradient[v] = sum_of_products(share, genotype)


@compiled
def centre_each(genotypes: Floats, centred: Floats, mask: Floats) -> None:
    """What `centre_plain` gives, into `centred` and `mask`."""
    for v in range(genotypes.shape[0]):
        row, known, found = genotypes[v], mask[v], centred[v]
        for i in range(len(row)):
            missing = np.isnan(row[i])
            known[i] = 0.0 if missing else 1.0
            found[i] = 0.0 if missing else row[i]
        mean = sum_of_products(found, known) / max(sum_of_products(known, known), 1.0)
        for i in range(len(row)):
            found[i] -= known[i] * mean


@fused
def land_each(moved: Floats, turned: Floats, people: Any, slopes: Any, found: Any) -> None:
    """What `land_plain` gives, into the two arrays of `found`; `moved` and `turned` are overwritten."""
    signed, mask, bends = people
    moves, changes = found
    for v in range(moved.shape[0]):
        move, turn, genotype, known, bend = moved[v], turned[v], signed[v], mask[v], bends[v]
        step, slope = slopes[0][v], slopes[1][v]
        for i in range(len(move)):
            by = move[i] + genotype[i] * step
            aside = turn[i] + genotype[i] * slope
            turn[i] = bend[i] * aside * aside
            move[i] = by * known[i]
        changes[v] = sum_of_products(turn, move)
        for i in range(len(move)):
            move[i] = abs(move[i])
        moves[v] = largest_of(move)


@fused
def fill_traces(sums: Floats, places: NDArray[np.int64], inverses: Floats, traces: Floats) -> None:
    """What `traces_plain` gives, into `traces`."""
    size = len(places)
    turned, mirrored, row = np.empty((size, size, size)), np.empty((size, size, size)), np.empty(size)
    for v in range(len(sums)):
        found, inverse = sums[v], inverses[v]
        for c in range(size):
            for a in range(size):
                row[:] = 0.0
                for b in range(size):
                    factor = found[places[c, a, b]]
                    for i in range(size):
                        row[i] += factor * inverse[b, i]
                for b in range(size):
                    turned[c, a, b] = mirrored[c, b, a] = row[b]
        for c in range(size):
            for d in range(c, size):
                traces[v, c, d] = traces[v, d, c] = sum_of_products(turned[c].ravel(), mirrored[d].ravel())
