"""Tables that turn out larger than was thought, found before they are there: by a sample, where they may be more than memory holds.

What is known of a table is as many rows as the largest that it comes from, and so many bytes for a text. A join by keys that several rows
have on both sides multiplies rows; texts can be long. Where tables are small beside the memory neither matters, and nobody looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from pipeline.tables.budget import Size, fixed_bytes, is_fixed
from pipeline.tables.part import Part, Schema
from pipeline.tables.stretches import divided
from pipeline.tables.table import Table

KEYS = 100_000  # of the rows of a table that are looked at, about
FEW = 1_000_000  # rows whose keys are counted in no time
FIRST, PARTS = 4_096, 8  # rows of a part whose texts are measured, and of how many parts
MARGIN = 4  # a filter that leaves a fourth of the rows leaves few


def multiplied(first: Table, second: Table, by: Sequence[str], most: int | None) -> tuple[Table, Table]:
    """Two tables to be joined: both beyond memory where so many rows come of them.

    Waits for a sample of keys where they are large, or where of few rows, all alike, more would come than memory holds. Not where it is
    known that `most` rows come of them at most, and that memory holds these.
    """
    budget, size, other = first.session.budget, first.size, second.size
    if budget is None or size is None or other is None or first.is_beyond or second.is_beyond:
        return first, second
    row_bytes = size.row_bytes + other.row_bytes
    few = first.cheap and second.cheap and size.rows + other.rows <= FEW and not budget.holds(Size(size.rows * other.rows, row_bytes))
    if not few and (len(first.blocks) == 1 or not budget.is_near(size, other)):
        return first, second
    if most is not None and budget.holds(Size(most, row_bytes)):
        return first, second
    every = max(1, max(size.rows, other.rows) // KEYS)
    first, second = (table if table.cheap else table.hold() for table in (first, second))
    ours, theirs = (_counted(table, by, every) for table in (first, second))
    rows = every * int(ours.join(theirs, on=by).select((pl.col("len") * pl.col("len_right")).sum()).item() or 0)
    made = Size(max(size.rows, rows), row_bytes)
    if budget.holds(made):
        return first, second
    budget.foreseen[first.stage] = made.bytes
    first, second = divided(first, 2), divided(second, 2)  # what is one part is never beyond memory
    return replace(first, size=made), replace(second, size=made)


def fewer(table: Table) -> Table:
    """A table that is large by what is known of it, and of whose rows a filter leaves few: computed, with the size that it has.

    Waits for the rows of some parts to be counted, and where these are few for all of them. Any other table is given back.
    """
    budget, size = table.session.budget, table.size
    if budget is None or size is None or not budget.is_near(size) or len(table.blocks) == 1 or table.as_read or not table.cheap:
        return table
    every = -(-len(table.blocks) // PARTS)
    some = replace(table, blocks=table.blocks[::every], origins=(), name=None)
    if MARGIN * every * row_count(some) > size.rows:
        return table
    held = table.hold()
    return replace(held, size=Size(row_count(held), size.row_bytes))


def with_texts(table: Table, before: Size | None = None) -> Table:
    """The table with its size by what values of no fixed length take in a sample of its rows, where it is large and cheap to look at.

    Nobody looks again where they are those of a table of size `before`, which was looked at: a choice of rows has no more of them.
    """
    budget, size, schema = table.session.budget, table.size, table.schema
    if budget is None or size is None or schema is None or all(map(is_fixed, schema.columns.dtypes())):
        return table
    if table.is_beyond or len(table.blocks) == 1 or not table.cheap or not budget.is_near(size):
        return table
    if before is not None and before.texts is not None and _has_none_written(table, schema):
        same = _of_texts(size, schema, before.texts)
        if budget.holds(same):
            return replace(table, size=same)
    some = replace(table, blocks=table.blocks[:: -(-len(table.blocks) // PARTS)], origins=(), name=None).map(_first)
    found: Part = table.session.value(some.value())
    longer = _of_texts(size, schema, max(0, -(-found.nbytes // max(1, found.rows)) - fixed_bytes(schema)))
    if not budget.holds(longer):
        budget.foreseen[table.stage] = longer.bytes
    return replace(table, size=longer)


def _has_none_written(table: Table, schema: Schema) -> bool:
    return table.written is not None and all(is_fixed(dtype) or name not in table.written for name, dtype in schema.columns.items())


def _of_texts(size: Size, schema: Schema, texts: int) -> Size:
    return Size(size.rows, max(size.row_bytes, fixed_bytes(schema) + texts), texts)


def lengthened(table: Table, column: str, row_bytes: int) -> tuple[Table, Size | None]:
    """The table, and the size of the one that has a row, of so many bytes, for each value of a list, by a sample of its lists.

    They are looked at where that is cheap and there are many. Where it is not, or there are few, the table is large, and is held first.
    """
    size, budget = table.size, table.session.budget
    if size is None or budget is None or not (budget.is_near(size) or (table.cheap and size.rows >= FIRST)):
        return table, size
    table = table if table.cheap else table.hold()
    some = table.blocks[:: -(-len(table.blocks) // PARTS)]
    found: Part = table.session.value(replace(table, blocks=some, origins=(), name=None).map(_lengths, column).value())
    rows = -(-size.rows * int(found.frame["values"].sum()) // max(1, int(found.frame["rows"].sum())))
    return table, Size(rows, row_bytes)


def _lengths(rows: pl.LazyFrame, column: str) -> pl.LazyFrame:
    values = pl.col(column).list.len().fill_null(0).clip(lower_bound=1)
    return rows.head(FIRST).select(values.cast(pl.Int64).sum().alias("values"), pl.len().cast(pl.Int64).alias("rows"))


def row_count(table: Table) -> int:
    """The rows of a table. Waits for them to be counted."""
    return int(table.session.value(table.map(_number).reduce(_only, sum)))


def _number(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(pl.len())


def _only(part: Part) -> int:
    return int(part.frame.item())


def _counted(table: Table, by: Sequence[str], every: int) -> pl.DataFrame:
    found: Part = table.session.value(table.map(_some_keys, list(by), every).value())
    return found.frame.group_by(by).agg(pl.col("len").cast(pl.Int64).sum())


def _some_keys(rows: pl.LazyFrame, by: list[str], every: int) -> pl.LazyFrame:
    """How often some keys stand there, the same ones in every table."""
    return rows.select(by).drop_nulls().filter(pl.struct(by).hash(0) % every == 0).group_by(by).len()


def _first(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.head(FIRST)
