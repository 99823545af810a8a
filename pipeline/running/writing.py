"""The tasks that write an output: one a part, and one more that joins their pieces where the format is one file or set of files."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.errors import RunError
from pipeline.files import download
from pipeline.format import JoinedOutput, OutputFormat, Piece
from pipeline.job.spec import Output
from pipeline.results.full import on_disk_of
from pipeline.results.names import attempt_name
from pipeline.results.store import open_store
from pipeline.tables.measured import Measured
from pipeline.tables.ordering import in_order
from pipeline.tables.part import Part, Schema, hidden
from pipeline.tables.table import Table


def submit_output(table: Table, output: Output, expected: Schema | None, file: Callable[[str], str], stem: str = "part") -> list[Any]:
    """Submit the tasks that write an output; `file` gives the path of a name in the run's folder, `stem` begins the names.

    Futures of what was `Written`: one a part, or one of all parts where they are joined.
    """
    if output.sort_by:
        table = in_order(table, output.sort_by)
    if output.columns:
        table = table.map(_selected, list(output.columns))
    axes = [table.axes[array].value() for array in table.axes]
    paths = [file(f"{output.name}/" + attempt_name(f"{stem}-{number:05d}", output.writer.suffix)) for number in range(len(table.blocks))]
    tasks = [WriteTask(output.writer, path, expected, tuple(table.axes)) for path in paths]
    if not table.is_held and (table.is_beyond or table.session.backend == "cpu"):
        # by the task that makes it: parts that wait to be written fill the memory
        written = [table.session.evaluate_into(block, task, axes) for block, task in zip(table.blocks, tasks, strict=True)]
        if any(block.kind != "scan" for block in table.blocks):  # what lies on disk was measured as it was laid there
            table.session.measure(table.name, table.stage, written)
    else:
        pairs = zip(tasks, table.futures(), strict=True)
        written = [table.session.submit(task, part, axes, stage=table.stage, on_host=True) for task, part in pairs]
    if not isinstance(output.writer, JoinedOutput):
        return written
    join = JoinTask(output.writer, file(f"{output.name}/{output.name}"), tuple(table.axes))
    return [table.session.submit(join, axes, written, stage=table.stage, on_host=True)]


@dataclass(frozen=True)
class Written:
    """What a task wrote: path and rows of each final file (None for what is no table), a piece that is still to be joined, and its size."""

    files: Sequence[tuple[str, int | None]]
    piece: Piece | None
    measured: Measured

    @property
    def rows(self) -> int:
        """Of the table."""
        return self.measured.rows

    @property
    def nbytes(self) -> int:
        """In memory."""
        return self.measured.bytes

    @property
    def counts(self) -> Mapping[str, int]:
        """What was counted on the way."""
        return self.measured.counts


@dataclass(frozen=True)
class WriteTask:
    """Writes one part under a name that is this attempt's own: Dask may run a task twice, and the manifest decides what counts."""

    writer: OutputFormat
    path: str
    expected: Schema | None
    arrays: tuple[str, ...]

    def __call__(self, part: Part, axes: Sequence[Part]) -> Written:
        """The file written. Raises RunError where the part is not what the plan said it would be."""
        if self.expected is not None and part.frame.schema != self.expected.columns:
            raise RunError(f"{self.path}: the plan said {self.expected}, and the run gave {Schema(part.frame.schema)}. Please report this.")
        with on_disk_of(self.path.rpartition("/")[0]):
            return self._written(part, axes)

    def _written(self, part: Part, axes: Sequence[Part]) -> Written:
        path = f"{self.path.removesuffix(self.writer.suffix)}{secrets.token_hex(2)}{self.writer.suffix}"
        labels = {name: axis.frame for name, axis in zip(self.arrays, axes, strict=True)}
        with tempfile.TemporaryDirectory() as folder:
            local = path if "://" not in path else str(Path(folder) / path.rpartition("/")[2])
            written: Sequence[tuple[str, int]] = [(local, part.frame.height)]
            if isinstance(self.writer, JoinedOutput):
                piece: Piece | None = Piece(path, self.writer.write_piece(part, labels, local))
            else:
                written, piece = self.writer.write_all(part, labels, local), None
            rows = sum(found for _, found in written)
            if piece is None and rows != part.frame.height:
                raise RunError(f"{path}: {rows:,} rows were written of {part.frame.height:,}. Nothing was published. Please report this.")
            if local != path:
                _upload(Path(folder), path)
        beside = path.rpartition("/")[0]
        return Written(
            [(f"{beside}/{file[len(local.rpartition('/')[0]) + 1 :]}", rows) for file, rows in written], piece, Measured.of(part)
        )


@dataclass(frozen=True)
class JoinTask:
    """Puts the pieces of all parts, in order, into the final files. Run twice, it writes the same files again; pieces go at the commit."""

    writer: JoinedOutput
    stem: str
    arrays: tuple[str, ...]

    def __call__(self, axes: Sequence[Part], written: Sequence[Written]) -> Written:
        """The final files, and the sums over the parts."""
        with on_disk_of(self.stem.rpartition("/")[0]):
            return self._joined(axes, written)

    def _joined(self, axes: Sequence[Part], written: Sequence[Written]) -> Written:
        labels = {name: axis.frame for name, axis in zip(self.arrays, axes, strict=True)}
        pieces = [part.piece for part in written if part.piece is not None]
        with tempfile.TemporaryDirectory() as folder:
            stem = self.stem
            if "://" in stem:
                pieces, stem = _downloaded(pieces, folder), f"{folder}/{stem.rpartition('/')[2]}"
            files = self.writer.join(pieces, labels, stem)
            need_all(self.stem, pieces, files)
            if stem != self.stem:
                for piece in pieces:
                    for file in piece.files():
                        Path(file).unlink()
                _upload(Path(folder), self.stem)
        final = [(f"{self.stem}{end}", rows) for end, rows in files.items()]
        return Written(final, None, Measured.sum([part.measured for part in written]))


def need_all(stem: str, pieces: Sequence[Piece], files: Mapping[str, int | None]) -> None:
    """Raise RunError where a final file has other rows than the pieces of its member."""
    for end, rows in files.items():
        wanted = sum(piece.rows.get(end.removeprefix(".").removesuffix(".gz"), 0) for piece in pieces)
        if rows is not None and rows != wanted:
            raise RunError(f"{stem}{end}: {rows:,} rows were joined of {wanted:,}. Nothing was published. Please report this.")


def _upload(folder: Path, beside: str) -> None:
    """Copy the files of a local folder, and of those in it, to the folder of a URL, block by block."""
    store = open_store(beside.rpartition("/")[0])
    for file in sorted(found for found in folder.rglob("*") if found.is_file()):
        store.upload(file, file.relative_to(folder).as_posix())


def _downloaded(pieces: Sequence[Piece], folder: str) -> list[Piece]:
    """The pieces, their files copied from a URL to a local folder."""
    local = [Piece(f"{folder}/{piece.path.rpartition('/')[2]}", piece.rows) for piece in pieces]
    for there, here in zip(pieces, local, strict=True):
        for source, target in zip(there.files(), here.files(), strict=True):
            download(source, Path(target))
    return local


def _selected(rows: pl.LazyFrame, columns: list[str]) -> pl.LazyFrame:
    return rows.select(*columns, *hidden(rows))
