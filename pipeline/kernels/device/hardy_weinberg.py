"""Exact tests of Hardy-Weinberg equilibrium, a table a thread: the walks of `pipeline.kernels.compiled.hardy_weinberg`, which says how."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.launch import DeviceKernel, blocks_for

if TYPE_CHECKING:
    from numba import cuda

Sums = tuple[float, float, float]
"""Weights of the outcomes that are likelier than the observed one, of the others, and how many of these are as likely."""


def tolerance_of(people: float) -> float:
    """By how much of itself an outcome's weight may differ from the observed one's and still count as equal."""
    return 8 * 2.220446049250313e-16 * max(lgamma(people + 1.0), 50.0)


def p_value_of(likelier: float, others: float, ties: float, midp: int) -> float:
    """Outcomes no likelier than the observed over all; -1 where the likelier ones are beyond what a double should hold."""
    if likelier > 1e270:
        return -1.0
    return (others - 0.5 * ties if midp else others) / (likelier + others)


def counted(term: float, tolerance: float, sums: Sums) -> Sums:
    """The sums with one more outcome."""
    likelier, others, ties = sums
    if term > 1.0 + tolerance:
        return likelier + term, others, ties
    return likelier, others + term, ties + (1.0 if term >= 1.0 - tolerance else 0.0)


def walked(term: float, table: Sums, tolerance: float, sums: Sums) -> Sums:
    """The sums with the outcomes that have 2, 4, ... heterozygotes more, and those with fewer, than `table`, which weighs `term`."""
    weight, rare, het, common = term, table[0], table[1], table[2]
    while weight > 1e-20 and sums[0] <= 1e270:
        weight *= 4.0 * rare * common / ((het + 1.0) * (het + 2.0))
        rare, het, common = rare - 1.0, het + 2.0, common - 1.0
        sums = counted(weight, tolerance, sums)
    weight, rare, het, common = term, table[0], table[1], table[2]
    while weight > 1e-20 and sums[0] <= 1e270:
        rare, common = rare + 1.0, common + 1.0
        weight *= het * (het - 1.0) / (4.0 * rare * common)
        het -= 2.0
        sums = counted(weight, tolerance, sums)
    return sums


def likeliest(table: Sums, weight: float) -> tuple[Sums, float]:
    """From an outcome among women of this weight to the likeliest with as many alleles, and its weight."""
    first, het, second = table
    while True:
        up = 4.0 * first * second / ((het + 1.0) * (het + 2.0))
        down = het * (het - 1.0) / (4.0 * (first + 1.0) * (second + 1.0))
        if up > 1.0:
            first, het, second, weight = first - 1.0, het + 2.0, second - 1.0, weight * up
        elif down > 1.0:
            first, het, second, weight = first + 1.0, het - 2.0, second + 1.0, weight * down
        else:
            return (first, het, second), weight


def columns(women: Sums, men: tuple[float, float], tolerance: float, observed: bool, sums: Sums) -> Sums:
    """The sums with the outcomes of as many men of the first allele as observed, where `observed`, and of 1, 2, ... more."""
    weight, wanted, one, other = 1.0, observed, men[0], men[1]
    while weight > 0:
        women, weight = likeliest(women, weight)
        if weight < 1e-20 or sums[0] > 1e270:
            return sums
        if wanted:
            sums = walked(weight, women, tolerance, counted(weight, tolerance, sums))
        wanted = True
        first, het, second = women
        if first > 0:
            weight *= other / (one + 1.0) * 2.0 * first / (het + 1.0)
            women = (first - 1.0, het + 1.0, second)
        else:
            weight *= other / (one + 1.0) * het / (2.0 * (second + 1.0))
            women = (first, het - 1.0, second + 1.0)
        one, other = one + 1.0, other - 1.0
    return sums


def test_tables(counts: Any, midp: int, p_values: Any) -> None:
    """A thread tests one table."""
    variant = cuda.grid(1)
    if variant >= counts.shape[0]:
        return
    table = (float(counts[variant, 0]), float(counts[variant, 1]), float(counts[variant, 2]))
    people = table[0] + table[1] + table[2]
    if people == 0:
        p_values[variant] = np.nan
        return
    likelier, others, ties = walked(1.0, table, tolerance_of(people), (0.0, 1.0, 1.0))
    p_values[variant] = p_value_of(likelier, others, ties, midp)


def test_tables_of_x(counts: Any, midp: int, p_values: Any) -> None:
    """A thread tests one table of women and men."""
    variant = cuda.grid(1)
    if variant >= counts.shape[0]:
        return
    hom_ref, het, hom_alt = float(counts[variant, 0]), float(counts[variant, 1]), float(counts[variant, 2])
    ref, alt = float(counts[variant, 3]), float(counts[variant, 4])
    women, men = hom_ref + het + hom_alt, ref + alt
    if women + men == 0:
        p_values[variant] = np.nan
        return
    tolerance = tolerance_of(2 * women + men)
    sums = columns((hom_ref, het, hom_alt), (ref, alt), tolerance, True, (0.0, 0.0, 0.0))
    likelier, others, ties = columns((hom_alt, het, hom_ref), (alt, ref), tolerance, False, sums)
    p_values[variant] = p_value_of(likelier, others, ties, midp)


def _exact(counts: Any, midp: int, p_values: Any) -> None:
    from pipeline.kernels.compiled.hardy_weinberg import exact as compiled

    compiled(counts, bool(midp), p_values)


def _exact_x(counts: Any, midp: int, p_values: Any) -> None:
    from pipeline.kernels.compiled.hardy_weinberg import exact_x as compiled

    compiled(counts, bool(midp), p_values)


_WALKS = (tolerance_of, p_value_of, counted, walked)

exact = DeviceKernel(test_tables, "int64[:,::1] int64 float64[::1]", _exact, 128, _WALKS)
"""Write the p-value of each table of `counts: int64[v, 3]`, homozygous REF, heterozygous, homozygous ALT; a thread each.

NaN where nobody is called; -1 where logarithms are needed, as the compiled version has it.
"""

exact_x = DeviceKernel(test_tables_of_x, "int64[:,::1] int64 float64[::1]", _exact_x, 128, (*_WALKS, likeliest, columns))
"""As `exact`, of `counts: int64[v, 5]`: women homozygous REF, heterozygous, homozygous ALT; men with REF, with ALT."""


def tested(kernel: DeviceKernel, counts: Any, midp: bool, by_logarithms: Callable[[Any, bool], Any]) -> Any:
    """P-values `float64[v]` of one of the kernels; the few tables that its walk leaves are tested by logarithms, on the host."""
    xp = array_module(counts)
    p_values = xp.empty(len(counts))
    kernel(blocks_for(len(counts), kernel.threads), xp.ascontiguousarray(counts), int(midp), p_values)
    beyond = xp.flatnonzero(p_values < 0)
    if len(beyond):
        p_values[beyond] = xp.asarray(by_logarithms(to_host(counts[beyond]), midp))
    return p_values
