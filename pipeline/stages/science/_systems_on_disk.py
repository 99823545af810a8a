"""LU of a matrix that is larger than memory: its blocks of columns lie on the machine's disk, in a folder of the run. Not a stage.

A block is read, updated by all panels before it, factored, and written as the next panel (left-looking: Golub & Van Loan 2013, 3.2.9), so a
task has one block and one panel in memory. The numbers are those of `InMemory` to the last bit. Names of files are new for every
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

from pipeline.kernels.block_lu import Block, Panel, column_blocks, factored, updated
from pipeline.results.full import SPILLED, on_disk_of
from pipeline.stage import Context
from pipeline.stages.science._matrices import of_parts
from pipeline.stages.science._refined import Factors, Missed, answers_by, first_block, missed_by, with_probes
from pipeline.stages.science._systems import Equations, Kind, Scales, Strip, scaled_block, scaled_right, strip_of
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
    """Arrays on the machine's disk, one behind the other in a file, which all workers of the machine read there: their types and shapes.

    (A tile of people, `genomics/_on_disk`, is its worker's alone, and goes to another one as numbers.)
    """

    path: str
    shapes: tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]

    @staticmethod
    def written(arrays: Iterable[Array], folder: str) -> Arrays:
        """These, in a file of their own. Raises RunError where the disk is full."""
        path, shapes = Path(folder) / f"block-{secrets.token_hex(8)}.numbers", list[tuple[np.dtype[Any], tuple[int, ...]]]()
        with on_disk_of(folder, SPILLED), path.open("wb") as file:
            for array in arrays:
                file.write(np.ascontiguousarray(array).data)  # `tofile` does not say that a disk is full
                shapes.append((array.dtype, array.shape))
        return Arrays(str(path), tuple(shapes))

    def read(self, at: int) -> Array:
        """One of them."""
        kind, shape = self.shapes[at]
        offset = sum(before.itemsize * prod(size) for before, size in self.shapes[:at])
        return np.fromfile(self.path, kind, prod(shape), offset=offset).reshape(shape)


@dataclass(frozen=True)
class Pieces:
    """A strip's equations, scaled: an array for every block of columns and one for right-hand sides; the squares of the former."""

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
        return Factored(Arrays.written([panel.order, panel.upper, panel.inverse, panel.lower, *panel.above], folder), panel.zero)

    def for_updates(self) -> Panel:
        """What blocks to its right need of it."""
        order, upper, inverse, lower = map(self.pieces.read, range(4))
        return Panel((), upper, inverse, lower, order, self.zero)

    def for_substitution(self) -> Panel:
        """What unknowns need of it."""
        none, above = np.zeros((0, 0)), tuple(map(self.pieces.read, range(4, len(self.pieces.shapes))))
        return Panel(above, self.pieces.read(1), none, none, none, self.zero)


def is_beyond(about: Equations, session: Session) -> bool:
    """Whether as many equations as unknowns are more than workers may have in memory, where there is a disk for them."""
    unknowns = len(about.own)
    return session.budget is not None and not session.budget.holds(Size(unknowns, 8 * (unknowns + len(about.right))))


class OnDisk:
    """Equations in strips of rows on the machine's disk, as they are, and scaled in blocks of columns once these are factored
    (`Laid`).

    A task has all threads of its worker. A block that waits for its last panels has been updated by those before them, so several workers
    work on several.
    """

    def __init__(self, rows: Table, about: Equations, sizes: Any, context: Context) -> None:
        self._context, self._about, self._sizes, self._places = context, about, sizes, column_blocks(len(about.own))
        self._disk = Disk(folder_of(rows), context.session.threads)
        self._strips = of_parts(rows, _kept, about, self._disk)
        self._count(self._strips)

    def _submit(self, function: Any, *given: Any) -> Any:
        return self._context.session.submit(function, *given, stage=self._context.name)

    def _count(self, files: Sequence[Any]) -> None:
        """Tell the record what is on the disk."""
        assert self._context.session.budget is not None
        self._context.session.budget.on_disk[self._context.name] += len(files)

    def factored(self, kind: Kind) -> Factors:
        """Every panel lies on the disk."""
        last, panels = _side_by_side(self._context.session, self._places) - 1, list[Any]()
        strips = [self._submit(_pieces, strip, self._about, self._sizes, self._places, kind, self._disk) for strip in self._strips]
        for at in range(len(self._places)):
            early = max(0, at - last) if last else 0
            begun = self._submit(_begun, at, strips, panels[:early], self._disk) if early else None
            panels.append(self._submit(_panel, at, strips, begun, panels[early:], self._disk))
        self._count([*strips, *panels])
        return Factors(panels, self._submit(_squares, strips), self._submit(_right, strips))

    def answers(self, panels: list[Any], right: Any) -> Any:
        """A future of A^-1 B: a task reads one panel after the other, and back."""
        return self._submit(_answers, right, panels, self._about)

    def missed(self, answers: Any) -> list[Any]:
        """Futures of what is missed, by strips."""
        return [self._submit(_missed, strip, self._about, self._sizes, answers) for strip in self._strips]


def _side_by_side(session: Session, places: Sequence[slice]) -> int:
    """Blocks that are worked on at once: no more than pay, and than memory has."""
    assert session.budget is not None
    each: int = HELD * 8 * places[-1].stop * places[0].stop
    return max(1, min(session.workers, isqrt(len(places)), session.workers * session.budget.bytes // (SHARE * each)))


def _kept(part: Part, about: Equations, disk: Disk) -> Arrays:
    """The part's strip: its numbers column by column, and their sizes."""
    strip = strip_of(part, about)
    return Arrays.written([strip.values.T, strip.sizes], disk.folder)


def _strip(kept: Arrays) -> Strip:
    return Strip(kept.read(0).T, kept.read(1))


def _pieces(kept: Arrays, about: Equations, sizes: Scales, places: Sequence[slice], kind: Kind, disk: Disk) -> Pieces:
    strip, squares = _strip(kept), list[float]()

    def noted() -> Iterator[Array]:
        """Every block, whose squares are summed on the way, and the right-hand sides."""
        for place in places:
            block, square = scaled_block(strip, sizes, place, kind)
            squares.append(square)
            yield block
        yield scaled_right(strip, about, sizes)

    return Pieces(Arrays.written(noted(), disk.folder), sum(squares))


def _squares(strips: Sequence[Pieces]) -> float:
    return sum(strip.squares for strip in strips)


def _right(strips: Sequence[Pieces]) -> Array:
    return with_probes(*(strip.pieces.read(-1) for strip in strips))


def _missed(kept: Arrays, about: Equations, sizes: Scales, answers: Array) -> Missed:
    return missed_by(_strip(kept), about, sizes, answers)


def _read(at: int, strips: Sequence[Pieces]) -> Block:
    return Block((), np.concatenate([strip.pieces.read(at) for strip in strips]))


def _updated(block: Block, panels: Sequence[Factored], disk: Disk) -> Block:
    for panel in panels:
        block = updated(panel.for_updates(), block, disk.threads)
    return block


def _begun(at: int, strips: Sequence[Pieces], panels: Sequence[Factored], disk: Disk) -> Arrays:
    """A block after the first panels: what is left of it, and what is finished."""
    block = _updated(_read(at, strips), panels, disk)
    return Arrays.written([block.left, *block.above], disk.folder)


def _panel(at: int, strips: Sequence[Pieces], begun: Arrays | None, panels: Sequence[Factored], disk: Disk) -> Factored:
    """The block that has begun, or from its strips, after these panels, factored."""
    if begun is None:
        block = _read(at, strips)
    else:
        left, *above = map(begun.read, range(len(begun.shapes)))
        block = Block(tuple(above), left)
    return Factored.laid(factored(_updated(block, panels, disk)), disk.folder)


def _answers(right: Array, panels: Sequence[Factored], about: Equations) -> Array:
    block = first_block(right, panels[0].pieces.shapes[1][0].type)
    back = (panel.for_substitution() for panel in reversed(panels))
    return answers_by(block, (panel.for_updates() for panel in panels), back, right, about)
