"""LU of a matrix that is larger than memory: its blocks of columns lie on the machine's disk, in a folder of the run. Not a stage.

A block is read, updated by all panels before it, factored, and written as the next panel (left-looking: Golub & Van Loan 2013, 3.2.9), so a
task has one block and one panel in memory. The numbers are those of `solved_by_lu` to the last bit. Names of files are new for every
attempt, and nothing is written over: Dask may run a task twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt, prod
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.kernels.block_lu import Block, Panel, column_blocks, factored, probes, updated
from pipeline.results.full import SPILLED, on_disk_of
from pipeline.stage import Context
from pipeline.stages.science._matrices import of_parts
from pipeline.stages.science._systems import Equations, Scales, answered, scaled_pieces, stacked, with_unknowns_of
from pipeline.tables.budget import SHARE, Size
from pipeline.tables.on_disk import folder_of
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.table import Table

Array = Any
HELD = 3
"""Blocks that a task has in memory: one, what becomes of it, and a panel."""


@dataclass(frozen=True)
class Disk:
    """The folder for blocks, and the threads of a worker that works on one."""

    folder: str
    threads: int


@dataclass(frozen=True)
class Arrays:
    """Arrays of eight bytes a number on the machine's disk, one behind the other in a file, which all workers of the machine read there.

    (A tile of people, `genomics/_on_disk`, is its worker's alone, and goes to another one as numbers.)
    """

    path: str
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def written(arrays: Iterable[Array], folder: str) -> Arrays:
        """These, in a file of their own. Raises RunError where the disk is full."""
        path, shapes = Path(folder) / f"block-{secrets.token_hex(8)}.numbers", list[tuple[int, ...]]()
        with on_disk_of(folder, SPILLED), path.open("wb") as file:
            for array in arrays:
                file.write(np.ascontiguousarray(array).data)  # `tofile` does not say that a disk is full
                shapes.append(array.shape)
        return Arrays(str(path), tuple(shapes))

    def read(self, at: int, kind: type = np.float64) -> Array:
        """One of them."""
        sizes = [prod(shape) for shape in self.shapes]
        return np.fromfile(self.path, kind, sizes[at], offset=8 * sum(sizes[:at])).reshape(self.shapes[at])


@dataclass(frozen=True)
class Strip:
    """A part's rows, scaled: an array for every block of columns and one for the right-hand sides; the sum of the squares of the former."""

    pieces: Arrays
    squares: float


@dataclass(frozen=True)
class Factored:
    """A `Panel`: its `order`, `upper`, `inverse` and `lower`, and then finished rows of U of every panel before it."""

    pieces: Arrays
    zero: int

    @staticmethod
    def laid(panel: Panel, folder: str) -> Factored:
        """The panel on the disk."""
        order = panel.order.astype(np.int64, copy=False)
        return Factored(Arrays.written([order, panel.upper, panel.inverse, panel.lower, *panel.above], folder), panel.zero)

    def for_updates(self) -> Panel:
        """What blocks to its right need of it."""
        upper, inverse, lower = map(self.pieces.read, range(1, 4))
        return Panel((), upper, inverse, lower, self.pieces.read(0, np.int64), self.zero)

    def for_substitution(self) -> Panel:
        """What unknowns need of it."""
        none, above = np.zeros((0, 0)), tuple(map(self.pieces.read, range(4, len(self.pieces.shapes))))
        return Panel(above, self.pieces.read(1), none, none, none, self.zero)


def is_beyond(about: Equations, session: Session) -> bool:
    """Whether as many equations as unknowns are more than `solved_by_lu` may have in memory, where there is a disk for them."""
    unknowns = len(about.own)
    return session.budget is not None and not session.budget.holds(Size(unknowns, 8 * (unknowns + len(about.right))))


def solved_on_disk(rows: Table, about: Equations, sizes: Any, context: Context) -> tuple[Any, Any]:
    """Futures of the solution and of the backward error.

    A task has all threads of its worker. A block that waits for its last panels has been updated by those before them, so several workers
    work on several.
    """
    session, submit, name = context.session, context.session.submit, context.name
    places, disk = column_blocks(len(about.own)), Disk(folder_of(rows), session.threads)
    strips = of_parts(rows, _strip, about, sizes, places, disk)
    last, panels = _side_by_side(session, places) - 1, list[Any]()
    for at in range(len(places)):
        early = max(0, at - last) if last else 0
        begun = submit(_begun, at, strips, panels[:early], disk, stage=name) if early else None
        panels.append(submit(_panel, at, strips, begun, panels[early:], disk, stage=name))
    assert session.budget is not None
    session.budget.on_disk[name] += len(strips) + len(panels)
    scaled = submit(_answers, strips, panels, about.own, disk, stage=name)
    return answered(rows, about, sizes, scaled, submit(_squares, strips, stage=name), context)


def _side_by_side(session: Session, places: Sequence[slice]) -> int:
    """Blocks that are worked on at once: no more than pay, and than memory has."""
    assert session.budget is not None
    each: int = HELD * 8 * places[-1].stop * places[0].stop
    return max(1, min(session.workers, isqrt(len(places)), session.budget.bytes // (SHARE * each)))


def _strip(part: Part, about: Equations, sizes: Scales, places: Sequence[slice], disk: Disk) -> Strip:
    squares = list[float]()

    def noted() -> Iterator[Array]:
        """The pieces, whose squares are summed on the way."""
        for piece in scaled_pieces(part, about, sizes, places):
            squares.append(float(np.vdot(piece, piece)))
            yield piece

    return Strip(Arrays.written(noted(), disk.folder), sum(squares[:-1]))


def _squares(strips: Sequence[Strip]) -> float:
    return sum(strip.squares for strip in strips)


def _read(at: int, strips: Sequence[Strip]) -> Block:
    return Block((), np.concatenate([strip.pieces.read(at) for strip in strips]))


def _updated(block: Block, panels: Sequence[Factored], disk: Disk) -> Block:
    for panel in panels:
        block = updated(panel.for_updates(), block, disk.threads)
    return block


def _begun(at: int, strips: Sequence[Strip], panels: Sequence[Factored], disk: Disk) -> Arrays:
    """A block after the first panels: what is left of it, and what is finished."""
    block = _updated(_read(at, strips), panels, disk)
    return Arrays.written([block.left, *block.above], disk.folder)


def _panel(at: int, strips: Sequence[Strip], begun: Arrays | None, panels: Sequence[Factored], disk: Disk) -> Factored:
    """The block that has begun, or from its strips, after these panels, factored."""
    if begun is None:
        block = _read(at, strips)
    else:
        left, *above = map(begun.read, range(len(begun.shapes)))
        block = Block(tuple(above), left)
    return Factored.laid(factored(_updated(block, panels, disk)), disk.folder)


def _answers(strips: Sequence[Strip], panels: Sequence[Factored], names: Sequence[str], disk: Disk) -> Array:
    """The scaled unknowns by right-hand side, and by probe."""
    rows = _read(len(panels), strips).left
    sides = _updated(Block((), np.concatenate([rows, probes(len(rows))], axis=1)), panels, disk).above
    for panel in reversed(panels):
        sides = with_unknowns_of(panel.for_substitution(), sides, names)
    return stacked(sides)
