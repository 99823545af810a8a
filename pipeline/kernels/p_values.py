"""P-values that stay right where they are too small for a float, and the inflation of a genome scan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, special_module, to_host
from pipeline.kernels.genotypes import Array

MEDIAN_CHI_SQUARE = 0.454936423119572
"""Median of a chi-square with one degree of freedom."""

_TINY_P = 1e-280
_GREAT = 1e300  # a statistic
_FRACTION_TERMS, _CHI_SQUARE_TERMS = 500, 12


def t_test_p_values(t: Array, df: Array) -> tuple[Array, Array]:
    """Two-sided p-value and -log10 of it, for a t statistic with `df` degrees of freedom (arrays that broadcast); NaN for NaN or df <= 0.

    p = I_x(df / 2, 1 / 2) with x = df / (df + t^2). Where that comes near the smallest float, its logarithm is taken from the continued
    fraction of the incomplete beta function (NIST DLMF 8.17.22), so -log10 p has no limit. An infinite t has p = 0.
    """
    xp = array_module(t, df)
    t, df = xp.broadcast_arrays(xp.asarray(t, xp.float64), xp.asarray(df, xp.float64))
    if xp is not np:
        from pipeline.kernels.device.p_values import t_p_values

        p_value, logarithm = t_p_values(t.reshape(-1, 1), df.reshape(-1))
        return p_value.reshape(t.shape), logarithm.reshape(t.shape)
    valid = ~xp.isnan(t) & (df > 0)
    # Stand-ins keep the functions below away from what they do not take; the square of 1e150 is still a float.
    square, freedom = xp.minimum(abs(xp.where(valid, t, 0.0)), 1e150) ** 2, xp.where(valid, df, 1.0)
    betainc = special_module(square).betainc
    # For t^2 below 1, x lies near 1 and its rounding would show: there the other tail is exact.
    small = square < 1
    x = freedom / (freedom + square)
    tail = betainc(freedom / 2, 0.5, x)
    middle = 1 - betainc(0.5, freedom / 2, xp.where(small, square / (freedom + square), 0.0))
    p_value = xp.where(small, middle, tail)
    neg_log_10 = 0.0 - xp.log10(xp.maximum(p_value, _TINY_P))
    tiny = p_value < _TINY_P
    neg_log_10[tiny] = _neg_log_10_tail(square[tiny], freedom[tiny])
    neg_log_10[xp.isinf(t)] = xp.inf
    return xp.where(valid, p_value, xp.nan), xp.where(valid, neg_log_10, xp.nan)


def z_test_p_values(z: Array) -> tuple[Array, Array]:
    """Two-sided p-value and -log10 of it for a standard normal statistic; NaN for NaN. -log10 p has no limit; an infinite z has p = 0."""
    xp = array_module(z)
    if xp is not np:
        from pipeline.kernels.device.p_values import z_p_values

        return z_p_values(z)
    special, size = special_module(z), abs(z)
    p_value = special.erfc(size * math.sqrt(0.5))
    # The stand-in keeps log_ndtr from what it does not take; its square is still a float.
    logarithm = -(math.log(2) + special.log_ndtr(-xp.minimum(size, 1e150))) / math.log(10)
    neg_log_10 = xp.where(p_value > _TINY_P, 0.0 - xp.log10(xp.maximum(p_value, _TINY_P)), logarithm)
    return p_value, xp.where(xp.isinf(z), xp.inf, neg_log_10)


def scan_p_values(z: Array) -> tuple[Array, Array]:
    """As `z_test_p_values`, of what a scan finds whose kernels are compiled, too: SciPy need not be loaded."""
    if array_module(z) is not np:
        return z_test_p_values(z)
    from pipeline.kernels.compiled.p_values import z_p_values

    return z_p_values(z)


def f_test_p_values(f: Array, terms: int, df: Array) -> tuple[Array, Array]:
    """Upper p-value and -log10 of it of an F statistic with `terms` and `df` degrees of freedom (arrays that broadcast); NaN for NaN.

    p = I_x(df / 2, terms / 2) with x = df / (df + terms f), its logarithm by a continued fraction where that is too small for a float.
    """
    xp = array_module(f, df)
    f, df = xp.broadcast_arrays(xp.asarray(f, xp.float64), xp.asarray(df, xp.float64))
    square = terms * xp.clip(xp.nan_to_num(f), 0.0, _GREAT)
    p_value = special_module(square).betainc(df / 2, terms / 2, df / (df + square))
    neg_log_10, tiny = 0.0 - xp.log10(xp.maximum(p_value, _TINY_P)), p_value < _TINY_P
    neg_log_10[tiny] = _neg_log_10_tail(square[tiny], df[tiny], terms / 2)
    return xp.where(xp.isnan(f), xp.nan, p_value), xp.where(xp.isnan(f), xp.nan, neg_log_10)


def chi_square_p_values(square: Array, terms: int) -> tuple[Array, Array]:
    """Upper p-value and -log10 of it of a chi-square with `terms` degrees of freedom; NaN for NaN.

    Where p is too small for a float, Q(a, x) = x^(a-1) e^-x / Gamma(a) (1 + (a-1)/x + (a-1)(a-2)/x^2 + ...), a = terms / 2 and x half the
    statistic (NIST DLMF 8.11.2).
    """
    xp = array_module(square)
    special, a = special_module(square), terms / 2
    known = xp.clip(xp.nan_to_num(square), 0.0, _GREAT)
    p_value, x = special.gammaincc(a, known / 2), xp.maximum(known / 2, 1.0)
    series, term = xp.ones_like(x), xp.ones_like(x)
    for number in range(1, _CHI_SQUARE_TERMS):
        term = term * (a - number) / x
        series = series + term
    logarithm = ((a - 1) * xp.log(x) - x - math.lgamma(a) + xp.log(xp.maximum(series, _TINY_P))) / math.log(10)
    neg_log_10 = xp.where(p_value < _TINY_P, -logarithm, 0.0 - xp.log10(xp.maximum(p_value, _TINY_P)))
    return xp.where(xp.isnan(square), xp.nan, p_value), xp.where(xp.isnan(square), xp.nan, neg_log_10)


def z_of_neg_log_10_p(neg_log_10: Array) -> Array:
    """The z >= 0 whose two-sided p-value has this -log10, without limit; NaN for NaN."""
    from scipy.special import ndtri_exp

    xp = array_module(neg_log_10)
    return xp.asarray(-ndtri_exp(-to_host(neg_log_10) * math.log(10) - math.log(2)))  # a few numbers: on the host, where the function is


def significant(t: Array, df: Array, max_p: float) -> tuple[Array, Array, Array, Array]:
    """Row, column (`int64[r]`), p-value and -log10 of it (`float64[r]`) of the t statistics `float64[v, s]` with p <= `max_p`, row by row.

    `df: int64[v]`. With `max_p` 1 all, those that are NaN too.
    """
    xp = array_module(t, df)
    if max_p >= 1:
        row, column = xp.repeat(xp.arange(len(t)), t.shape[1]), xp.tile(xp.arange(t.shape[1]), len(t))
        return row, column, *(values.ravel() for values in t_test_p_values(t, df[:, None]))
    if xp is not np:
        return _significant_on_device(t, df, max_p)
    row, column = xp.nonzero(abs(t) >= _least_t(df, max_p)[:, None])
    p_value, neg_log_10 = t_test_p_values(t[row, column], df[row])
    keep = p_value <= max_p
    return row[keep], column[keep], p_value[keep], neg_log_10[keep]


def significant_z(z: Array, max_p: float, df: Array | None = None) -> tuple[Array, Array, Array, Array]:
    """As `significant`, of normal statistics `float64[v, s]`; of Student's t where degrees of freedom are given, `df: int64[s]`."""
    xp = array_module(z)
    p_value, neg_log_10 = scan_p_values(z) if df is None else t_test_p_values(z, df)
    if max_p >= 1:
        return xp.repeat(xp.arange(len(z)), z.shape[1]), xp.tile(xp.arange(z.shape[1]), len(z)), p_value.ravel(), neg_log_10.ravel()
    row, column = xp.nonzero(p_value <= max_p)
    return row, column, p_value[row, column], neg_log_10[row, column]


