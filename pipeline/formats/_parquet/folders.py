"""A table written to folders KEY=VALUE, as Hive, Spark and DuckDB have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap
from pathlib import Path

import polars as pl

from pipeline.errors import JobError, near
from pipeline.formats._hive import folder_name
from pipeline.tables.part import Schema


def check_folders(schema: Schema, columns: Sequence[str], keys: Sequence[str]) -> None:
    """Raise JobError for keys that the table does not have, that no folder says exactly, or that leave no column for the files."""
    for name in keys:
        if name not in columns:
            raise JobError(f"partition_by names {name!r}, which is no column that is written.{near(name, columns)}")
        dtype = schema.columns[name]
        if not (dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Date)):
            remedy = "Folders are made of texts, whole numbers, booleans and dates."
            raise JobError(f"partition_by names {name!r}, which is {dtype}. {remedy}")
    if len(set(keys)) == len(columns):
        raise JobError("partition_by names every column, so that the files would have none. Leave one out.")


def in_folders(rows: pl.DataFrame, keys: Sequence[str], path: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """The file of each folder, of the path's name, and its rows without the keys; the folder is made.

    A table of no rows has one file, in the folder of missing values, so that its columns are known.
    """
    folder, _, name = path.rpartition("/")
    nothing = {(None,) * len(keys): rows}
    groups = rows.partition_by(keys, as_dict=True, maintain_order=True) if rows.height else nothing
    for values, some in groups.items():
        inner = Path(folder, *starmap(folder_name, zip(keys, values, strict=True)))
        inner.mkdir(parents=True, exist_ok=True)
        yield f"{inner}/{name}", some.drop(keys)
