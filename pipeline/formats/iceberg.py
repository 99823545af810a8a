"""Iceberg tables, read and written by pyiceberg."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, Self

import polars as pl
from pydantic import Field

from pipeline.errors import InputError, JobError, PlaceError, RunError
from pipeline.files import absolute, beside, is_folder, names, read_bytes
from pipeline.format import OutputFormat
from pipeline.formats._lakes import LakeInput, Versioned, Wider, batches, check_types, held, need_library
from pipeline.tables.part import Part, Schema

CODE, GZIP = "py-", b"\x1f\x8b"  # properties that name a class of Python: py-io-impl, py-catalog-impl
_METADATA = re.compile(r"v?([0-9]+)(-.*)?\.metadata\.json(\.gz)?")
WIDER: Wider = {pl.Int8(): pl.Int32(), pl.Int16(): pl.Int32()}  # Iceberg's smallest integers have 32 bits


def _of_databases() -> tuple[type[Exception], ...]:
    """What a catalog in a database raises; nothing where SQLAlchemy, by which pyiceberg has one, is not installed."""
    if find_spec("sqlalchemy") is None:
        return ()
    from sqlalchemy.exc import SQLAlchemyError

    return (SQLAlchemyError,)


class IcebergInput(LakeInput):
    """A snapshot of an Iceberg table: its folder, or one of its metadata files. Both stand in run.json, so that a run can be repeated."""

    name = "iceberg"

    snapshot: int | None = Field(None, description="The id of the snapshot to read; the current one where it is not given.")

    def pinned(self) -> Self:
        """The same reader of the metadata file that is the newest now, and of its current snapshot."""
        need_library("pyiceberg", "Iceberg")
        place = _newest(self.place())
        return self.model_copy(update={"path": (place,), "snapshot": self.snapshot or _table(place, None).metadata.current_snapshot_id})

    def about(self) -> Mapping[str, Any]:
        """The metadata file and the snapshot."""
        return {"metadata": self.place(), "snapshot": self.snapshot}

    def content(self) -> list[str]:
        """The metadata file, and those of the rows."""
        return [_newest(self.place()), *self.files()]

    def reads(self) -> Versioned:
        """A scan of the snapshot."""
        need_library("pyiceberg", "Iceberg")
        return Versioned(partial(_scan, snapshot=self.snapshot), partial(_files, snapshot=self.snapshot))


class IcebergOutput(OutputFormat):
    """An Iceberg table of a catalog, written by one commit once the run is published; the run's folder has the rows as Parquet, too."""

    name = "iceberg"
    suffix = ".parquet"

    identifier: str = Field(pattern=r"^[^.]+(\.[^.]+)+$", description="NAMESPACE.TABLE; made where there is none.")
    catalog: str = Field("default", min_length=1, description="The catalog, by its name in pyiceberg's own configuration, credentials too.")
    properties: dict[str, str] = Field(default_factory=dict, description="What that does not say: type, uri, warehouse. No credentials.")
    mode: Literal["append", "overwrite", "error"] = Field(
        "error", description="What becomes of a table that is there: rows are added, replaced (older snapshots stay), or nothing is begun."
    )

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for types that Iceberg does not have, and where a table that is there does not fit."""
        need_library("pyiceberg", "Iceberg")
        if code := sorted(key for key in self.properties if key.startswith(CODE)):
            raise JobError(f"properties: {code[0]!r} names code to run. Say it in pyiceberg's own configuration, .pyiceberg.yaml.")
        check_types(schema, columns, "Iceberg")
        catalog = self._catalog()
        if not catalog.table_exists(self.identifier):
            return
        if self.mode == "error":
            raise JobError(
                f"{self.identifier}: there is an Iceberg table already. Say mode: append or overwrite, or give another identifier."
            )
        there = pl.scan_iceberg(catalog.load_table(self.identifier)).collect_schema()
        given = held(pl.LazyFrame(schema={name: schema.columns[name] for name in columns}), WIDER).collect_schema()
        if dict(there) != dict(given):
            differing = sorted({*there.items()} ^ {*given.items()}, key=str)[:3]
            raise JobError(
                f"{self.identifier}: the table there has other columns than would be written: {differing}. Give another identifier."
            )

    def _catalog(self) -> Any:
        """The catalog. Raises PlaceError where it cannot be opened."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError, RESTError

        refusals: tuple[type[Exception], ...] = (ValueError, OSError, NotInstalledError, RESTError, *_of_databases())
        try:
            return load_catalog(self.catalog, **self.properties)
        except refusals as error:
            what = str(getattr(error, "orig", error))  # what the database says, without SQLAlchemy's own lines
            remedy = "Name it in .pyiceberg.yaml, in PYICEBERG_CATALOG__NAME__URI, or say type, uri and warehouse in properties."
            raise PlaceError(f"the Iceberg catalog {self.catalog!r} cannot be opened ({what}). {remedy}") from error

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part's frame as Parquet."""
        part.frame.write_parquet(path, compression="zstd")

    def deliver(self, files: Sequence[str], run: str) -> None:
        """Commit the rows to the table; the snapshot's summary names the run. Raises RunError where it fails: the table is as it was."""
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, RESTError, TableAlreadyExistsError

        refusals: tuple[type[Exception], ...] = (
            CommitFailedException,
            PlaceError,
            RESTError,
            TableAlreadyExistsError,
            OSError,
            ValueError,
            *_of_databases(),
        )
        try:
            self._commit(self._catalog(), batches(files, WIDER), {"run": run})
        except CommitStateUnknownException as error:
            raise RunError(f"{self.identifier}: it is not known whether the commit was made ({error}). Look at the table first.") from error
        except refusals as error:
            raise RunError(f"{self.identifier}: the Iceberg table was not written and is as it was ({error}). Run again.") from error

    def _commit(self, catalog: Any, rows: Any, about: dict[str, str]) -> None:
        if not catalog.table_exists(self.identifier):
            catalog.create_namespace_if_not_exists(self.identifier.rpartition(".")[0])
            transaction = catalog.create_table_transaction(self.identifier, schema=rows.schema)
            transaction.append(rows, snapshot_properties=about)
            transaction.commit_transaction()
        elif self.mode == "overwrite":
            catalog.load_table(self.identifier).overwrite(rows, snapshot_properties=about)
        elif self.mode == "append":
            catalog.load_table(self.identifier).append(rows, snapshot_properties=about)
        else:
            raise RunError(f"{self.identifier}: an Iceberg table was made there meanwhile; it is as it was. Say mode: append or overwrite.")

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The rows of a file of the run."""
        return pl.scan_parquet(source)


def _newest(path: str) -> str:
    """The newest metadata file of a table's folder; a metadata file itself."""
    folder = beside(path, "metadata")
    if not is_folder(folder):
        return absolute(path)
    found = [(int(match[1]), name) for name in names(folder) if (match := _METADATA.fullmatch(name))]
    if not found:
        raise InputError(f"{path}: there is no Iceberg table (no file *.metadata.json in {folder})")
    newest = [name for number, name in found if number == max(found)[0]]
    if len(newest) > 1:
        raise InputError(f"{path}: several metadata files are the newest ({', '.join(newest)}). Give the one that the catalog names.")
    return absolute(beside(folder, newest[0]))


