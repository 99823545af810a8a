"""Which of the tasks that wait goes first: what is deep in the plan, so that tables are used up before more are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.tables.sources import Placed
from pipeline.tables.steps import Step

AHEAD = 1_000_000.0  # more than any depth of a plan
MANY_BYTES = 64 << 20
ROW_BYTES = 64  # of rows of files of which all columns are read


def priority(depth: int, function: Any, arguments: Sequence[Any], *, ahead: bool) -> float:
    """The greatest goes first: a task of the GPU (`ahead`), then the deeper in the plan, then who reads more of files.

    A function that says its `urgency`, from 0 to 1, goes by it among those of its depth; a step's that picks columns says its `row_bytes`.
    """
    read = sum(_bytes_read(argument, ROW_BYTES) for argument in arguments if isinstance(argument, Step))
    own: float = getattr(function, "urgency", 0.0)
    return (AHEAD if ahead else 0.0) + depth + (own or read / (read + MANY_BYTES))


def _bytes_read(step: Step, row_bytes: int) -> int:
    """About how much a step reads of files, whose rows have so many bytes for the step above it."""
    if step.kind == "read":
        places = step.source.places() if isinstance(step.source, Placed) else []
        return row_bytes * sum(count or 0 for _, _, count in places)
    picked: int = getattr(step.function, "row_bytes", ROW_BYTES)
    return sum(_bytes_read(child, picked) for child in step.inputs)
