"""Systems of linear equations over parts, and LU with partial pivoting in blocks of columns. Not a stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module, to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.kernels.block_lu import Block, Panel, column_blocks, condition, factored, probes, substituted, updated
from pipeline.kernels.distances import row_blocks
from pipeline.kernels.powers_of_two import LEAST, divided, exponents, is_middle
from pipeline.stage import Context
from pipeline.stages.science._matrices import frame_of, matrix_of, of_parts, over_parts
from pipeline.tables.part import Part
from pipeline.tables.table import Table

Array = Any


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


def scales(part: Part, about: Equations) -> Scales:
    """Of one part. Raises DataError for what is no number."""
    values = about.numbers(part)
    plain, own = exponents(_largest(values, 0)), _row_sizes(values, about)
    by_row = np.full(values.shape[1], LEAST)
    middle = is_middle(np.append(own, plain[plain > LEAST]))
    for some in row_blocks(values, values.shape[1]):
        if middle:
            found = exponents(_largest(divided(values[some], own[some]), 0))
        else:
            every = exponents(values[some])
            found = np.where(every > LEAST, every - own[some], LEAST).max(axis=0, initial=LEAST)
        by_row = np.maximum(by_row, found)
    return Scales(len(values), plain, by_row)


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


def solved_by_lu(rows: Table, about: Equations, sizes: Any, context: Context) -> tuple[Any, Any]:
    """Futures of the solution and of the backward error, of as many equations as unknowns."""
    submit, name = context.session.submit, context.name
    places = column_blocks(len(about.own))
    strips = of_parts(rows, _strip, about, sizes, places)
    blocks = [
        submit(_block, at, len(places), *(submit(itemgetter(at), strip, stage=name) for strip in strips), stage=name)
        for at in range(len(places) + 1)
    ]
    squares = submit(_sum, *(submit(itemgetter(len(places) + 1), strip, stage=name) for strip in strips), stage=name)
    del strips
    panels = [submit(factored, blocks[0], stage=name)]
    for at in range(len(places)):
        blocks[at] = None
        for other in range(at + 1, len(blocks)):
            blocks[other] = submit(updated, panels[at], blocks[other], stage=name)
            if other == at + 1 < len(places):  # while the others are updated: all wait for the next panel
                panels.append(submit(factored, blocks[other], stage=name))
    sides = submit(attrgetter("above"), blocks[-1], stage=name)
    for panel in reversed(panels):
        sides = submit(with_unknowns_of, panel, sides, about.own, stage=name)
    return answered(rows, about, sizes, submit(stacked, sides, stage=name), squares, context)


def answered(rows: Table, about: Equations, sizes: Any, scaled: Any, squares: Any, context: Context) -> tuple[Any, Any]:
    """Futures of the solution and of the backward error, from those of the scaled answers and of the sum of the squares of the matrix."""
    submit, name = context.session.submit, context.name
    solution = submit(_of_lu, scaled, squares, sizes, about, stage=name)
    missed = over_parts(rows, _missed, _summed, about, sizes, scaled)
    return solution, submit(_backward_error, missed, scaled, squares, stage=name)


def steady(by: Array) -> Array:
    """Exponents to divide by: what is all zeros stays."""
    return np.where(by > LEAST, by, 0)


def _strip(part: Part, about: Equations, sizes: Scales, places: Sequence[slice]) -> list[Any]:
    """The part's rows of every block of columns, of the right-hand sides, and the sum of the squares of its coefficients."""
    pieces = list(scaled_pieces(part, about, sizes, places))
    squares = sum(float(np.vdot(piece, piece)) for piece in pieces[:-1])
    return [*(to_device(piece, about.backend) for piece in pieces), squares]


def scaled_pieces(part: Part, about: Equations, sizes: Scales, places: Sequence[slice]) -> Iterator[Array]:
    """The part's rows of every block of columns, then of the right-hand sides, on the host."""
    values, by, unknowns = about.numbers(part), steady(sizes.by_row), len(about.own)
    rows = _row_sizes(values, about)
    for place in (*places, slice(unknowns, values.shape[1])):
        yield np.ascontiguousarray(divided(values[:, place], rows, by[place]))


def _block(at: int, last: int, *pieces: Array) -> Block:
    """A block of columns, all rows of it; beside the right-hand sides stand the probes."""
    xp = array_module(*pieces)
    rows = xp.concatenate(pieces)
    return Block((), xp.concatenate([rows, xp.asarray(probes(len(rows)))], axis=1) if at == last else rows)


def _sum(*values: float) -> float:
    return sum(values)


def stacked(pieces: Sequence[Array]) -> Array:
    """Arrays below one another, on the host."""
    return np.concatenate([to_host(piece) for piece in pieces])


def with_unknowns_of(panel: Panel, sides: Sequence[Array], names: Sequence[str]) -> tuple[Array, ...]:
    """Right-hand sides once a panel's unknowns stand in them. Raises DataError, with a column's name, where it has no pivot."""
    if panel.zero >= 0:
        raise singular(names[panel.zero])
    with np.errstate(over="ignore", invalid="ignore"):
        return substituted(panel, sides)


def singular(name: str) -> DataError:
    """What is said where a column is a combination of others."""
    return DataError(
        f"the matrix is singular: column {name!r} is, to the last digit, a combination of those before it. Leave it out, or add equations."
    )


def _of_lu(scaled: Array, squares: float, sizes: Scales, about: Equations) -> Solution:
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


def _missed(part: Part, about: Equations, sizes: Scales, scaled: Array) -> Array:
    """Sums of squares `float64[2, q]`: of what each scaled right-hand side is missed by, and of these themselves."""
    values, by, unknowns = about.numbers(part), steady(sizes.by_row), len(about.own)
    rows, answers = _row_sizes(values, about), scaled[:, : len(about.right)]
    if is_middle(rows) and is_middle(by):  # the answers are scaled, and not all the coefficients
        right, answers = divided(values[:, unknowns:], rows, by[unknowns:]), divided(answers, by[:unknowns, None])
        left = right - divided(values[:, :unknowns] @ answers, rows)
    else:
        values = divided(values, rows, by)
        right = values[:, unknowns:]
        left = right - values[:, :unknowns] @ answers
    return np.stack([(left**2).sum(axis=0), (right**2).sum(axis=0)])


def _summed(found: Sequence[Array]) -> Array:
    return np.sum(np.stack(list(found)), axis=0)


def _backward_error(missed: Array, scaled: Array, squares: float) -> float:
    """The largest |b - A x| / (|A| |x| + |b|) of a right-hand side (Rigal & Gaches 1967)."""
    left, right = np.sqrt(missed)
    size = np.sqrt(squares) * np.sqrt((scaled[:, : len(left)] ** 2).sum(axis=0)) + right
    found = float(np.divide(left, size, out=np.zeros_like(left), where=size > 0).max(initial=0.0))
    if found > 1e-10:
        raise DataError(
            f"the solution misses the equations by {found:.1e} of their size: rounding grew. Use method: least_squares.", key="method"
        )
    return found