def _without_code(metadata: str) -> str:
    """The metadata file; raises InputError where it names a class that pyiceberg would import and make."""
    content = read_bytes(metadata)
    document = json.loads(gzip.decompress(content) if content.startswith(GZIP) else content)
    properties = document.get("properties") if isinstance(document, dict) else None
    if code := sorted(key for key in properties or () if key.startswith(CODE)):
        raise InputError(f"{metadata}: the table's property {code[0]!r} names code to run, and no data is trusted so far. Remove it.")
    return metadata


def _table(path: str, snapshot: int | None) -> Any:
    from pyiceberg.table import StaticTable

    try:
        table = StaticTable.from_metadata(_without_code(_newest(path)))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: there is no Iceberg table ({str(error).splitlines()[0]})") from error
    if snapshot is not None and table.snapshot_by_id(snapshot) is None:
        known = ", ".join(str(one.snapshot_id) for one in table.snapshots())
        raise InputError(f"{path}: there is no snapshot {snapshot}. It has: {known or 'none'}.")
    return table


def _files(path: str, snapshot: int | None) -> list[str]:
    return [task.file.file_path for task in _table(path, snapshot).scan(snapshot_id=snapshot).plan_files()]


def _scan(path: str, snapshot: int | None) -> pl.LazyFrame:
    return pl.scan_iceberg(_table(path, snapshot), snapshot_id=snapshot)
