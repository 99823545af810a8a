"""Delta Lake tables, read and written by deltalake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import polars as pl
from pydantic import Field

from pipeline.errors import InputError, JobError, RunError
from pipeline.files import absolute
from pipeline.format import OutputFormat
from pipeline.formats._lakes import LakeInput, Versioned, batches, check_types, held, need_library
from pipeline.tables.part import Part, Schema


class DeltaInput(LakeInput):
    """A version of a Delta Lake table. The version stands in run.json, so that a run can be repeated."""

    name = "delta"

    version: int | None = Field(None, ge=0, description="The version to read; the newest where it is not given.")

    def pinned(self) -> Self:
        """The same reader of the version that is the newest now."""
        return self.model_copy(update={"version": self._version_of(self.place())})

    def _version_of(self, place: str) -> int:
        """The number of the version that is read."""
        need_library("deltalake", "Delta Lake")
        return int(_table(place, self.version).version())

    def about(self) -> Mapping[str, Any]:
        """The version."""
        return {"version": self.version}

    def reads(self) -> Versioned:
        """A scan of the version."""
        need_library("deltalake", "Delta Lake")
        return Versioned(partial(_scan, version=self.version), partial(_files, version=self.version))


class DeltaOutput(OutputFormat):
    """A Delta Lake table, written by one commit once the run is published; the run's folder has the rows as Parquet, too."""

    name = "delta"
    suffix = ".parquet"

    location: str = Field(min_length=1, description="The folder or URL of the table; made where there is none.")
    mode: Literal["append", "overwrite", "error"] = Field(
        "error", description="What becomes of a table that is there: rows are added, replaced (older versions stay), or nothing is begun."
    )
    partition_by: tuple[str, ...] = Field((), description="Columns that a new table is partitioned by.")

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for types that Delta Lake does not have, and where a table that is there does not fit."""
        need_library("deltalake", "Delta Lake")
        check_types(schema, columns, "Delta Lake")
        if lost := [name for name in self.partition_by if name not in columns]:
            raise JobError(f"partition_by names {lost[0]!r}, which is no column that is written")
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(absolute(self.location)):
            return
        if self.mode == "error":
            raise JobError(
                f"{self.location}: there is a Delta Lake table already. Say mode: append or overwrite, or give another location."
            )
        there = pl.scan_delta(absolute(self.location)).collect_schema()
        given = held(pl.LazyFrame(schema={name: schema.columns[name] for name in columns})).collect_schema()
        if dict(there) != dict(given):
            differing = sorted({*there.items()} ^ {*given.items()}, key=str)[:3]
            raise JobError(f"{self.location}: the table there has other columns than would be written: {differing}. Give another location.")

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part's frame as Parquet."""
        part.frame.write_parquet(path, compression="zstd")

    def deliver(self, files: Sequence[str], run: str) -> None:
        """Commit the rows to the table; the commit's metadata name the run. Raises RunError where it fails: the table is as it was."""
        from deltalake import CommitProperties, write_deltalake
        from deltalake.exceptions import DeltaError

        keys = list(self.partition_by) or None
        about = CommitProperties(custom_metadata={"run": run})
        try:
            write_deltalake(absolute(self.location), batches(files), mode=self.mode, partition_by=keys, commit_properties=about)
        except (DeltaError, OSError, ValueError) as error:
            raise RunError(f"{self.location}: the Delta Lake table was not written and is as it was ({error}). Run again.") from error

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The rows of a file of the run."""
        return pl.scan_parquet(source)


def _table(path: str, version: int | None) -> Any:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable(path, version=version)
    except (DeltaError, OSError) as error:
        which = "" if version is None else f" with a version {version}"
        raise InputError(f"{path}: there is no Delta Lake table{which} ({str(error).splitlines()[0]})") from error


def _files(path: str, version: int | None) -> list[str]:
    return list(_table(path, version).file_uris())


def _scan(path: str, version: int | None) -> pl.LazyFrame:
    return pl.scan_delta(path, version=version)
