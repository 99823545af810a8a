"""Parts as tasks are handed them: what lies on disk stays there, and is in memory as long as the task runs that was handed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.tables.laid import Laid

if TYPE_CHECKING:
    from pipeline.tables.table import Table


@dataclass(frozen=True)
class Lying:
    """A part on disk: where it lies (`Laid`), or a future of that."""

    source: Any


def parts_of(table: Table) -> list[Any]:
    """As `Table.futures`, to be handed to tasks and to nobody else."""
    if all(block.kind == "scan" for block in table.blocks):
        return [Lying(block.source) for block in table.blocks]
    return table.futures()


def places_of(table: Table) -> list[Any]:
    """As `parts_of`, for tasks that may have no use for what they are handed: they read it themselves (`here`)."""
    return [part.source if isinstance(part, Lying) else part for part in parts_of(table)]


def here(part: Any) -> Any:
    """A part that may lie on disk, in memory."""
    return part.read() if isinstance(part, Laid) else part


def reading(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[Any]]:
    """The function, which reads those of its arguments that are parts on disk, or lists with such, and the arguments with their places."""
    places = {place for place, argument in enumerate(arguments) if any(isinstance(one, Lying) for one in _each(argument))}
    if not places:
        return function, arguments
    given = [_places(argument) if place in places else argument for place, argument in enumerate(arguments)]
    return partial(_with_parts, function, places), given


def _each(argument: Any) -> Sequence[Any]:
    return argument if isinstance(argument, list) else (argument,)


def _places(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_places(one) for one in argument]
    return argument.source if isinstance(argument, Lying) else argument


def _with_parts(function: Callable[..., Any], places: set[int], *arguments: Any) -> Any:
    return function(*(_read(argument) if place in places else argument for place, argument in enumerate(arguments)))


def _read(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_read(one) for one in argument]
    return here(argument)
