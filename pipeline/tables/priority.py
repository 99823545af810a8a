"""Which of the tasks that wait goes first: what is deep in the plan, so that tables are used up before more are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.tables.sources import Placed
from pipeline.tables.steps import Step

AHEAD = 1_000_000.0  # more than any depth of a plan
MANY_ROWS = 1_000_000


def priority(depth: int, function: Any, arguments: Sequence[Any], *, ahead: bool) -> float:
    """The greatest goes first: a task of the GPU (`ahead`), then the deeper in the plan, then who reads more rows of files.

    A function that says its `urgency`, from 0 to 1, goes by it among those of its depth.
    """
    sources = [source for argument in arguments if isinstance(argument, Step) for source in argument.sources]
    rows = sum(count or 0 for source in sources if isinstance(source, Placed) for _, _, count in source.places())
    own: float = getattr(function, "urgency", 0.0)
    return (AHEAD if ahead else 0.0) + depth + (own or rows / (rows + MANY_ROWS))
