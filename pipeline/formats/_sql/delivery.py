"""Rows into a table of a database: into one beside it first, then by one transaction into its place."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import polars as pl

from pipeline.errors import JobError, RunError
from pipeline.files import for_polars
from pipeline.formats._sql.database import Database, column, quoted

Mode = Literal["replace", "append", "fail"]
WITHOUT_TYPE = {
    "postgresql": (pl.Struct, pl.Int128, pl.Null, pl.Object),
    "sqlite": (pl.Struct, pl.Int128, pl.Null, pl.Object, pl.List, pl.Array, pl.Duration),
}


def check_types(columns: Mapping[str, pl.DataType], kind: Literal["postgresql", "sqlite"]) -> None:
    """Raise JobError for a column of a type that the database has not."""
    for name, dtype in columns.items():
        if isinstance(dtype, WITHOUT_TYPE[kind]):
            remedy = "Cast it in a derive stage, or leave it out with columns."
            raise JobError(f"column {name!r} is {dtype}, and {kind} has no type for it. {remedy}")


def check_table(database: Database, table: str, mode: Mode, columns: Sequence[str]) -> None:
    """Raise JobError where a table that is there is not to be touched, or lacks a column that would be appended."""
    with database.cursor(write=True) as cursor:
        there = _columns(cursor, database, table)
    if there is not None and mode == "fail":
        raise JobError(f"{database.url}: there is a table {table} already. Say mode: replace or append, or give another table.")
    if there is not None and mode == "append" and (lost := [name for name in columns if name not in there]):
        raise JobError(f"{database.url}: the table {table} has no column {lost[0]!r} (it has: {', '.join(there)}). Give another table.")


def deliver(database: Database, table: str, mode: Mode, files: Sequence[str]) -> None:
    """Write the rows of Parquet files in one transaction. Raises RunError where there is a table that is not to be touched."""
    schema, _, name = table.rpartition(".")
    beside = f"{name[:40]}_{secrets.token_hex(4)}"
    new, options = quoted(f"{schema}.{beside}" if schema else beside), {"db_schema_name": schema} if schema else {}
    with database.cursor(write=True) as cursor:
        there = _columns(cursor, database, table)
        if there is not None and mode == "fail":
            raise RunError(f"{database.url}: a table {table} was made there meanwhile; it is as it was. Say mode: replace or append.")
        rows = batches(files, database.kind)
        cursor.adbc_ingest(beside, rows, mode="create", **options)
        if there is not None and mode == "append":
            names = ", ".join(map(column, rows.schema.names))
            cursor.execute(f"insert into {quoted(table)} ({names}) select {names} from {new}")
            cursor.execute(f"drop table {new}")
        else:
            cursor.execute(f"drop table if exists {quoted(table)}")
            cursor.execute(f"alter table {new} rename to {column(name)}")
        cursor.connection.commit()


def _columns(cursor: Any, database: Database, table: str) -> list[str] | None:
    """Names of a table's columns; None where there is no such table."""
    if database.kind == "sqlite":
        cursor.execute(f"select name from pragma_table_info({_text(table)})")
    else:
        cursor.execute(
            f"select attname from pg_attribute where attrelid = to_regclass({_text(quoted(table))}) and attnum > 0 and not attisdropped"
        )
    return [str(name) for (name,) in cursor.fetchall()] or None


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def batches(files: Sequence[str], kind: Literal["postgresql", "sqlite"]) -> Any:
    """The rows of Parquet files as a stream of Arrow batches of types that the database takes, a file at a time."""
    import pyarrow as pa

    def read(file: str) -> pa.Table:
        """The rows of a file."""
        rows = pl.scan_parquet(for_polars(file))
        frame = rows.with_columns(_fitted(name, dtype, kind) for name, dtype in rows.collect_schema().items()).collect()
        return frame.to_arrow(compat_level=pl.CompatLevel.oldest())

    def found() -> Iterator[pa.RecordBatch]:
        """The batches of each file."""
        for file in files:
            yield from read(file).to_batches()

    return pa.RecordBatchReader.from_batches(read(files[0]).schema, found())


def _fitted(name: str, dtype: pl.DataType, kind: Literal["postgresql", "sqlite"]) -> pl.Expr:
    """A column as the driver takes it: nothing is rounded, and what does not fit is an error."""
    value = pl.col(name)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return value.cast(pl.String)
    if kind == "postgresql":
        casts: dict[Any, Any] = {pl.UInt64: pl.Decimal(20, 0), pl.Array: pl.List(getattr(dtype, "inner", pl.Null))}
        return value.cast(casts[type(dtype)]) if type(dtype) in casts else value
    if isinstance(dtype, pl.UInt64):
        return value.cast(pl.Int64)
    if isinstance(dtype, pl.Decimal):
        return value.cast(pl.String)
    if isinstance(dtype, pl.Time):
        return value.dt.strftime("%H:%M:%S%.6f")
    if isinstance(dtype, pl.Datetime):
        shown = value.dt.convert_time_zone("UTC").dt.strftime("%Y-%m-%d %H:%M:%S%.6f+00:00") if dtype.time_zone else None
        return value.dt.strftime("%Y-%m-%d %H:%M:%S%.6f") if shown is None else shown
    return value
