"""Exact tests of Hardy-Weinberg equilibrium, one table at a time: a walk over the outcomes, from the observed one out.

Neighbouring outcomes differ by a simple ratio, so all weights are in units of the observed outcome's. A table whose likeliest outcome is
beyond `LARGEST` of these units is left to the version with logarithms: its p-value is written as -1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled
from pipeline.kernels.device.hardy_weinberg import likeliest, tolerance_of

LARGEST = 1e270
_NEGLIGIBLE = 1e-20

_tolerance, _likeliest = compiled(tolerance_of), compiled(likeliest)  # the same source as a GPU's


@compiled
def exact(counts: NDArray[np.int64], midp: bool, p_values: NDArray[np.float64]) -> None:
    """Write the p-value of each table of `counts: int64[v, 3]`, homozygous REF, heterozygous, homozygous ALT."""
    sums = np.empty(3)
    for variant in range(len(counts)):
        one, het, other = float(counts[variant, 0]), float(counts[variant, 1]), float(counts[variant, 2])
        people = one + het + other
        if people == 0:
            p_values[variant] = np.nan
            continue
        sums[0], sums[1], sums[2] = 0.0, 1.0, 1.0
        tolerance = _tolerance(people)
        _walk_up(1.0, one, het, other, tolerance, sums)
        _walk_down(1.0, one, het, other, tolerance, sums)
        p_values[variant] = _p_value(sums, midp)


@compiled
def exact_x(counts: NDArray[np.int64], midp: bool, p_values: NDArray[np.float64]) -> None:
    """Write the p-value of each table of `counts: int64[v, 5]`: women homozygous REF, heterozygous, homozygous ALT; men REF, ALT."""
    sums = np.empty(3)
    for variant in range(len(counts)):
        hom_ref, het, hom_alt, ref, alt = counts[variant]
        women, men = hom_ref + het + hom_alt, ref + alt
        if women + men == 0:
            p_values[variant] = np.nan
            continue
        sums[:] = 0.0
        tolerance = _tolerance(2 * women + men)
        _columns((float(hom_ref), float(het), float(hom_alt)), (float(ref), float(alt)), tolerance, True, sums)
        _columns((float(hom_alt), float(het), float(hom_ref)), (float(alt), float(ref)), tolerance, False, sums)
        p_values[variant] = _p_value(sums, midp)


@compiled
def _p_value(sums: NDArray[np.float64], midp: bool) -> float:
    """Outcomes no likelier than the observed over all, from the sums [likelier, no likelier, number as likely]; -1 for logarithms."""
    if sums[0] > LARGEST:
        return -1.0
    return float((sums[1] - 0.5 * sums[2] if midp else sums[1]) / (sums[0] + sums[1]))


@compiled
def _walk_up(term: float, rare: float, het: float, common: float, tolerance: float, sums: NDArray[np.float64]) -> None:
    """Add to `sums`, as `_p_value` has them, the outcomes with 2, 4, ... heterozygotes more than one of weight `term`, without it."""
    likelier, others = 0.0, 0.0
    while term > _NEGLIGIBLE and likelier <= LARGEST:
        term *= 4.0 * rare * common / ((het + 1.0) * (het + 2.0))
        rare, het, common = rare - 1.0, het + 2.0, common - 1.0
        if term > 1.0 + tolerance:
            likelier += term
        else:
            others += term
            sums[2] += term >= 1.0 - tolerance
    sums[0] += likelier
    sums[1] += others


@compiled
def _walk_down(term: float, rare: float, het: float, common: float, tolerance: float, sums: NDArray[np.float64]) -> None:
    """As `_walk_up`, with 2, 4, ... heterozygotes fewer."""
    likelier, others = 0.0, 0.0
    while term > _NEGLIGIBLE and likelier <= LARGEST:
        rare, common = rare + 1.0, common + 1.0
        term *= het * (het - 1.0) / (4.0 * rare * common)
        het -= 2.0
        if term > 1.0 + tolerance:
            likelier += term
        else:
            others += term
            sums[2] += term >= 1.0 - tolerance
    sums[0] += likelier
    sums[1] += others


@compiled
def _columns(
    women: tuple[float, float, float], men: tuple[float, float], tolerance: float, observed: bool, sums: NDArray[np.float64]
) -> None:
    """Add to `sums` the outcomes with as many men of the first allele as observed, where `observed`, and those with 1, 2, ... more.

    `women` are homozygous for the first allele, heterozygous, homozygous for the second; `men` have the first, the second. One outcome
    of each number of men is followed to the next number, and climbs from there to the likeliest of its number.
    """
    first, het, second = women
    one, other = men
    weight, wanted = 1.0, observed
    while True:
        (first, het, second), weight = _likeliest((first, het, second), weight)
        if weight < _NEGLIGIBLE or sums[0] > LARGEST:
            return
        if wanted:
            if weight > 1.0 + tolerance:
                sums[0] += weight
            else:
                sums[1] += weight
                sums[2] += weight >= 1.0 - tolerance
            _walk_up(weight, first, het, second, tolerance, sums)
            _walk_down(weight, first, het, second, tolerance, sums)
        wanted = True
        if first > 0:
            weight *= other / (one + 1.0) * 2.0 * first / (het + 1.0)
            first, het = first - 1.0, het + 1.0
        else:
            weight *= other / (one + 1.0) * het / (2.0 * (second + 1.0))
            het, second = het - 1.0, second + 1.0
        one, other = one + 1.0, other - 1.0
