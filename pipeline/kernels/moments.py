"""Means and spreads of columns as sums that blocks of rows add up to, and the scaling of rows by them.

A first pass finds each column's range, a second adds up its values and their squares after the range was put on -1 to 1. So nothing
overflows, and what the difference of the two sums loses is bounded: a column of n values spreads at least 1 / (2 sqrt(n)) of its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.distances import row_blocks

Array = Any
_MOST_POWER = 1_000
"""Of two: a unit beyond that would not be a double."""


Centre = bool | Literal["near"]
NEAR = 1024.0


class Span(NamedTuple):
    """Of a block of rows `float64[n, d]`, NaN where missing: how many rows, known values, and each column's least and greatest."""

    rows: int
    known: Array
    least: Array
    most: Array


class Moments(NamedTuple):
    """Of all rows, column by column `float64[d]`: known values, mean, standard deviation (over n), least and greatest value."""

    rows: int
    known: Array
    mean: Array
    deviation: Array
    least: Array
    most: Array


class Scaling(NamedTuple):
    """How rows become numbers that can be squared: `(value * unit - center) / scale`, and `fill` where a value is missing.

    All `float64[d]`; `unit` are powers of two, which bring a column below 1 in size and round nothing.
    """

    fill: Array
    unit: Array
    center: Array
    scale: Array

    @property
    def factor(self) -> Array:
        """What a step of 1 in scaled numbers is in the columns' own, `float64[d]`."""
        return self.scale / self.unit


def span(rows: Array) -> Span:
    """The ranges of some rows; infinities with the wrong sign for a column with no value."""
    return joined_spans([_span(rows[at]) for at in row_blocks(rows, rows.shape[1])] or [_span(rows)])


def _span(rows: Array) -> Span:
    xp = array_module(rows)
    missing = xp.isnan(rows)
    nothing = xp.full((1, rows.shape[1]), xp.inf)  # of no rows there is no least one
    least = xp.concatenate([nothing, xp.where(missing, xp.inf, rows)]).min(axis=0)
    most = xp.concatenate([-nothing, xp.where(missing, -xp.inf, rows)]).max(axis=0)
    return Span(len(rows), to_host(len(rows) - missing.sum(axis=0)), to_host(least), to_host(most))


def joined_spans(spans: Sequence[Span]) -> Span:
    """The ranges of several blocks together."""
    known = sum((one.known for one in spans[1:]), start=spans[0].known)
    least, most = np.min([one.least for one in spans], axis=0), np.max([one.most for one in spans], axis=0)
    return Span(sum(one.rows for one in spans), known, least, most)


def moment_sums(rows: Array, found: Span) -> Array:
    """Sums of the values on the range's scale and of their squares, `float64[2, d]`; those of two blocks add up."""
    xp = array_module(rows)
    middle, half = (xp.asarray(value) for value in _range(found))
    sums = xp.zeros((2, rows.shape[1]))
    for at in row_blocks(rows, rows.shape[1]):
        # Halved before they are subtracted: the distance of two values can be beyond what a double holds.
        scaled = xp.where(xp.isnan(rows[at]), 0.0, (rows[at] / 2 - middle / 2) / (half / 2))
        sums += xp.stack([scaled.sum(axis=0), (scaled * scaled).sum(axis=0)])
    return to_host(sums)


def moments(found: Span, sums: Array) -> Moments:
    """Means and deviations from the ranges and `moment_sums`; 0 and 0 for a column with no value."""
    middle, half = _range(found)
    count = np.maximum(found.known, 1)
    first, second = sums / count
    varies = found.least < found.most
    deviation = np.where(varies, half * np.sqrt(np.maximum(second - first * first, 0)), 0.0)
    mean = np.where(varies, np.clip(middle + half * first, found.least, found.most), np.where(found.known > 0, found.least, 0.0))
    return Moments(found.rows, found.known, mean, deviation, found.least, found.most)


def scaling(found: Moments, *, centre: Centre, own: Literal["one", "each"]) -> Scaling:
    """The scaling by what was found: with the mean taken off (`centre`), and in each column's deviation or in one unit for all.

    A centre that is `near` the mean, to a thousandth of the unit, takes no digit off values of up to 43 bits: what is equally far stays so.

    A column that does not vary has the scale 1. One unit is the power of two above the largest size (of what varies, where means are taken
    off), so that scaled rows differ from the given ones by a factor that rounds nothing.
    """
    size = np.maximum(abs(found.least), abs(found.most))
    size = np.where(np.isfinite(size), size, 0.0)
    if own == "each":
        unit = _power_above(size)
        scale = found.deviation * unit
        scale = np.where(scale > 0, scale, 1.0)
    else:
        # Half of the range, as all of it may be beyond a double.
        reach = np.where(found.least < found.most, found.most / 2 - found.least / 2, 0.0) if centre else size
        unit = np.repeat(_power_above(np.array([reach.max(initial=0.0)])), len(size))
        scale = np.ones(len(size))
    center = found.mean * unit if centre else np.zeros(len(size))
    if centre == "near":
        center = np.round(center * NEAR) / NEAR
    return Scaling(found.mean, unit, center, scale)


def scaled(rows: Array, by: Scaling) -> Array:
    """Rows `float64[n, d]` with missing values filled, and scaled. The same for a row alone as among others."""
    xp = array_module(rows)
    fill, unit, center, scale = (xp.asarray(value) for value in by)
    found = xp.empty(rows.shape)
    for at in row_blocks(rows, rows.shape[1]):
        block = found[at]
        xp.multiply(xp.where(xp.isnan(rows[at]), fill, rows[at]), unit, out=block)
        block -= center
        block /= scale
    return found


def unscaled(rows: Array, by: Scaling) -> Array:
    """The inverse of `scaled`."""
    return (rows * by.scale + by.center) / by.unit


def _range(found: Span) -> tuple[Array, Array]:
    """Middle and half of the range, 0 and 1 where there is none."""
    some = found.known > 0
    least, most = np.where(some, found.least, 0.0), np.where(some, found.most, 0.0)
    half = most / 2 - least / 2
    return least / 2 + most / 2, np.where(half > 0, half, 1.0)


def _power_above(size: Array) -> Array:
    """2^-e, where 2^e is above the size; 1 for none."""
    exponent = np.clip(np.frexp(np.where(size > 0, size, 0.5))[1], -_MOST_POWER, _MOST_POWER)
    return np.ldexp(1.0, -exponent)
