"""How large the tables of a job are at most, before they are there, and which are more than memory holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, runtime_checkable

from pipeline.plan.needed import needed
from pipeline.plan.plan import Plan, PlannedStage
from pipeline.plan.unchanged import Stamps
from pipeline.stage import FittedRows, Keyed, Rows
from pipeline.tables.budget import SHARE, Budget, Size, fixed_bytes, row_bytes
from pipeline.tables.narrowed import picked
from pipeline.tables.part import Schema
from pipeline.tables.told import TellsNeeds, TellsRows, TellsUnique

UNPACKED = 3  # bytes in memory for one of a file whose rows are not known
MARGIN = 1.5  # the first rows of a text may be so much longer than the others


@runtime_checkable
class TellsNested(Protocol):
    """A reader whose files say how much their lists hold without being read."""

    def nested_bytes(self, names: Collection[str]) -> int:
        """Bytes in memory of all values in these columns of lists and structs."""


@runtime_checkable
class TellsStored(Protocol):
    """A reader whose files are looked into for how long their rows are."""

    def stored_bytes_of_row(self, path: str) -> float | None:
        """Bytes of a file for a row, by its first ones; None where that is not known."""


def size_of_input(schema: Schema, rows: int | None, stamps: Stamps, reader: object = None) -> Size | None:
    """Of an input; where nobody has counted its rows, as many as the files' bytes may be. None where there are no files."""
    bytes_of_row, stored = row_bytes(schema), sum(stamp.size for stamp in stamps.values())
    if schema.arrays or (rows is None and not stored):
        return None
    if rows is None:
        most = stored * UNPACKED // bytes_of_row
        of_text = reader.stored_bytes_of_row(next(iter(stamps))) if isinstance(reader, TellsStored) else None
        return Size(min(most, int(stored / of_text * MARGIN)) if of_text else most, bytes_of_row)
    nested = {name for name, dtype in schema.columns.items() if dtype.is_nested()}
    if not nested or not isinstance(reader, TellsNested):
        return Size(rows, bytes_of_row)
    return Size(rows, max(bytes_of_row, fixed_bytes(schema) + reader.nested_bytes(nested) // max(1, rows)))


def size_of_table(known: Size | None, schema: Schema, reads: Iterable[Size | None]) -> Size | None:
    """Of a table that a stage gives: as many rows as is known of it, else as the largest table that the stage reads. None for genotypes."""
    sizes = [known] if known else [size for size in reads if size]
    return Size(max(size.rows for size in sizes), row_bytes(schema)) if sizes and not schema.arrays else None


def beyond_memory(plan: Plan, memory: int | None) -> dict[str, str]:
    """Of each stage that works on more than `memory` (bytes; None where nobody knows) holds, by what is known before: that, and why."""
    if not memory:
        return {}
    budget, found, unique = Budget(memory, 1, ""), dict[str, str](), dict[str, tuple[str, ...]]()
    readers = {name: entry.reader for name, entry in plan.job.inputs.items()}
    sizes = {name: size_of_input(schema, plan.rows[name], plan.stamps[name], readers[name]) for name, schema in plan.inputs.items()}
    read = needed(plan, [stage.spec.name for stage in plan.stages], plan.job.outputs, _may_be_whole(plan)).reads
    for stage in plan.stages:
        name, inputs = stage.spec.name, stage.spec.inputs
        reads = [_read(sizes.get(table), stage.reads[role], read[name, role], stage) for role, table in inputs.items()]
        known = {name: _most(stage, sizes, unique)}
        sizes |= {table: size_of_table(known.get(table), schema, reads) for table, schema in stage.gives.items()}
        unique[name] = _unique(stage, unique)
        largest = max((size for size in reads if size), key=lambda size: size.bytes, default=None)
        if largest and not budget.holds(largest) and not isinstance(stage.spec.stage, Rows | FittedRows):
            why = f"up to {_gigabytes(largest.bytes)} where {_gigabytes(memory // SHARE)} of {_gigabytes(memory)} are for one table"
            found[name] = f"beyond memory, so what it holds or exchanges lies on disk ({why})"
    return found


def _may_be_whole(plan: Plan) -> list[str]:
    """Tables of which a run may have all columns, whoever reads them: those of checkpoints on one worker, all where the job counts all."""
    uses = Counter(table for stage in plan.stages for table in stage.spec.inputs.values())
    uses.update(output.table for output in plan.job.outputs.values())
    into = {table for stage in plan.stages if stage.spec.stage.long for table in stage.spec.inputs.values()}
    every = plan.job.counts == "all"
    return [
        name
        for stage in plan.stages
        for name in stage.gives
        if every or stage.spec.checkpoint or stage.spec.stage.long or uses[name] > 1 or name in into
    ]


def _read(size: Size | None, schema: Schema, columns: Collection[str], stage: PlannedStage) -> Size | None:
    """What a stage has of a table that it reads: what it needs, where it is no query that picks its columns itself."""
    inner = stage.spec.stage
    if size is None or schema.arrays or isinstance(inner, Rows | Keyed) or not isinstance(inner, TellsNeeds):
        return size
    return Size(size.rows, row_bytes(picked(schema, columns)))


def _most(stage: PlannedStage, sizes: Mapping[str, Size | None], unique: Mapping[str, tuple[str, ...]]) -> Size | None:
    """What a stage knows of its table's rows before it is there."""
    inputs = stage.spec.inputs.items()
    known = {role: size for role, table in inputs if (size := sizes.get(table))}
    if not isinstance(stage.spec.stage, TellsRows) or len(known) < len(inputs):
        return None
    rows = {role: size.rows for role, size in known.items()}
    most = stage.spec.stage.most_rows(rows, {role: unique.get(table, ()) for role, table in inputs})
    return None if most is None else Size(most, 0)


def _unique(stage: PlannedStage, unique: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The columns that together name a row of a stage's table, as far as that is known before."""
    inner = stage.spec.stage
    if isinstance(inner, TellsUnique):
        return inner.told_apart_by
    if not isinstance(inner, Rows) or not inner.keeps_rows_apart:
        return ()
    (before,), writes = (unique.get(table, ()) for table in stage.spec.inputs.values()), inner.writes()
    return before if writes is not None and writes.isdisjoint(before) else ()


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
