"""Parquet: scans that projections and filters reach; genotypes (calls or dosages) as one fixed-size binary column."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import polars as pl
from pydantic import Field, PrivateAttr

from pipeline.backend.arrays import to_host
from pipeline.errors import InputError, JobError
from pipeline.files import folder_values
from pipeline.format import OutputFormat
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._broken import BROKEN
from pipeline.formats._drift import Missing, by_name, same
from pipeline.formats._finite import INFINITIES, InfinitiesOfParquet, unbounded_floats
from pipeline.formats._hive import FolderColumn, HiveInput, with_folder_columns, written_folders
from pipeline.formats._parquet.features import with_features
from pipeline.formats._parquet.folders import check_folders, in_folders
from pipeline.formats._parquet.genotypes import GENOTYPES, SAMPLES_KEY, write_genotypes
from pipeline.formats._parquet.laid import in_small_ones
from pipeline.formats._parquet.ranges import bunches, cut, footer, need_table, row_groups, scan, values_bytes
from pipeline.formats._parquet.source import ParquetSource
from pipeline.genome.inputs import PlacedInput
from pipeline.tables.budget import row_bytes
from pipeline.tables.counts import Count
from pipeline.tables.names import ColumnName
from pipeline.tables.part import Part, Schema, read_frame

PART_BYTES_LEAST, PART_BYTES_MOST = 8 << 20, 256 << 20  # bytes in a part: fewer parts and larger ones than one thinks
# Of genotypes: kernels read them many times faster than they make results of them, so small parts cost nothing, and refits are dear.
GENOTYPE_BYTES_LEAST, GENOTYPE_BYTES_MOST = 1 << 20, 64 << 20
ROW_GROUP = 250_000
LARGER = 4  # times a task's share of the memory that a row group may be; beyond it they are cut


def _names(path: str) -> list[str]:
    return list(footer(path).schema.to_arrow_schema().names)


def _columns(path: str) -> pl.Schema:
    """Names and types of a file's columns. Raises InputError where the file is no whole Parquet file."""
    footer(path)
    try:
        return scan(path).collect_schema()
    except BROKEN as error:
        what = str(error).partition("\n")[0][:200]
        raise InputError(f"{path}: its footer is damaged ({what}). Copy the file again, or write it anew.") from error


