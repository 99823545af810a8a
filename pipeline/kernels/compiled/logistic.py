"""The passes over people of a logistic regression, each in one sweep of the data, and the small systems of equations."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined

Floats = NDArray[np.float64]


def _float_of(_typing_context: Any, bits: Any) -> Any:
    """How numba writes `_float_from_bits`: its signature, and no instruction at all."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: tuple[Any]) -> Any:
        """The same bits."""
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(bits), generate


_float_from_bits: Any = intrinsic(_float_of)

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@inlined
def _exp(x: float) -> float:
    """exp(x) to 2 units in the last place, in straight-line code that vectorizes; x is held within -700 and 700.

    x = k ln 2 + r with ln 2 in two pieces (Cody & Waite 1980), then the Taylor series of exp(r), |r| < 0.35, to the 13th power.
    """
    x = min(max(x, -700.0), 700.0)
    k = np.floor(x * _LOG2_E + 0.5)
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
    exact: float = s * _float_from_bits((np.int64(k) + 1023) << 52)
    return exact


def _sum_of_products(a: Floats, b: Floats) -> float:
    """Sum of a times b."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


# The order of this sum is free, so that it vectorizes.
_dot: Any = numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})(_sum_of_products)


@compiled
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
        gradient[v] = _dot(margin, genotype)
        information[v] = _dot(product, genotype)


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


@compiled
def penalize(missed: Floats, weights: Floats, signed: Floats, hat: Any, gradient: Floats) -> None:
    """What `penalize_plain` gives, missed probabilities and leverages in place; `hat` are its last three arguments."""
    leverages, cross, own = hat
    for v in range(missed.shape[0]):
        share, weight, genotype, leverage, other = missed[v], weights[v], signed[v], leverages[v], cross[v]
        square = own[v]
        for i in range(len(share)):
            h = (leverage[i] + genotype[i] * (other[i] + genotype[i] * square)) * weight[i]
            share[i] += h * (share[i] - 0.5)
            leverage[i] = h
        gradient[v] = _dot(share, genotype)


@compiled
def _decompose(a: Floats) -> tuple[float, float]:
    """The Cholesky factor of `float64[k, k]` in its lower triangle, in place; the least share of a pivot in its entry, and the last pivot.

    A pivot that is not above 0 stands as 1, with a share of 0.
    """
    least, last = 1.0, 0.0
    for row in range(len(a)):
        own = a[row, row]
        last = own
        for before in range(row):
            last -= a[row, before] * a[row, before]
        least = min(least, last / own) if last > 0 else 0.0
        root = np.sqrt(last) if last > 0 else 1.0
        a[row, row] = root
        for below in range(row + 1, len(a)):
            value = a[below, row]
            for before in range(row):
                value -= a[below, before] * a[row, before]
            a[below, row] = value / root
    return least, last


@compiled
def _forward(a: Floats, b: Floats) -> None:
    """Turns `b: float64[k, s]` into L^-1 b, in place."""
    for row in range(len(a)):
        for before in range(row):
            factor = a[row, before]
            for column in range(b.shape[1]):
                b[row, column] -= factor * b[before, column]
        b[row] /= a[row, row]


@compiled
def solve_each(matrices: Floats, right: Floats, last: Floats, least: Floats, determinant: Floats) -> None:
    """Solutions in place of `right: float64[v, k, s]`, and what else `Solved` has.

    The matrices `float64[v, k, k]` are overwritten.
    """
    for v in range(matrices.shape[0]):
        a, b = matrices[v], right[v]
        least[v], last[v] = _decompose(a)
        determinant[v] = 2 * np.log(np.diag(a)).sum()
        _forward(a, b)
        for row in range(len(a) - 1, -1, -1):
            b[row] /= a[row, row]
            for before in range(row):
                factor = a[row, before]
                for column in range(b.shape[1]):
                    b[before, column] -= factor * b[row, column]


@compiled
def fill_missing_people(calls: NDArray[np.uint8], people: NDArray[np.int64]) -> None:
    """Into `people`, the samples of the missing calls of `uint8[v, w]`, variant by variant; there is room for them all."""
    found = 0
    for v in range(calls.shape[0]):
        row = calls[v]
        for byte in range(len(row)):
            bits = row[byte] & (row[byte] >> 1) & 0x55
            if bits:
                for field in range(4):
                    if bits >> (2 * field) & 1:
                        people[found] = 4 * byte + field
                        found += 1


@compiled
def _take_off(people: NDArray[np.int64], values: Floats, a: Floats, b: Floats, sums: Floats) -> tuple[float, float]:
    """Takes people's products off a = z'wz (lower triangle), b = [.., z'r] and sums of w z; their residuals' sum, how many are cases."""
    columns = len(a)
    residuals = cases = 0.0
    for person in people:
        value = values[person]
        residual, weight = value[columns], value[columns + 1]
        residuals += residual
        cases += residual > 0
        for row in range(columns):
            factor = weight * value[row]
            sums[row] -= factor
            b[row, 1] -= value[row] * residual
            for column in range(row + 1):
                a[row, column] -= factor * value[column]
    return residuals, cases


@compiled
def score_each(products: Floats, squares: Floats, missing: Any, values: Floats, found: Any) -> None:
    """Score tests from the products of v variants' calls with n people's values.

    `values: float64[n, k + 2]` are the whitened basis z (its first column constant, above 0), residual r and weight w; `products:
    float64[v, k + 1 or more]` the sums of g w z and g r, `squares: float64[v]` of g^2 w; `missing` the first place (`int64[v + 1]`) and
    the people of each variant's missing calls. `found` are `float64[v]` to fill: U, g'Wg from the mean, V, the least share of a pivot,
    and cases among the missing.
    """
    starts, people = missing
    score, own, information, least, cases = found
    columns = values.shape[1] - 2
    a, b, sums, identity = np.empty((columns, columns)), np.empty((columns, 2)), np.empty(columns), np.eye(columns)
    constant = values[:, 0].max()
    for v in range(len(products)):
        a[:] = identity
        b[:] = 0.0
        sums[:] = 0.0
        # The weights' sum is that of w z over the constant z, and 1 / constant^2 over all people, for z is orthonormal under w.
        sums[0] = 1 / constant
        residuals, cases[v] = _take_off(people[starts[v] : starts[v + 1]], values, a, b, sums)
        mean = products[v, 0] / sums[0]
        for row in range(columns):
            b[row, 0] = products[v, row] - mean * sums[row]
        score[v] = products[v, columns] + mean * residuals
        own[v] = squares[v] - mean * products[v, 0] / constant
        least[v], information[v] = 1.0, own[v]
        if starts[v + 1] > starts[v]:
            least[v], _ = _decompose(a)
            _forward(a, b)
        for row in range(columns):
            information[v] -= b[row, 0] * b[row, 0]
            score[v] -= b[row, 0] * b[row, 1]
