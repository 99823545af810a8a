"""P-values of t and z statistics and their logarithms, a thread each: what `pipeline.kernels.p_values` computes array by array."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pipeline.backend.arrays import array_module
from pipeline.backend.launch import DeviceKernel, blocks_for

if TYPE_CHECKING:
    from numba import cuda

_MOST_TERMS = 20_000
_ROOT_PI = 1.7724538509055159
_LN_10 = 2.302585092994046
_ROOT_HALF = 0.7071067811865476
_TINY_P = 1e-280


def gamma_ratio(a: float) -> float:
    """Gamma(a + 1/2) / Gamma(a): from a = 20 on by its expansion in 1 / a (DLMF 5.11.13), below by the recurrence that leads there."""
    factor = 1.0
    while a < 20.0:
        factor *= a / (a + 0.5)
        a += 1.0
    u = 1.0 / a
    series = -21.0 / 32768.0 + u * (-399.0 / 262144.0 + u * (869.0 / 4194304.0 + u * 39325.0 / 33554432.0))
    return factor * math.sqrt(a) * (1.0 + u * (-0.125 + u * (1.0 / 128.0 + u * (5.0 / 1024.0 + u * series))))


def beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of I_x(a, b) (DLMF 8.17.22) by Lentz's method; it converges fast for x < (a + 1) / (a + b + 2)."""
    numerator, denominator = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = denominator
    for m in range(1, _MOST_TERMS):
        before = value
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        numerator, denominator = 1.0 + even / numerator, 1.0 / (1.0 + even * denominator)
        value *= numerator * denominator
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        numerator, denominator = 1.0 + odd / numerator, 1.0 / (1.0 + odd * denominator)
        value *= numerator * denominator
        if abs(value - before) <= 1e-16 * abs(value):
            break
    return value


def t_tails(t: float, df: float) -> tuple[float, float]:
    """Two-sided p-value and -log10 of it, of a finite t and df > 0."""
    square, a = min(abs(t), 1e150) ** 2, 0.5 * df
    # With x = df / (df + t^2): x^a (1 - x)^(1/2) / B(a, 1/2) is what both tails of the incomplete beta function begin with.
    log_x = -math.log1p(square / df)
    if square == 0:
        return 1.0, 0.0
    front = a * log_x - 0.5 * math.log1p(df / square) + math.log(gamma_ratio(a) / _ROOT_PI)
    if df / (df + square) < (a + 1.0) / (a + 2.5):
        logarithm = front + math.log(beta_fraction(a, 0.5, math.exp(log_x)) / a)
        return math.exp(logarithm), -logarithm / _LN_10
    p_value = 1.0 - 2.0 * math.exp(front) * beta_fraction(0.5, a, square / (df + square))
    return p_value, 0.0 - math.log10(p_value)


def test_t(t: Any, df: Any, max_p: float, p_values: Any, logarithms: Any) -> None:
    """A thread takes one statistic."""
    place = cuda.grid(1)
    if place >= t.size:
        return
    row, column = place // t.shape[1], place % t.shape[1]
    statistic, freedom = t[row, column], df[row]
    p_value = logarithm = math.nan
    if freedom > 0 and statistic == statistic:
        # The normal tail is the smaller one: where it is above max_p there is no need for the other.
        p_value = math.erfc(abs(statistic) * _ROOT_HALF)
        logarithm = math.inf
        if math.isinf(statistic):
            p_value = 0.0
        elif p_value <= max_p:
            p_value, logarithm = t_tails(statistic, freedom)
    p_values[row, column] = p_value
    logarithms[row, column] = logarithm


def _test_t(t: Any, df: Any, _max_p: float, p_values: Any, logarithms: Any) -> None:
    from pipeline.kernels.p_values import t_test_p_values

    p_values[:], logarithms[:] = t_test_p_values(t, df[:, None])


def test_z(z: Any, p_values: Any, logarithms: Any) -> None:
    """A thread takes one statistic. Where p is tiny its logarithm is that of erfc's asymptotic series (DLMF 7.12.1)."""
    place = cuda.grid(1)
    if place >= z.size:
        return
    size = abs(z[place]) * _ROOT_HALF
    p_value = math.erfc(size)
    logarithm = p_value
    if p_value > _TINY_P:
        logarithm = 0.0 - math.log10(p_value)
    elif size == size:
        size = min(abs(z[place]), 1e150) * _ROOT_HALF
        u = 0.5 / (size * size)
        series = 1.0 - u * (1.0 - 3.0 * u * (1.0 - 5.0 * u * (1.0 - 7.0 * u * (1.0 - 9.0 * u))))
        logarithm = (size * size + math.log(size * _ROOT_PI / series)) / _LN_10
        if math.isinf(z[place]):
            logarithm = math.inf
    p_values[place] = p_value
    logarithms[place] = logarithm


def _test_z(z: Any, p_values: Any, logarithms: Any) -> None:
    from pipeline.kernels.p_values import z_test_p_values

    p_values[:], logarithms[:] = z_test_p_values(z)


t_tests = DeviceKernel(
    test_t,
    "float64[:,::1] float64[::1] float64 float64[:,::1] float64[:,::1]",
    _test_t,
    128,
    (gamma_ratio, beta_fraction, t_tails),
)
"""Write the p-values of t statistics with `df: float64[v]` degrees of freedom, and -log10 of them, `float64[v, s]`; a thread each.

Where the normal distribution's p-value, which is smaller, is above `max_p` it stands for the other, with no end to its logarithm.
"""
z_tests = DeviceKernel(test_z, "float64[::1] float64[::1] float64[::1]", _test_z, 128)
"""Write the p-values of normal statistics, and -log10 of them, `float64[v]`; a thread each."""


def t_p_values(t: Any, df: Any, max_p: float = 1.0) -> tuple[Any, Any]:
    """P-values and -log10 of them, `float64[v, s]`, of CuPy arrays `t: float64[v, s]` and `df[v]`; only those up to `max_p` count."""
    xp = array_module(t)
    found = xp.empty(t.shape), xp.empty(t.shape)
    t_tests(blocks_for(t.size, t_tests.threads), xp.ascontiguousarray(t), df.astype(xp.float64), max_p, *found)
    return found


def z_p_values(z: Any) -> tuple[Any, Any]:
    """P-values and -log10 of them of normal statistics in a CuPy array of any shape."""
    xp = array_module(z)
    found = xp.empty(z.size), xp.empty(z.size)
    z_tests(blocks_for(z.size, z_tests.threads), xp.ascontiguousarray(z, xp.float64).reshape(-1), *found)
    return found[0].reshape(z.shape), found[1].reshape(z.shape)
