"""What comes of all parts of a table together: values of a reduction, and the parts themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import getitem
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import DataError
from pipeline.tables.measured import Measured
from pipeline.tables.part import Part, concat_parts

if TYPE_CHECKING:
    from pipeline.tables.table import Table

FAN_IN = 8  # values combined in one task of a reduction
GATHER_LIMIT_BYTES = 8 << 30  # a gathered table is one object in one worker: past this it is a mistake in the job

Combine = Callable[[list[Any]], Any]


class Piece(NamedTuple):
    """What comes of some parts, and what was measured of these."""

    value: Any
    measured: Measured


def reduced(table: Table, function: Callable[..., Any], combine: Combine, small: Sequence[Any]) -> Any:
    """A future of what `combine` makes, in a tree, of `function(Part, *small)` of every part.

    A part is read and used in one task, so that no more of them are in memory than tasks run; on a GPU those of the host read.
    """
    session, stage = table.session, table.stage
    if table.is_held or session.backend == "gpu":
        return together(table, combine, [session.submit(function, part, *small, stage=stage) for part in table.futures()])
    pieces = [session.evaluate_into(block, partial(_piece, function), *small) for block in table.blocks]
    whole = together(table, partial(_one_piece, combine), pieces)
    value, measured = (session.submit(getitem, whole, place, stage=stage, on_host=True) for place in range(2))
    session.account(table.name, measured)
    return value


def together(table: Table, combine: Combine, values: list[Any]) -> Any:
    """A future of what `combine` makes, in a tree, of values of a table's parts."""
    while len(values) > 1:
        groups = [values[i : i + FAN_IN] for i in range(0, len(values), FAN_IN)]
        values = [table.session.submit(_combined, combine, *group, stage=table.stage) for group in groups]
    return values[0]


def _combined(combine: Combine, *values: Any) -> Any:
    return combine(list(values))


def _piece(function: Callable[..., Any], part: Part, *small: Any) -> Piece:
    return Piece(function(part, *small), Measured.of(part))


def _one_piece(combine: Combine, pieces: list[Piece]) -> Piece:
    return Piece(combine([piece.value for piece in pieces]), Measured.sum([piece.measured for piece in pieces]))


def gathered(limit_bytes: int, *parts: Part) -> Part:
    """All parts as one. Raises DataError where that is larger than the limit."""
    size = sum(part.nbytes for part in parts)
    if size > limit_bytes:
        raise DataError(
            f"a table of {size / 2**30:.1f} GiB would be gathered into one worker (limit {limit_bytes / 2**30:.1f} GiB). "
            "Aggregate, filter or sample it first."
        )
    return concat_parts(parts)
