"""How large the tables of a run are at most, before they are there."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.plan.unchanged import Stamps
from pipeline.tables.budget import Size, row_bytes
from pipeline.tables.part import Schema
from pipeline.tables.table import Table

UNPACKED = 3  # bytes in memory for one of a file whose rows are not known


def size_of_input(schema: Schema, rows: int | None, stamps: Stamps) -> Size | None:
    """Of an input; where nobody has counted its rows, as many as the files' bytes may be. None where there are no files."""
    bytes_of_row, stored = row_bytes(schema), sum(stamp.size for stamp in stamps.values())
    if schema.arrays or (rows is None and not stored):
        return None
    return Size(stored * UNPACKED // bytes_of_row if rows is None else rows, bytes_of_row)


def size_of_table(table: Table, schema: Schema, reads: Iterable[Table]) -> Size | None:
    """Of a table that a stage gives: as many rows as the stage knows of, else as the largest table that it reads. None for genotypes."""
    known = [table.size] if table.size else [read.size for read in reads if read.size]
    return Size(max(size.rows for size in known), row_bytes(schema)) if known and not schema.arrays else None
