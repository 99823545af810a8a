"""LU of a matrix that workers hold: its blocks of columns, which several of them update at once. Not a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from pipeline.backend.arrays import array_module, to_device
from pipeline.kernels.block_lu import Block, Panel, column_blocks, factored, updated
from pipeline.stage import Context
from pipeline.stages.science._matrices import of_parts
from pipeline.stages.science._refined import Factors, answers_by, first_block, missed_by, with_probes, with_size_of, with_unknowns_of
from pipeline.stages.science._systems import Equations, Kind, Scales, Strip, scaled_block, scaled_right, strip_of
from pipeline.tables.budget import Size
from pipeline.tables.table import Table

Array = Any


class Pieces(NamedTuple):
    """A strip's equations, scaled: an array for every block of columns, right-hand sides, and the sum of the squares of the former."""

    blocks: tuple[Array, ...]
    right: Array
    squares: float


@dataclass(frozen=True)
class Awaited:
    """A function whose task goes before others of its stage, which wait for it."""

    function: Callable[..., Any]
    urgency: float = 1.0

    @property
    def __name__(self) -> str:
        """By which the task's key, and so the dashboard, name it."""
        return self.function.__name__

    def __call__(self, *given: Any) -> Any:
        """What the function gives."""
        return self.function(*given)


class InMemory:
    """Equations in strips of rows, each with the worker that has the part (`Laid`)."""

    def __init__(self, rows: Table, about: Equations, sizes: Any, context: Context) -> None:
        self._context, self._sizes, self._places = context, sizes, column_blocks(len(about.own))
        budget, whole = context.session.budget, Size(len(about.own) * context.session.workers, 8 * len(about.own))
        self._in_one = budget is not None and budget.holds(whole)
        self._strips = of_parts(rows, strip_of, about)
        self._about = self._submit(_known, about)  # thousands of names, once

    def _submit(self, function: Any, *given: Any) -> Any:
        return self._context.session.submit(function, *given, stage=self._context.name)

    def factored(self, kind: Kind) -> Factors:
        """The next panel is factored while blocks after it are updated: all wait for it."""
        submit = self._submit
        pieces = [submit(_pieces, strip, self._about, self._sizes, self._places, kind) for strip in self._strips]
        squares = submit(_sum, *(submit(attrgetter("squares"), each) for each in pieces))
        right = submit(with_probes, *(submit(attrgetter("right"), each) for each in pieces))
        blocks = [submit(_block, *(submit(_piece, each, at) for each in pieces)) for at in range(len(self._places))]
        del pieces
        panels = [submit(Awaited(factored), blocks[0])]
        for at in range(len(blocks)):
            blocks[at], own = None, submit(Awaited(_for_updates), panels[at])
            if at + 1 < len(blocks):
                blocks[at + 1] = submit(Awaited(updated), own, blocks[at + 1])
                panels.append(submit(Awaited(factored), blocks[at + 1]))
            for other in range(at + 2, len(blocks)):
                blocks[other] = submit(updated, own, blocks[other])
        return Factors(panels, squares, right)

    def answers(self, panels: list[Any], right: Any) -> Any:
        """A future of A^-1 B: right-hand sides go from panel to panel, and back; in one task where a worker can have all panels."""
        submit = self._submit
        if self._in_one:
            return submit(_answers, right, self._about, *panels)
        block = submit(_begun, right, panels[0])
        for panel in panels:
            block = submit(updated, panel, block)
        sides = submit(attrgetter("above"), block)
        for panel in reversed(panels):
            sides = submit(with_unknowns_of, panel, sides, self._about)
        return submit(with_size_of, right, sides)

    def missed(self, answers: Any) -> list[Any]:
        """Futures of what is missed, by strips."""
        return [self._submit(missed_by, strip, self._about, self._sizes, answers) for strip in self._strips]


def _known(about: Equations) -> Equations:
    return about


def _pieces(strip: Strip, about: Equations, sizes: Scales, places: Sequence[slice], kind: Kind) -> Pieces:
    blocks, squares = zip(*(scaled_block(strip, sizes, place, kind) for place in places), strict=True)
    return Pieces(tuple(to_device(block, about.backend) for block in blocks), scaled_right(strip, about, sizes), sum(squares))


def _sum(*values: float) -> float:
    return sum(values)


def _piece(pieces: Pieces, at: int) -> Array:
    return pieces.blocks[at]


def _block(*pieces: Array) -> Block:
    """A block of columns, all rows of it."""
    return Block((), array_module(*pieces).concatenate(pieces))


def _for_updates(panel: Panel) -> Panel:
    """What blocks to its right need of a panel: the rest stays where it is."""
    return panel._replace(above=(), upper=panel.upper[:, :0])


def _begun(right: Array, panel: Panel) -> Block:
    """Right-hand sides where the panel is, and in its precision."""
    block = first_block(right, panel.upper.dtype.type)
    return block._replace(left=array_module(panel.upper).asarray(block.left))


def _answers(right: Array, about: Equations, *panels: Panel) -> Array:
    return answers_by(_begun(right, panels[0]), panels, reversed(panels), right, about)
