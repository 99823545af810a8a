"""Inputs whose files know their columns: one table by the columns' names, a part a file, or ranges of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import polars as pl

from pipeline.errors import InputError
from pipeline.format import CostlySource, even_ranges
from pipeline.formats._broken import BROKEN, count
from pipeline.formats._drift import Missing, by_name, fitted, same
from pipeline.formats._finite import INFINITIES, InfinitiesOfScans, with_finite
from pipeline.formats._hive import FolderColumn, HiveInput, with_folder_columns
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema

Read = Callable[[str], pl.LazyFrame]
"""The rows of a file, by its path; it pickles."""

Check = Callable[[str], None]
"""What is looked at before a file is read, by its path: InputError where it is damaged, or comes to more than it may. It pickles."""


@dataclass(frozen=True)
class ScannedSource(CostlySource):
    """One file of these columns, or some rows of it; `table` are the columns of all files. On a GPU's machine the host reads it."""

    path: str
    read: Read
    columns: tuple[tuple[str, pl.DataType], ...]
    table: tuple[tuple[str, pl.DataType], ...]
    folders: tuple[FolderColumn, ...] = ()
    offset: int = 0
    rows: int | None = None
    check: Check | None = None

    def load(self) -> pl.LazyFrame:
        """The rows; NaN and infinities are null from here on. Raises InputError for a file that its check refuses."""
        return self._table(with_finite(self._own(), dict(self.columns)))

    def plain(self) -> pl.LazyFrame:
        """The rows as the file has them."""
        return self._table(self._own())

    def _own(self) -> pl.LazyFrame:
        """Its rows of the file, with the file's own columns."""
        self.need()
        return self.raw() if self.rows is None else self.raw().slice(self.offset, self.rows)

    def _table(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows of the file with the columns of all files."""
        return with_folder_columns(fitted(rows, dict(self.columns), dict(self.table)), self.folders)

    def need(self) -> None:
        """Raise InputError where the file is not to be read."""
        if self.check is not None:
            self.check(self.path)

    def raw(self) -> pl.LazyFrame:
        """All of the file as it is."""
        return self.read(self.path)

    def explain(self) -> str:
        """What is said of a file whose beginning or end can be read, for a query over it that has failed."""
        return f"{self.path}: cannot be read whole. It is damaged: copy it again, or write it anew."


class ScannedInput(HiveInput):
    """Base of such inputs."""

    noun: ClassVar[str] = ""  # what such a file is called
    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    missing: Missing = "error"

    def reads(self) -> Read:
        """What reads a file."""
        raise NotImplementedError(f"{type(self).__name__} has no reads")

    def checks(self) -> Check | None:
        """What is looked at before a file is read in a task; None where reading is safe."""
        return None

    def table_schema(self) -> Schema:
        """The columns of all files, as they tell them themselves."""
        files = self.files()
        table = by_name(self._columns(files), self.missing, same)
        folders = self.folder_columns(files, list(table))[files[0]]
        return Schema(pl.Schema({**table, **{column.name: column.dtype for column in folders}}))

    def _columns(self, files: Sequence[str]) -> dict[str, pl.Schema]:
        """The columns of each file. Raises InputError for what is no such file."""
        found, read = dict[str, pl.Schema](), self.reads()
        for file in files:
            try:
                found[file] = read(file).collect_schema()
            except (*BROKEN, EOFError, ValueError, RuntimeError) as error:
                what = str(error).partition("\n")[0][:300]
                raise InputError(f"{file}: not {self.noun} ({what}). Is format {self.name} right, and the file whole?") from error
        return found

    def sources(self, parallel: int) -> Sequence[ScannedSource]:
        """One part a file, or `parts` ranges of rows."""
        whole = self._whole()
        if self.parts is None or self.parts <= len(whole):
            return whole
        return [piece for source in whole for piece in _cut(source, -(-self.parts // len(whole)))]

    def _whole(self) -> list[ScannedSource]:
        files, read, check = self.files(), self.reads(), self.checks()
        columns = self._columns(files)
        table = by_name(columns, self.missing, same)
        folders = self.folder_columns(files, list(table))
        of_table = tuple(table.items())
        return [ScannedSource(file, read, tuple(columns[file].items()), of_table, folders[file], check=check) for file in files]

    def infinities(self) -> Callable[[], int] | None:
        """A count in the files' float columns; None where there is none."""
        files = [(source, [name for name, dtype in source.columns if dtype.is_float()]) for source in self._whole()]
        return InfinitiesOfScans(files) if any(floats for _, floats in files) else None


def _cut(source: ScannedSource, parts: int) -> list[ScannedSource]:
    source.need()
    rows = count(source.raw(), source.path, source.explain)
    return [replace(source, offset=first, rows=count) for first, count in even_ranges(rows, parts)]


def deferred(path: str, schema: Callable[[str], pl.Schema], rows: Callable[[str], pl.DataFrame]) -> pl.LazyFrame:
    """The rows of a file that no scan of Polars reads: it is read when the query is collected."""
    return pl.defer(partial(rows, path), schema=schema(path))