class ParquetInput(HiveInput, PlacedInput, BoundedInput):
    """Parquet files of one table. With a column `calls` or `alt_dosages` written by this project they are a genotype table."""

    name = "parquet"
    suffixes = (".parquet", ".pq")
    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    _folder: str | None = PrivateAttr(default=None)
    missing: Missing = "error"
    checksums: bool = Field(True, description="Whether the checksums of pages are checked, in files of this machine that have them.")

    def table_schema(self) -> Schema:
        """Names and types from the footers; a column must be of one type in all files."""
        files = self.files()
        for file in files:
            need_table(file, self.limits)
        found = self._table({file: _columns(file) for file in files})
        samples = self._samples(files)
        arrays = self._arrays(files)
        columns = pl.Schema({name: dtype for name, dtype in found.items() if name not in arrays})
        columns.update({column.name: column.dtype for column in self._folders(files).get(files[0], ())})
        return Schema(columns, {} if samples is None else dict.fromkeys(arrays, samples.schema))

    def _table(self, files: Mapping[str, pl.Schema]) -> dict[str, pl.DataType]:
        """The columns of all files; of genotypes they must be the same, in one order."""
        first, *others = files
        if self._samples([first, *others]) is None:
            return by_name(files, self.missing, same)
        if other := next((file for file in others if files[file] != files[first]), None):
            raise InputError(f"{other}: its columns differ from those of {first}, and files of genotypes have the same ones in one order.")
        return dict(files[first])

    def _folders(self, files: Sequence[str]) -> Mapping[str, tuple[FolderColumn, ...]]:
        """Each file's columns by its folders; none of genotypes, which InputError refuses in several such folders."""
        if self._samples(files) is None:
            return self.folder_columns(files, [name for file in files for name in _names(file)])
        if len({str(folder_values(file)) for file in files}) > 1:
            raise InputError(f"{files[0]}: genotypes take no columns of folders KEY=VALUE. Read each folder as an input of its own.")
        return {}

    def _arrays(self, files: Sequence[str]) -> tuple[str, ...]:
        """The columns that are genotypes: those of their names, in files that say whose they are."""
        names = _names(files[0]) if self._samples(files) is not None else []
        return tuple(name for name in GENOTYPES if name in names)

    def _samples(self, files: Sequence[str]) -> pl.DataFrame | None:
        found = {(footer(file).metadata or {}).get(SAMPLES_KEY) for file in files}
        if found == {None}:
            return None
        if len(found) > 1:
            raise InputError(f"{', '.join(files[:3])}: the files' genotypes are of different samples; read them as tables of their own")
        return read_frame(base64.b64decode(found.pop() or b""))

    def axes(self) -> Mapping[str, pl.DataFrame]:
        """The samples of a genotype table."""
        samples = self._samples(self.files())
        return {} if samples is None else dict.fromkeys(self._arrays(self.files()), samples)

    def rows(self) -> int | None:
        """Rows by the footers."""
        return sum(int(footer(file).num_rows) for file in self.files())

    def nested_bytes(self, names: Collection[str]) -> int:
        """Of all values in these columns of lists and structs, by the footers."""
        return sum(values_bytes(file, names) for file in self.files())

    def infinities(self) -> Callable[[], int] | None:
        """A count in the columns that footers do not show to be finite; None where there is none."""
        columns = {file: names for file in self.files() if (names := unbounded_floats(file))}
        return InfinitiesOfParquet(columns) if columns else None

    def finer(self, sources: int, parts: int, folder: str) -> Self:
        """In as many as are wanted, where row groups are too large; very large ones are laid in the folder, in small ones."""
        if sources * LARGER >= parts:
            return self
        finer = self.model_copy(update={"parts": parts})
        finer._folder = folder
        return finer

    def sources(self, parallel: int) -> Sequence[ParquetSource]:
        """Whole row groups, a few parts per task that can run at once, of a size that the constants above bound."""
        files = self.files()
        groups = [piece for file in files for piece in row_groups(file)]
        sizes = [sum(int(footer(piece.path).row_group(group).total_byte_size) for group, _ in piece.groups()) for piece in groups]
        total = sum(sizes)
        arrays = self._arrays(files)
        least, most = (GENOTYPE_BYTES_LEAST, GENOTYPE_BYTES_MOST) if arrays else (PART_BYTES_LEAST, PART_BYTES_MOST)
        differ = any(_names(file) != _names(files[0]) for file in files[1:])
        columns = self._table({file: _columns(file) for file in files}) if differ else _columns(files[0])
        held = 0 if arrays else sum(piece.rows for piece in groups) * row_bytes(Schema(pl.Schema(columns)))
        rounds = max(total, held) // (parallel * most) + 1  # texts of few kinds take a bit each in a file
        wanted = self.parts or max(min(parallel, total // least + 1), parallel * rounds if rounds > 1 else 1)
        if self.parts and wanted > len(groups):
            if self._folder and not arrays:
                groups = in_small_ones(groups, wanted, self._folder, checksums=self.checksums)
            groups = [some for piece in groups for some in cut(piece, -(-wanted // len(groups)))]
            sizes = [piece.rows for piece in groups]
        folders = self._folders(files)
        table = tuple(columns.items()) if differ else ()
        return [
            ParquetSource(
                tuple(bunch), arrays, not arrays, {piece.path: folders.get(piece.path, ()) for piece in bunch}, table, self.checksums
            )
            for bunch in bunches(groups, sizes, wanted)
        ]


class ParquetOutput(OutputFormat):
    """Parquet; of a genotype table the variants' rows, and its genotypes too with `calls: true`."""

    name = "parquet"
    suffix = ".parquet"
    calls: bool = Field(
        False, description="Of a genotype table, write the genotypes too, as one binary column: calls of two bits each, dosages as float32."
    )
    compression: Literal["auto", "zstd", "snappy", "lz4", "uncompressed"] = Field(
        "auto",
        description="auto: zstd of level 1, a tenth larger than `zstd` (3) and written in three quarters of the time; genotypes by lz4, "
        "which are half as large again and read twice as fast.",
    )
    partition_by: tuple[ColumnName, ...] = Field(
        (),
        description="Columns that folders KEY=VALUE say, as Hive, Spark and DuckDB have them, in this order; the files have the others.",
    )

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for columns that folders cannot say."""
        if self.partition_by:
            check_folders(schema, columns, self.partition_by)
            if self.calls:
                raise JobError("genotypes are not written to folders. Take calls or partition_by away.")

    def write_all(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Sequence[tuple[str, int]]:
        """Write one part to that path, or to the folders of its rows beside it; without rows to the folder of missing values."""
        if not self.partition_by:
            return super().write_all(part, axes, path)
        written = []
        for file, rows in in_folders(with_features(part, axes), self.partition_by, path):
            self.write(Part(rows), {}, file)
            written.append((file, rows.height))
        return written

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part; arrays of features become columns named by their axis, a missing one (NaN) null."""
        frame = with_features(part, axes)
        genotypes = {name: to_host(array) for name, array in part.arrays.items() if name in GENOTYPES}
        if self.calls and genotypes:
            write_genotypes(Part(frame, genotypes), axes[next(iter(genotypes))], self.compression, path)
        else:
            codec = "zstd" if self.compression == "auto" else self.compression
            level = 1 if self.compression == "auto" else None
            frame.write_parquet(path, compression=codec, compression_level=level, row_group_size=ROW_GROUP)

    def scan_together(self, paths: Sequence[str]) -> pl.LazyFrame | None:
        """One scan, unless folders say columns."""
        return None if self.partition_by else pl.scan_parquet(list(paths))

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The file's rows, the columns of its folders last; it knows its types."""
        return with_folder_columns(pl.scan_parquet(source), written_folders(rest, dtypes) if self.partition_by else ())
