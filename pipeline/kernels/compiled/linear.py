"""Linear regression of traits on packed calls, a variant at a time, from the shared product: missing calls, estimates, reasons.

The notation and the codes of reasons are those of kernels/linear_regression.py, whose `associate_plain` is the oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled, popcount

_LOW = np.uint64(0x5555555555555555)
_ONE = np.uint64(1)
_FEW = 256  # missing samples that need no room of their own


@compiled
def _count(calls: Any, words: Any, missing: Any) -> tuple[int, int, int]:
    """Heterozygous, homozygous ALT and missing calls; writes the samples that are missing to `missing`.

    `words` is room for the calls as `uint64`.
    """
    content = words.view(np.uint8)
    for byte in range(len(calls)):
        content[byte] = calls[byte]
    one = two = none = np.uint64(0)
    for place in range(len(words)):
        low, high = words[place] & _LOW, words[place] >> _ONE & _LOW
        one += popcount(low & ~high)
        two += popcount(high & ~low)
        none += popcount(low & high)
    found = 0
    if none > 0:
        for place in range(len(words)):
            left = words[place] & words[place] >> _ONE & _LOW
            while left != 0:
                missing[found] = 32 * place + np.int64(popcount((left & (~left + _ONE)) - _ONE)) // 2
                found += 1
                left &= left - _ONE
    return int(one), int(two), found


@compiled
def _subtract(target: Any, sources: Any, count: int, column: int) -> None:
    """From `column` on, takes off `target` the first `count` rows of sources, each times its own number in that column."""
    # Slices that begin at 0: an index that might be negative would keep the loops from being vectorized.
    kept = target[column:]
    for first in range(0, count - 3, 4):
        s0, s1 = sources[first, column:], sources[first + 1, column:]
        s2, s3 = sources[first + 2, column:], sources[first + 3, column:]
        f0, f1, f2, f3 = s0[0], s1[0], s2[0], s3[0]
        for c in range(len(kept)):
            kept[c] -= (f0 * s0[c] + f1 * s1[c]) + (f2 * s2[c] + f3 * s3[c])
    for last in range(count - count % 4, count):
        source = sources[last, column:]
        factor = source[0]
        for c in range(len(kept)):
            kept[c] -= factor * source[c]


@compiled
def _gather(values: Any, missing: Any, gathered: Any, sums: Any, squares: Any) -> None:
    """The missing samples' rows of values, side by side, and their columns' sums and sums of squares."""
    for column in range(len(sums)):
        sums[column] = squares[column] = 0.0
    for place in range(len(missing)):
        source, target = values[missing[place]], gathered[place]
        for column in range(len(source)):
            value = source[column]
            target[column] = value
            sums[column] += value
            squares[column] += value * value


@compiled
def _whiten(system: Any, gathered: Any, count: int, regular_above: float) -> bool:
    """Makes `system` L^-1 [A | c | b], A = I - Q_M'Q_M = L L' and c = -Q_M'r_M of the `count` missing samples; its last column comes as b.

    Gives whether the pivots of A stay above `regular_above`. What stands below the diagonal is of no use.
    """
    rows, columns = system.shape
    for row in range(rows):
        target = system[row]
        for column in range(columns - 1):
            target[column] = 0.0
        target[row] = 1.0
        _subtract(target, gathered, count, row)
        _subtract(target, system, row, row)
        pivot = target[row]
        if not pivot > regular_above:
            return False
        scale = 1 / np.sqrt(pivot)
        for column in range(columns):
            target[column] *= scale
    return True


@compiled
def _without_missing(system: Any, trait: Any, left: Any, basis: Any) -> None:
    """Takes what the whitened system says of the missing samples off `trait` (g~'r~) and `left` (r~'r~), and gives L^-1 Q'g."""
    rows, traits = len(system), len(trait)
    for row in range(rows):
        solved = system[row, rows : rows + traits]
        own = system[row, rows + traits]
        basis[row] = own
        for column in range(traits):
            trait[column] -= own * solved[column]
            left[column] -= solved[column] * solved[column]


