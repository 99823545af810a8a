"""Row groups of Parquet files as what a task reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from pipeline.files import for_polars
from pipeline.formats._broken import BROKEN
from pipeline.formats._drift import fitted
from pipeline.formats._finite import with_finite
from pipeline.formats._hive import FolderColumn, with_folder_columns
from pipeline.formats._parquet.checksums import need_whole
from pipeline.formats._parquet.genotypes import read_genotypes
from pipeline.formats._parquet.ranges import RowRange, footer, neighbours, scan_of_whole_files
from pipeline.tables.part import Part


@dataclass(frozen=True)
class ParquetSource:
    """Some row groups of some files, read as one scan; `table` are the columns of all files where these differ."""

    ranges: tuple[RowRange, ...]
    arrays: tuple[str, ...] = ()
    cheap: bool = True
    folders: Mapping[str, tuple[FolderColumn, ...]] = field(default_factory=dict)
    table: tuple[tuple[str, pl.DataType], ...] = ()
    checksums: bool = True

    def load(self) -> pl.LazyFrame | Part:
        """The scan, in which NaN and infinities are null from here on. With genotypes, the part itself."""
        rows = self.plain()
        return rows if isinstance(rows, Part) else with_finite(rows, rows.collect_schema())

    def plain(self) -> pl.LazyFrame | Part:
        """The scan as the files have it, once its pages' checksums hold."""
        for piece in self.ranges if self.checksums else ():
            if piece.laid is None:
                need_whole(piece)
        if self.arrays:
            return read_genotypes([piece.checked() for piece in self.ranges], self.arrays)
        if not self.table and not any(self.folders.values()) and (whole := scan_of_whole_files(self.ranges)) is not None:
            return whole
        scans = []
        for piece in self.ranges:
            rows = piece.scan()
            rows = fitted(rows, rows.collect_schema(), dict(self.table)) if self.table else rows
            scans.append(with_folder_columns(rows, self.folders.get(piece.path, ())))
        return pl.concat(scans) if len(scans) > 1 else scans[0]

    def joined(self, others: Sequence[Any]) -> ParquetSource | None:
        """This source and those after it as one, neighbours in a file as one range; None of genotypes, and of other tables."""
        sources = (self, *(other for other in others if isinstance(other, ParquetSource)))
        if self.arrays or len(sources) <= len(others) or any((one.table, one.checksums) != (self.table, self.checksums) for one in sources):
            return None
        folders = {path: columns for one in sources for path, columns in one.folders.items()}
        return replace(self, ranges=tuple(neighbours([piece for one in sources for piece in one.ranges])), folders=folders)

    def places(self) -> Sequence[tuple[str, int, int | None]]:
        """Which rows of which files they are."""
        return [(piece.path, piece.offset, piece.rows) for piece in self.ranges]

    def explain(self) -> str | None:
        """Which file cannot be read, for a query over it that has failed; None where all can."""
        for piece in self.ranges:
            try:
                pl.scan_parquet(for_polars(piece.path)).select(pl.all().null_count()).collect(engine="streaming")
            except BROKEN as error:
                what = str(error).split("\n")[0][:200]
                return f"{piece.path}: cannot be read, though its footer can ({what}). It is damaged: copy it again, or write it anew."
        return None

    def interval(self, column: str) -> tuple[Any, Any] | None:
        """Least and greatest value by the footers; None for floats, nulls, or where the writer left no exact statistics."""
        bounds = []
        for piece in self.ranges:
            meta = footer(piece.path)
            index = next((i for i in range(meta.num_columns) if meta.schema.column(i).path == column), None)
            for group, _ in piece.groups():
                stats = None if index is None else meta.row_group(group).column(index).statistics
                if stats is None or not (stats.has_min_max and stats.has_null_count) or stats.null_count:
                    return None
                if stats.physical_type not in {"INT32", "INT64"}:
                    return None
                bounds.append((stats.min, stats.max))
        return (min(low for low, _ in bounds), max(high for _, high in bounds)) if bounds else None
