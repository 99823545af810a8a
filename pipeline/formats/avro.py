"""Avro files, read and written by fastavro, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import JobError, PlaceError
from pipeline.files import open_file
from pipeline.format import OutputFormat
from pipeline.formats._avro_blocks import need_blocks
from pipeline.formats._avro_types import dtype_of, record
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._scanned import Check, Read, ScannedInput, deferred
from pipeline.tables.part import Part, Schema


class AvroInput(ScannedInput, BoundedInput):
    """Avro files of records, a part each; files are one table by their columns' names."""

    name = "avro"
    suffixes = (".avro",)
    noun = "an Avro file of a table"

    def reads(self) -> Read:
        """Reads it when it is collected. PlaceError where fastavro is not installed."""
        _need_fastavro()
        return _scan

    def checks(self) -> Check:
        """Its blocks come to no more than its limits."""
        return partial(need_blocks, limits=self.limits)


class AvroOutput(OutputFormat):
    """Avro files, one a part. Arrays have no place in them and are left out."""

    name = "avro"
    suffix = ".avro"
    compression: Literal["uncompressed", "deflate"] = Field("deflate", description="How the files are compressed.")

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a column that Avro has no name or type for. PlaceError where fastavro is not installed."""
        _need_fastavro()
        for name in columns:
            try:
                record({name: schema.columns[name]}, "row")
            except ValueError as error:
                remedy = "Rename or cast it in a derive stage, leave it out with columns, or write Parquet."
                raise JobError(f"column {name!r} cannot be written: {error}. {remedy}") from error

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part's frame."""
        import fastavro

        schema = fastavro.parse_schema(record(part.frame.schema, "row"))
        with Path(path).open("wb") as file:
            fastavro.writer(
                file, schema, part.frame.iter_rows(named=True), codec="null" if self.compression == "uncompressed" else "deflate"
            )

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The file's rows, of the types that are told."""
        if isinstance(source, str | Path):
            return deferred(str(source), _schema, _rows).with_columns(pl.col(name).cast(dtype) for name, dtype in dtypes.items())
        found = _frame(BytesIO(source) if isinstance(source, bytes) else source)
        return found.lazy().with_columns(pl.col(name).cast(dtype) for name, dtype in dtypes.items())


def _need_fastavro() -> None:
    if find_spec("fastavro") is None:
        raise PlaceError("fastavro, which reads and writes Avro files, is not installed. Install it with: pip install '.[avro]'")


def _scan(path: str) -> pl.LazyFrame:
    return deferred(path, _schema, _rows)


def _schema(path: str) -> pl.Schema:
    import fastavro

    with open_file(path) as file:
        try:
            return _columns(fastavro.reader(file).writer_schema)
        except (KeyError, AttributeError, TypeError, fastavro.schema.SchemaParseException) as error:
            raise ValueError(f"its schema is damaged: {error}") from error


def _columns(schema: Any) -> pl.Schema:
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("its values are no records")
    named = dict[str, pl.DataType]()
    return pl.Schema({field["name"]: dtype_of(field["type"], named) for field in schema["fields"]})


def _rows(path: str) -> pl.DataFrame:
    with open_file(path) as file:
        return _frame(file)


def _frame(file: Any) -> pl.DataFrame:
    import fastavro

    reader = fastavro.reader(file)
    schema = _columns(reader.writer_schema)
    return pl.DataFrame([*reader], schema=schema, orient="row")
