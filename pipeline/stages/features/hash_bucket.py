"""Categories, and crosses of several, as one of so many buckets by a hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Stage
from pipeline.stages._keys import STEP, need_hashable, with_bucket
from pipeline.tables.part import ROW, Schema
from pipeline.tables.table import Table

OWN_START = 0xBF58476D1CE4E5B9  # so that buckets and a split of one seed and key do not go alike


class HashBucket(Stage, name="hash_bucket", version=1):
    """Add columns with the bucket of a column's value, UInt64 from 0, by a hash; of several columns with that of their values together.

    The bucket of several columns is what is called a hashed cross (hashed_cross). The hash is that of `split`: the same on any machine,
    backend and version, and nothing is learned, so a value that was never seen has its bucket too. Different values may share one. Where
    a column is missing the bucket is.

    Example: {use: hash_bucket, from: loans, as: hashed, columns: {zip_bucket: zip, place_by_purpose: [zip, purpose]}, buckets: 1000}
    """

    columns: dict[ColumnName, ColumnNames] = Field(min_length=1, description="New column: a column, or several that are crossed.")
    buckets: int = Field(ge=2, le=2**31, description="How many buckets.")
    seed: int = Field(0, ge=0, description="Another seed, other buckets.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, in types that can be hashed, and no other column is written over."""
        for name, keys in self.columns.items():
            need_hashable(schema, keys, key=f"columns.{name}")
            if name in schema.columns or name == ROW:
                raise StageError(f"there is a column {name!r} already. Give the bucket another name.", key=f"columns.{name}")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A hash for each new column."""
        (rows,) = tables.values()
        schema, found, start = rows.schema, rows.named(context.name), STEP * (self.seed + 1) + OWN_START
        for name, keys in self.columns.items():
            found = with_bucket(replace(found, schema=schema), keys, start, self.buckets, name)
        return Outcome({"": found})
