"""ORC files, as Hive and Spark write them; read and written by pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import Any, Literal

import polars as pl
from pydantic import Field

from pipeline.bounds import Bounds
from pipeline.errors import DataError, JobError
from pipeline.files import open_file, stamp
from pipeline.format import OutputFormat
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._scanned import Read, ScannedInput, deferred
from pipeline.tables.part import Part, Schema

VALUE_BYTES = 8  # of a value in memory, about
NS_YEARS = (1678, 2261)  # whole years that nanoseconds in 64 bits reach


class OrcInput(ScannedInput, BoundedInput):
    """ORC files, a part each; files are one table by their columns' names. Times are in nanoseconds, as ORC has them."""

    name = "orc"
    suffixes = (".orc",)
    noun = "an ORC file"

    def reads(self) -> Read:
        """Reads it when it is collected."""
        return partial(_scan, limits=self.limits)


class OrcOutput(OutputFormat):
    """ORC files, one a part. Arrays have no place in them and are left out."""

    name = "orc"
    suffix = ".orc"
    compression: Literal["uncompressed", "snappy", "lz4", "zstd", "zlib"] = Field("zstd", description="How the files are compressed.")

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a column of a type that ORC does not have."""
        import pyarrow as pa

        for name in columns:
            try:
                self._write(pl.DataFrame(schema={name: schema.columns[name]}), BytesIO())
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
                what = f"column {name!r} is {schema.columns[name]}, and ORC has no type for it"
                raise JobError(f"{what}. Cast it in a derive stage, leave it out with columns, or write Parquet.") from error

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part's frame. Raises DataError for a time that is beyond nanoseconds, as readers have them."""
        for name, dtype in part.frame.schema.items():
            years = part.frame[name].dt.year() if isinstance(dtype, pl.Datetime) else None
            if years is not None and not years.is_between(*NS_YEARS).all():
                raise DataError(
                    f"column {name!r} has times beyond the years {NS_YEARS[0]} to {NS_YEARS[1]}, which readers of ORC do not take"
                )
        self._write(part.frame, path)

    def _write(self, frame: pl.DataFrame, target: Any) -> None:
        import pyarrow.orc as orc

        orc.write_table(frame.to_arrow(compat_level=pl.CompatLevel.oldest()), target, compression=self.compression)

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The file's rows, of the types that are told."""
        rows = _frame(BytesIO(source) if isinstance(source, bytes) else source).lazy()
        return rows.with_columns(pl.col(name).cast(dtype) for name, dtype in dtypes.items())


def _scan(path: str, limits: Bounds) -> pl.LazyFrame:
    return deferred(path, partial(_schema, limits=limits), _rows)


def _schema(path: str, limits: Bounds) -> pl.Schema:
    import pyarrow as pa
    import pyarrow.orc as orc

    with open_file(path) as file:
        try:
            found = orc.ORCFile(file)
        except pa.ArrowException as error:
            raise ValueError(str(error)) from error
        limits.need_table(path, stamp(path).size, VALUE_BYTES * found.nrows * len(found.schema.names))
        empty = pl.from_arrow(found.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def _rows(path: str) -> pl.DataFrame:
    with open_file(path) as file:
        return _frame(file)


def _frame(source: Any) -> pl.DataFrame:
    import pyarrow.orc as orc

    found = pl.from_arrow(orc.ORCFile(source).read())
    assert isinstance(found, pl.DataFrame)
    return found
