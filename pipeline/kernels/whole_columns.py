"""Columns of numbers as whole numbers, a high and a low one, so that their products with calls are sums that nothing rounds.

A column's unit is a power of two of which its greatest number has less than 2^22; what is left of a number is the low one, in units of
2^-22 of that. Both together are a number to 6e-14 of the greatest in its column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.kernels.genotypes import Array

BITS = 22
_MOST = (1 << BITS) - 1
_FEW = 12
"""Columns up to which two whole numbers cost less than one of 64 bits."""


class Columns(NamedTuple):
    """Columns to multiply genotypes with, or their squares."""

    values: Array
    """`float64[n, c]`, 0 for who is not used."""
    power: int = 1
    """Of the genotypes."""


def units_of(values: Array) -> Array:
    """The units of columns, `float64[c]`."""
    greatest = abs(values).max(axis=0, initial=0.0)
    return np.where(greatest > 0, np.ldexp(1.0, np.frexp(greatest)[1] - BITS), 1.0)


def whole_numbers(columns: Columns) -> tuple[Array, Array]:
    """`float64[n, 2 c]` of whole numbers below 2^22 in size, the high ones first, and their units."""
    units = units_of(columns.values)
    scaled = columns.values / units
    high = np.clip(np.rint(scaled), -_MOST, _MOST)
    low = np.clip(np.rint((scaled - high) * (1 << BITS)), -_MOST, _MOST)
    return np.concatenate([high, low], axis=1), np.concatenate([units, units / (1 << BITS)])


def products_of_calls(calls: Array, codes: tuple[float, float], means: Array, asked: tuple[Columns, ...]) -> list[Array]:
    """Sums over people of what packed calls `uint8[v, w]` count, to a power, times columns: `float64[v, c]` for each that is asked.

    `codes` are what one and two copies count, in halves, up to 2; `means: float64[v]` what a missing call counts.
    """
    if sum(columns.values.shape[1] for columns in asked) <= _FEW:
        return _of_few(calls, codes, means, asked)
    from pipeline.kernels.compiled.products import calls_product
    from pipeline.kernels.compiled.whole_products import missing_sums

    calls, found = np.require(calls, requirements=["C", "W"]), list[Array]()  # no view of a file's bytes: numba would compile once more
    for values, power in asked:
        product = calls_product(calls, values, (codes[0] ** power, codes[1] ** power))[:, : values.shape[1]]
        found.append(product + means[:, None] ** power * missing_sums(calls, values))
    return found


def _of_few(calls: Array, codes: tuple[float, float], means: Array, asked: tuple[Columns, ...]) -> list[Array]:
    """The same by whole numbers."""
    from pipeline.kernels.compiled.whole_products import LANES, whole_product

    numbers, units = zip(*(whole_numbers(columns) for columns in asked), strict=True)
    times = 1 if all(float(code).is_integer() for code in codes) else 2  # then both codes are whole numbers
    width, ends = sum(one.shape[1] for one in numbers), np.cumsum([one.shape[1] for one in numbers])
    room = np.zeros((3, len(numbers[0]), -(-width // LANES) * LANES), np.int32)
    for own, end, columns in zip(numbers, ends, asked, strict=True):
        for place, factor in enumerate((1, *((times * code) ** columns.power for code in codes))):
            room[place][:, end - own.shape[1] : end] = own * factor
    sums, absent = whole_product(calls, room[0], room[1], room[2])
    found = list[Array]()
    for own, unit, end, columns in zip(numbers, units, ends, asked, strict=True):
        some = slice(end - own.shape[1], end)
        product = (sums[:, some] / times**columns.power + means[:, None] ** columns.power * absent[:, some]) * unit
        found.append(product[:, : product.shape[1] // 2] + product[:, product.shape[1] // 2 :])
    return found
