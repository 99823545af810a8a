"""Systems of linear equations over parts: how large their numbers are, their rows scaled, and what is told of answers. Not a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.kernels.block_lu import condition
from pipeline.kernels.distances import row_blocks
from pipeline.kernels.powers_of_two import LEAST, divided, exponents, is_middle
from pipeline.stages.science._matrices import frame_of, matrix_of
from pipeline.tables.part import Part

Array = Any
Kind = type[np.float32] | type[np.float64]


@dataclass(frozen=True)
class Equations:
    """What a system is of: columns of the matrix, of right-hand sides, and of names; the limit of the condition; where it computes."""

    own: tuple[str, ...]
    right: tuple[str, ...]
    key: tuple[str, ...]
    most: float
    backend: Backend

    def numbers(self, part: Part) -> Array:
        """Coefficients and right-hand sides, `float64[rows, p + q]`, on the host."""
        return matrix_of(part, self.own + self.right, "cpu", self.key)


@dataclass(frozen=True)
class Scales:
    """Equations, and exponents of columns `int[p + q]`: of the numbers as they are, and once every equation is divided by its greatest."""

    rows: int
    plain: Array
    by_row: Array


@dataclass(frozen=True)
class Solution:
    """Unknowns by right-hand side, the condition of the scaled matrix, and the norm of what is left, by right-hand side."""

    part: Part
    condition: float
    left: Array


class Strip(NamedTuple):
    """Some equations as they are, `values: float64[rows, p + q]` on the host, and exponents to divide them by, `sizes: int[rows, 1]`."""

    values: Array
    sizes: Array


def strip_of(part: Part, about: Equations) -> Strip:
    """A part's equations. Raises DataError for what is no number."""
    values = about.numbers(part)
    return Strip(values, _row_sizes(values, about))


def scales(part: Part, about: Equations) -> Scales:
    """Of one part. Raises DataError for what is no number."""
    values, own = strip_of(part, about)
    plain = exponents(_largest(values, 0))
    middle = is_middle(np.append(own, plain[plain > LEAST]))
    by_row = [_by_row(values[:, some], own, middle=middle) for some in row_blocks(values.T, len(values))]  # columns lie one after another
    return Scales(len(values), plain, np.concatenate(by_row))


def _by_row(values: Array, own: Array, *, middle: bool) -> Array:
    """Exponents of columns once rows are divided."""
    if middle:
        return exponents(_largest(divided(values, own), 0))
    every = exponents(values)
    return np.where(every > LEAST, every - own, LEAST).max(axis=0, initial=LEAST)


def _largest(values: Array, axis: int) -> Array:
    """Of absolute values, along an axis."""
    return np.maximum(values.max(axis=axis, initial=0.0), -values.min(axis=axis, initial=0.0))


def _row_sizes(values: Array, about: Equations) -> Array:
    """Exponents to divide equations by, `int[n, 1]`: those of their greatest coefficients; an equation of zeros stays."""
    return steady(exponents(_largest(values[:, : len(about.own)], 1)))[:, None]


def scales_of(found: Sequence[Scales]) -> Scales:
    """Of several parts."""
    plain, by_row = (np.max([getattr(one, name) for one in found], axis=0) for name in ("plain", "by_row"))
    return Scales(sum(one.rows for one in found), plain, by_row)


def steady(by: Array) -> Array:
    """Exponents to divide by: what is all zeros stays."""
    return np.where(by > LEAST, by, 0)


def scaled_block(strip: Strip, sizes: Scales, place: slice, kind: Kind) -> tuple[Array, float]:
    """The strip's equations, scaled, in a block of columns, `kind[rows, c]` row by row, and the sum of their squares."""
    found = divided(strip.values[:, place], strip.sizes, steady(sizes.by_row)[place])
    flat = found.ravel(order="K")
    return found.astype(kind, order="C"), float(flat @ flat)


def scaled_right(strip: Strip, about: Equations, sizes: Scales) -> Array:
    """The strip's right-hand sides, scaled, `float64[rows, q]`."""
    return scaled_block(strip, sizes, slice(len(about.own), strip.values.shape[1]), np.float64)[0]


def stacked(pieces: Sequence[Array]) -> Array:
    """Arrays below one another, on the host."""
    return np.concatenate([to_host(piece) for piece in pieces])


def singular(name: str) -> DataError:
    """What is said where a column is a combination of others."""
    return DataError(
        f"the matrix is singular: column {name!r} is, to the last digit, a combination of those before it. Leave it out, or add equations."
    )


def solution_of(scaled: Array, squares: float, sizes: Scales, about: Equations) -> Solution:
    """Of scaled answers by right-hand side and by probe, and the sum of the squares of the scaled matrix. Raises DataError as it must."""
    sides = len(about.right)
    found = condition(squares, scaled[:, sides:])
    check_condition(found, about)
    return Solution(unscaled(scaled[:, :sides], sizes.by_row, about), found, np.zeros(sides))


def check_condition(found: float, about: Equations) -> None:
    """Raise DataError where too few digits of a solution would hold."""
    if not found <= about.most:
        digits = max(0, int(16 - np.log10(found))) if np.isfinite(found) else 0
        text = (
            f"the matrix is nearly singular: its condition number is {found:.2g} once columns and rows are scaled, above {about.most:.2g}"
        )
        raise DataError(
            f"{text}; {digits} digits of a solution would hold. Leave columns out, add equations, or raise max_condition.",
            key="max_condition",
        )


def unscaled(values: Array, sizes: Array, about: Equations) -> Part:
    """The unknowns in their own size. Raises DataError where one is beyond float64."""
    by, unknowns = steady(sizes), len(about.own)
    with np.errstate(over="ignore"):
        found = divided(values, by[:unknowns, None], -by[unknowns:])
    names = pl.DataFrame({"unknown": list(about.own)}, {"unknown": pl.String})
    return Part(names.hstack(frame_of(found, about.right)))
