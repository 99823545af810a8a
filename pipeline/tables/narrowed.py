"""A table with some of its columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import polars as pl

from pipeline.tables.as_one import Picked
from pipeline.tables.budget import Size, row_bytes
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


def narrowed(table: Table, schema: Schema, columns: Collection[str]) -> Table:
    """The same rows of a table of that schema with these columns alone, in their order; all that is known of the rows stays.

    Raises RunError, in a task, where the table lacks one of them.
    """
    kept = picked(schema, columns)
    found = table.map(Picked(tuple(kept.columns), row_bytes(kept)), writes=frozenset())
    size = None if table.size is None else Size(table.size.rows, row_bytes(kept))
    unique = table.unique if set(table.unique) <= set(kept.columns) else ()
    return replace(found, name=table.name, as_read=table.as_read, schema=kept, size=size, unique=unique)


def picked(schema: Schema, columns: Collection[str]) -> Schema:
    """Of a schema without arrays what has these columns alone, in its order."""
    return Schema(pl.Schema({name: dtype for name, dtype in schema.columns.items() if name in columns}))
