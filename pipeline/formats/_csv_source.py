"""One CSV file, or some rows of it, as a task reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from pipeline.errors import DataError
from pipeline.files import stamp
from pipeline.format import CostlySource
from pipeline.formats._bad_rows import Sifted, quarantined
from pipeline.formats._broken import count
from pipeline.formats._csv_bad_rows import sifted, without
from pipeline.formats._csv_dialect import Dialect
from pipeline.formats._csv_problems import first_problem
from pipeline.formats._csv_shape import Shape, shape
from pipeline.formats._csv_text import BLOCK_BYTES, NEAR_BYTES, scannable, utf8_blocks
from pipeline.formats._drift import fitted
from pipeline.formats._finite import with_finite
from pipeline.formats._hive import FolderColumn, with_folder_columns
from pipeline.formats._text_stretches import PIECE_BYTES, Stretch, Text, pieces, stretches
from pipeline.tables.part import Part

ShortRows = Literal["error", "fill"]
Columns = tuple[tuple[str, pl.DataType], ...]


@dataclass(frozen=True)
class CsvSource(CostlySource):
    """One CSV file of these columns, or some rows of it, read with types that are known; `table` are the columns of all files.

    With `first` it is so many of its first rows, for a glance.
    """

    path: str
    columns: Columns
    dialect: Dialect
    table: Columns
    short_rows: ShortRows = "error"
    folders: tuple[FolderColumn, ...] = ()
    stretch: Stretch | None = None
    sifts: bool = False
    first: int | None = None

    def load(self) -> pl.LazyFrame | Part:
        """The scan; NaN and infinities are null from here on. Of a file with short rows that are to be filled, the rows and their number.

        Raises DataError for a file with short rows, and for one with a quote that is never closed.
        """
        return self._shaped(self.scan())

    def plain(self) -> pl.LazyFrame | Part:
        """The same as the file has it, NaN and infinities among the numbers."""
        return self._shaped(self._table(self._own()))

    def _shaped(self, rows: pl.LazyFrame) -> pl.LazyFrame | Part:
        """The rows, once the shape of their file is known to be right."""
        if self.first is not None:
            return rows
        is_first = self.stretch is None or self.stretch.start == 0
        found = self.shape() if is_first else Shape()
        if self.sifts:
            filled = found.short and self.short_rows == "fill"
            return Part(rows.collect(), counts={"short_rows": found.short}) if filled else rows
        if (found.unclosed or self.short_rows == "error") and (problem := found.problem(self.path, len(self.columns), self.dialect)):
            raise DataError(problem)
        return Part(rows.collect(), counts={"short_rows": found.short}) if found.short else rows

    def scan(self) -> pl.LazyFrame:
        """The rows, whatever their shape."""
        return self._table(with_finite(self._own(), dict(self.columns)))

    def _own(self) -> pl.LazyFrame:
        """Its rows of the file, with the file's own columns."""
        if (stretch := self.stretch) is None:
            return self.raw()
        if not stretch.rows:
            return pl.LazyFrame(schema=dict(self.columns))
        return self._scanned(stretch.read(Text(self.path, self.dialect, self._prepared())), is_first=stretch.start == 0)

    def _table(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows of the file with the columns of all files."""
        return with_folder_columns(fitted(rows, dict(self.columns), dict(self.table)), self.folders)

    def raw(self) -> pl.LazyFrame:
        """All of the file with its own columns, of their types."""
        if (prepared := self._prepared()) is not None:
            return self._scanned(prepared)
        return self._scanned(scannable(self.path, self.dialect), skip=0 if self.dialect.is_prepared else self.dialect.skip)

    def _prepared(self) -> bytes | None:
        """The text of which lines are left out here and there; None where it is scanned as it is."""
        if self.sifts and (bad := self._sifted().lines):
            return without(self.path, self.dialect, bad)
        text = None if self.dialect.comment is None else scannable(self.path, self.dialect)
        return text if isinstance(text, bytes) else None

    def _scanned(self, text: str | bytes, *, skip: int = 0, is_first: bool = True) -> pl.LazyFrame:
        """The rows of a file, by its path, or of some text in UTF-8, of the first rows of the file or others."""
        options = {**self.dialect.options(), "skip_lines": skip, "n_rows": self.first}
        if isinstance(text, bytes) and not is_first:  # of a text's first line Polars wants all fields
            text, options["has_header"] = self.dialect.separator.join("x" for _ in self.columns).encode() + b"\n" + text, True
        schema = {name: self.dialect.read_as(dtype) for name, dtype in self.columns}
        return self.dialect.typed(pl.scan_csv(text, schema=schema, **options), dict(self.columns))

    def some(self, share: float) -> CsvSource:
        """Its first rows, of a stretch that knows how many it has."""
        return self if self.stretch is None else replace(self, first=int(self.stretch.rows * share) + 1)

    def pieces(self) -> Iterator[pl.LazyFrame]:
        """The same, piece by piece where no scan of the file goes without holding all of its text."""
        text = Text(self.path, self.dialect, self._prepared())
        if text.is_sought_in:
            yield self.raw()
        else:
            for number, piece in enumerate(pieces(text.blocks(BLOCK_BYTES), PIECE_BYTES, quoted=True)):
                yield self._scanned(piece, is_first=number == 0)

    def cut(self, parts: int, folder: str | None) -> list[CsvSource]:
        """So many sources of the rows of the file, or about so many that lie in a folder. Raises InputError for one that cannot be read."""
        found = stretches(Text(self.path, self.dialect, self._prepared()), parts, self._count, folder, quoted=True)
        return [replace(self, stretch=stretch) for stretch in found]

    def _count(self, text: bytes, is_first: bool) -> int:
        return count(self._scanned(text, is_first=is_first), self.path, self.explain)

    def sifted(self) -> tuple[pl.DataFrame, int]:
        """The bad rows of the file, and how many rows it has with them."""
        found = self._sifted()
        return quarantined(self.path, found.bad), found.rows

    def _sifted(self) -> Sifted:
        return sifted(self.path, stamp(self.path), self.columns, self.dialect, self.short_rows == "error")

    def places(self) -> Sequence[tuple[str, int, int | None]]:
        """Which rows of the file they are."""
        return [(self.path, self.stretch.offset, self.stretch.rows) if self.stretch else (self.path, 0, None)]

    def blocks(self) -> Iterator[bytes]:
        """Its text in UTF-8."""
        return utf8_blocks(self.path, self.dialect, NEAR_BYTES)

    def explain(self) -> str | None:
        """What is wrong with the file, for a query over it that has failed; None where nothing is."""
        found = self.shape()
        if found.unclosed:
            return found.problem(self.path, len(self.columns), self.dialect)
        return first_problem(self.path, dict(self.columns), self.dialect)

    def shape(self) -> Shape:
        """The shape of the file. Raises InputError where it cannot be read, or is beyond its limits."""
        return shape(self.path, stamp(self.path), self.dialect, len(self.columns))
