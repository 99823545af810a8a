"""What a file format is: an `InputFormat` that says what its files hold before reading them, an `OutputFormat` that writes a part.

A `JoinedOutput` is an output of one file (or set of files) from all parts. One file under formats/ a format, named like it, with a class
of either kind or both. A file's schema comes from its footer or header.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import polars as pl
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from pipeline.errors import InputError, near
from pipeline.files import absolute, beside, exists, folder_values, is_folder, is_url, local_path, matching, names, parent, stamp
from pipeline.pieces import need_pieces
from pipeline.tables.bad_rows import Sieve
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.steps import Source
from pipeline.urls import openly

Paths = Annotated[
    tuple[str, ...],
    Field(min_length=1, description="A file, a folder, a pattern with * or a list of these."),
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    AfterValidator(lambda paths: tuple(map(openly, paths))),
]


@dataclass(frozen=True)
class Mark:
    """A fact of an input: tables that come from inputs of two values never meet in a stage.

    `kind` is what such facts are called (genome builds); `remedy` ends the refusal: why two do not fit, and what to do.
    """

    kind: str
    value: str
    remedy: str = field(compare=False)


class InputFormat(BaseModel):
    """How to read some files as one table."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    name: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()  # which files of a folder are meant
    asides: ClassVar[frozenset[str]] = frozenset({"path", "parts", "limits", "max_bad_rows"})  # keys that say nothing of the rows
    in_pieces: ClassVar[bool] = False  # whether a part reads a stretch of a file, which may be far larger than memory
    dense: ClassVar[bool] = False  # whether files are as large in memory as on the disk: nothing packed, no text
    reads_folders: ClassVar[bool] = False  # whether folders KEY=VALUE make columns
    counts: ClassVar[Mapping[str, Count]] = {}  # the words for what is counted while it reads

    path: Paths
    parts: int | None = Field(None, ge=1, le=100_000, description="Parts to cut the table into; chosen by size where it is not given.")

    def files(self) -> list[str]:
        """The files meant, in order. Raises InputError where a path names none, an empty one, or a URL that the format cannot read."""
        found = [file for path in self.path for file in self._expand(path)]
        if empty := [file for file in found if stamp(file).size == 0]:
            raise InputError(f"{empty[0]}: the file is empty")
        if not self.reads_folders and len(values := {str(folder_values(file)): file for file in found}) > 1:
            what = f"{self.name} files make no columns of folders KEY=VALUE, so what these say would be lost"
            raise InputError(f"{', '.join(list(values.values())[:2])}: {what}. Read each folder as an input of its own.")
        return found

    def content(self) -> list[str]:
        """Every file that the rows come from: those meant, and those that lie beside them."""
        return self.files()

    def pinned(self) -> Self:
        """The same reader of the files that are there now: its patterns and folders are looked up once, here."""
        return self.model_copy(update={"path": tuple(self.files())})

    def _expand(self, given: str) -> list[str]:
        path = local_path(given)
        if self.in_pieces:
            need_pieces(path)
        if is_folder(path):
            return self._inside(path)
        if exists(path):
            return [path]
        if glob.has_magic(path):
            if matched := matching(path):
                return matched
            raise InputError(f"{path}: no file matches this pattern")
        folder = parent(path)
        gone = f" The folder {folder} does not exist."
        lost = " Is the path right, and may it be seen with the credentials here?" if is_url(path) else gone
        hint = near(path.rpartition("/")[2], names(folder)) if is_folder(folder) else lost
        raise InputError(f"{path}: no such file.{hint}")

    def _inside(self, folder: str) -> list[str]:
        """The files of a folder, and those of its folders KEY=VALUE. Raises InputError where there are none."""
        found = self._files_of(folder)
        if not found:
            deeper = [name for name in names(folder) if is_folder(beside(folder, name))]
            what = f"{folder}: the folder has no file that ends in {' or '.join(self.suffixes)}"
            inner = f", and folders ({', '.join(deeper[:3])}). A pattern reaches into them: {beside(folder, '**/*' + self.suffixes[0])}"
            raise InputError(what + (inner if deeper else ""))
        return found

    def _files_of(self, folder: str) -> list[str]:
        inside = names(folder)
        found = [file for name in inside if name.endswith(self.suffixes) and exists(file := beside(folder, name))]
        deeper = [path for name in inside if "=" in name and is_folder(path := beside(folder, name))]
        return found + [file for path in deeper for file in self._files_of(path)]

    def table_schema(self) -> Schema:
        """The table's schema, from footers and headers alone. Raises InputError for what is not such a file."""
        raise NotImplementedError(f"{type(self).__name__} has no table_schema")

    def sieves(self, parallel: int) -> Sequence[Sieve]:
        """What takes bad rows aside, where the job wants that and the format has such."""
        return ()

    def axes(self) -> Mapping[str, pl.DataFrame]:
        """Per array, the frame that labels its second axis (`calls`: the samples)."""
        return {}

    def sources(self, parallel: int) -> Sequence[Source]:
        """One source a part; `parallel` is how many tasks can run at once."""
        raise NotImplementedError(f"{type(self).__name__} has no sources")

    def finer(self, sources: int, parts: int, folder: str) -> Self:
        """The same reader in about so many parts instead of `sources`, where they cost little; `folder` is for what they lay on disk."""
        return self

    def absolute(self) -> Self:
        """The same reader with absolute paths."""
        return self.model_copy(update={"path": tuple(absolute(path) for path in self.path)})

    def keeps_table(self) -> bool:
        """Whether the job wants the table kept as Parquet and read from there (running/kept_inputs.py)."""
        return False

    def rows(self) -> int | None:
        """The number of rows where the files say it without being read."""
        return None

    def infinities(self) -> Callable[[], int] | None:
        """What counts, in a task, the infinite values that are read as missing; None where there can be none."""
        return None

    def about(self) -> Mapping[str, Any]:
        """What the record of a run says of this input beside its rows: the version of a table that keeps several, say."""
        return {}

    def state(self) -> Sequence[str]:
        """What the rows are known by beside the files that they come from: the state of a database, say."""
        return ()

    def marks(self) -> Sequence[Mark]:
        """Facts that the rows of another input must share before they may meet in a stage."""
        return ()