def _significant_on_device(t: Array, df: Array, max_p: float) -> tuple[Array, Array, Array, Array]:
    """As `significant`, of CuPy arrays: all p-values up to `max_p`, then their places."""
    from pipeline.kernels.device.p_values import t_p_values

    p_value, logarithm = t_p_values(t, df, max_p)
    place = array_module(t).flatnonzero(p_value <= max_p)
    return place // t.shape[1], place % t.shape[1], p_value.ravel()[place], logarithm.ravel()[place]


def _least_t(df: Array, max_p: float) -> Array:
    """A |t| a little below the one whose two-sided p-value is `max_p` (or 1e-250, where that is smaller), for each of `df`."""
    from scipy.special import stdtrit

    xp = array_module(df)
    values, places = xp.unique(df, return_inverse=True)
    freedom = np.maximum(to_host(values), 1)  # a few numbers: on the host, where the function is
    return xp.asarray(np.minimum(-stdtrit(freedom, max(max_p, 1e-250) / 2), 1e100) * (1 - 1e-7))[places]


def _neg_log_10_tail(square: Array, df: Array, b: float = 0.5) -> Array:
    """-log10 of I_x(a, b), a = df / 2, for x = df / (df + square) well below 1: x^a (1 - x)^b / (a B(a, b)) times a continued fraction."""
    xp = array_module(square)
    a, gammaln = df / 2, special_module(square).gammaln
    log_x = -xp.log1p(square / df)
    log_beta = gammaln(a) + math.lgamma(b) - gammaln(a + b)
    log_y = -xp.log1p(df / square)
    logarithm = a * log_x + b * log_y - xp.log(a) - log_beta + xp.log(_beta_fraction(xp, a, xp.exp(log_x), b))
    return -logarithm / math.log(10)


def _beta_fraction(xp: Any, a: Array, x: Array, b: float) -> Array:
    """The continued fraction of I_x(a, b) (DLMF 8.17.22) by Lentz's method; it converges fast for x < (a + 1) / (a + b + 2)."""
    numerator, denominator = xp.ones_like(x), 1 / (1 - (a + b) * x / (a + 1))
    value = denominator.copy()
    for m in range(1, _FRACTION_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            numerator, denominator = 1 + term / numerator, 1 / (1 + term * denominator)
            value = value * numerator * denominator
        if bool(xp.all(abs(value - before) <= 1e-15 * abs(value))):
            break
    return value


def genomic_inflation(p_values: Array) -> float:
    """Lambda: the median chi-square (one degree of freedom) of the p-values over the median expected by chance; NaN where there are none.

    Devlin & Roeder (1999), Biometrics 55:997-1004. NaN among the p-values are left out.
    """
    xp = array_module(p_values)
    known = p_values[~xp.isnan(p_values)]
    if known.size == 0:
        return math.nan
    return float(xp.median(special_module(known).ndtri(known / 2) ** 2)) / MEDIAN_CHI_SQUARE
