"""What comes of all parts of a table together, in one task: values of a reduction, and the parts themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.errors import DataError
from pipeline.tables.part import Part, concat_parts

GATHER_LIMIT_BYTES = 8 << 30  # a gathered table is one object in one worker: past this it is a mistake in the job


def combined(combine: Callable[[list[Any]], Any], *values: Any) -> Any:
    """Some values made one."""
    return combine(list(values))


def gathered(limit_bytes: int, *parts: Part) -> Part:
    """All parts as one. Raises DataError where that is larger than the limit."""
    size = sum(part.nbytes for part in parts)
    if size > limit_bytes:
        raise DataError(
            f"a table of {size / 2**30:.1f} GiB would be gathered into one worker (limit {limit_bytes / 2**30:.1f} GiB). "
            "Aggregate, filter or sample it first."
        )
    return concat_parts(parts)