class CostlySource:
    """Base of sources that it costs more to read twice than to hold, of files without statistics."""

    @property
    def cheap(self) -> bool:
        """Never."""
        return False

    def interval(self, column: str) -> None:
        """Not known."""


def even_ranges(rows: int, parts: int) -> list[tuple[int, int]]:
    """First row and number of rows of each of so many parts, as even as can be."""
    return [(low, high - low) for low, high in pairwise(rows * i // parts for i in range(parts + 1))]


class OutputFormat(BaseModel):
    """How to write a table's parts, one file each."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    name: ClassVar[str] = ""
    suffix: ClassVar[str] = ""

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError, at plan time, for a table of which these columns, and its arrays, cannot be written so."""

    def made_by(self, digests: Mapping[str, str]) -> OutputFormat:
        """This writer for a run of which these digests of its certificate are known: a format may have room for them."""
        return self

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part to a local path that does not exist yet."""
        raise NotImplementedError(f"{type(self).__name__} has no write")

    def write_all(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Sequence[tuple[str, int]]:
        """Write one part to that path, or to files of that name in folders beside it; each with its rows."""
        self.write(part, axes, path)
        return [(path, part.frame.height)]

    def deliver(self, files: Sequence[str], run: str) -> None:
        """Bring the files, once they are published, to where the output says, if it says so; RunError where that fails."""

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame | None:
        """The rows of a file that was written, for the report; None where it holds none that a report can read.

        `source` is its path or its bytes, `rest` its name after the output's (with folders KEY=VALUE that it lies in), `dtypes` are those
        of the table's plain columns.
        """
        return None

    def scan_together(self, paths: Sequence[str]) -> pl.LazyFrame | None:
        """The rows of all files of an output on this machine as one scan, which has few of them in memory; None where each is its own.

        Scans that are put below one another are all read at once (docs/platform.md).
        """
        return None


@dataclass(frozen=True)
class Piece:
    """What one part gave for the final files: files `path.MEMBER`, and the rows of each; members of one name make one final file."""

    path: str
    rows: Mapping[str, int]

    def file(self, member: str) -> str:
        """The path of a member's file."""
        return f"{self.path}.{member}"

    def files(self) -> list[str]:
        """The paths of all members' files."""
        return [self.file(member) for member in self.rows]


class JoinedOutput(OutputFormat):
    """How to write a table as one file, or one set of files, whatever its parts: pieces of each part, then all of them put together."""

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """Write a part's pieces, local files `path.MEMBER` that do not exist yet; the rows of each member."""
        raise NotImplementedError(f"{type(self).__name__} has no write_piece")

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """Write the final files, each named `stem` and an ending, from the pieces in order; the rows of each by its ending.

        It may run twice at once: files are written by `formats/_joined`, or are as small as one write. Rows are None for what is no table.
        """
        raise NotImplementedError(f"{type(self).__name__} has no join")