@compiled
def _estimate(place: int, why: int, scale: Any, work: Any, limits: Any, found: Any) -> None:
    """Writes a variant's estimates, or NaN and why there are none; `scale` is g~'g~ and df.

    `work` is g~'r~ and r~'r~ by trait; `limits` r~'r~ of all samples by trait, and what share of r~'r~ is rounding.
    """
    squares, df = scale
    trait, left = work[0], work[1]
    totals, rounding = limits
    beta, error, statistic, reason = found
    for column in range(len(trait)):
        slope = trait[column] / squares
        rest = max(left[column] - slope * trait[column], rounding * left[column])
        flat = left[column] <= 64 * rounding * totals[column]
        spread = np.nan if flat or why > 0 else np.sqrt(rest / df / squares)
        beta[place, column] = np.nan if flat or why > 0 else slope
        error[place, column] = spread
        statistic[place, column] = slope / spread
        reason[place, column] = why if why > 0 else 5 if flat else 0


@compiled
def _begin(product: Any, totals: Any, work: Any) -> None:
    """What holds where no call is missing: g~'r~, r~'r~ and Q'g."""
    trait, left, basis = work[0], work[1], work[2]
    for column in range(len(trait)):
        trait[column] = product[len(basis) + column]
        left[column] = totals[column]
    basis[0] = 0.0
    for row in range(1, len(basis)):
        basis[row] = product[row]


@compiled
def _correct(values: Any, missing: Any, mean: float, settings: Any, work: Any) -> bool:
    """Takes the missing samples out of `work` (trait, left, basis and their room); whether the system is regular."""
    leave, collinear_below = settings
    trait, left, basis, system, sums, squares, room = work
    k, traits = len(basis), len(trait)
    gathered = room if len(missing) <= len(room) else np.zeros((len(missing), k + traits + 1))
    _gather(values, missing, gathered, sums, squares)
    for column in range(traits):
        trait[column] += mean * sums[k + column]
    for row in range(1, k):
        basis[row] += mean * sums[row]
    if leave:
        for column in range(traits):
            left[column] -= squares[k + column]
        for row in range(k):
            system[row, k + traits] = basis[row]
        if not _whiten(system, gathered, len(missing), collinear_below):
            return False
        _without_missing(system, trait, left, basis)
    return True


@compiled
def _reason(called: int, df: int, spread: float, own: float, settings: Any) -> int:
    """The code of why there is no result, 0 where there is one; `own` is the part of the spread that is not the covariates'.

    `settings`: whether the covariates are independent, and the share of the spread below which it is theirs.
    """
    regular, collinear_below = settings
    if df < 1 or called == 0:
        return 1
    if spread <= 0:
        return 2
    if not regular:
        return 4
    return 3 if own <= collinear_below * spread else 0


@compiled
def regress(calls: Any, product: Any, values: Any, settings: Any, found: Any) -> None:
    """Fills `found`: beta, standard error, t, reason `[v, t]`, and n, df, frequency `[v]`.

    `calls: uint8[v, w]` and `values: float64[n, k + t]` (intercept, basis, residuals) are 0 for samples not used; `product:
    float64[v, k + t or more]` is theirs, its first column not read; `settings`: used, k, what one and two copies of ALT count, whether
    missing calls leave (else they get the mean), the shares below which a pivot is collinear and a residual is rounding, and r'r by
    trait.
    """
    used, k, single, double, leave, collinear_below, rounding, totals = settings
    beta, error, statistic, reasons, number, freedom, frequency = found
    traits = values.shape[1] - k
    words, missing = np.zeros((calls.shape[1] + 7) // 8, np.uint64), np.empty(len(values), np.int64)
    sums, squares = np.empty(k + traits), np.empty(k + traits)
    system, room = np.zeros((k, k + traits + 1)), np.zeros((_FEW, k + traits + 1))
    work = (np.empty(traits), np.empty(traits), np.empty(k), system, sums, squares, room)
    for place in range(len(calls)):
        one, two, none = _count(calls[place], words, missing)
        called = used - none
        total = single * one + double * two
        spread = (called * (single * single * one + double * double * two) - total * total) / max(called, 1)
        _begin(product[place], totals, work)
        regular = none == 0 or _correct(values, missing[:none], total / max(called, 1), (leave, collinear_below), work)
        number[place] = called if leave else used
        df = freedom[place] = number[place] - k - 1
        frequency[place] = (one + 2 * two) / (2 * called)
        own = spread
        for row in range(k):
            own -= work[2][row] * work[2][row]
        why = _reason(called, df, spread, own, (regular, collinear_below))
        _estimate(place, why, (own, df), work, (totals, rounding), (beta, error, statistic, reasons))
