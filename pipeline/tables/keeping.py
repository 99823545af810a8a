"""Parts that are kept in a checkpoint as they are made, and tables that are read from one.

A part is kept by the task that makes it, where that pays: a table that takes LEAST_S or more to make, at the rate of this part, and so long
that writing takes a twentieth of it at most. What takes less is sooner made again. Where the job asks for it, it is always kept.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter, time
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_host
from pipeline.results.stage_folder import File, Piece, StageFolder, own_stem
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.steps import Source, Step
from pipeline.tables.table import Fitted, Table

LEAST_S = 10.0
BYTES_A_SECOND = 10e6  # written for each second that making took: 200 MB/s for a twentieth of the time


@dataclass(frozen=True)
class Keep:
    """How a table's parts are kept: where, as what they are divided, whether always, and which parts are there already."""

    folder: StageFolder
    shape: str
    began: float  # of the run, in seconds since 1970
    always: bool = False
    known: frozenset[str] = frozenset()

    def table(self, table: Table, *, held: bool = True) -> Table:
        """The table, whose parts are kept as they are made; each by a task of its own, if it is `held`, else by whoever uses it."""
        whole = len(table.blocks)
        blocks = tuple(
            Step("keep", table.stage, (block,), KeepPart(self, f"part-{number:05d}", whole, _is_made(block)))
            for number, block in enumerate(table.blocks)
        )
        kept = replace(table, blocks=blocks)
        return kept.hold() if held else kept

    def stems(self, stem: str) -> list[str]:
        """What is known to be there of a part."""
        return sorted(name for name in self.known if name.startswith(f"{stem}.{self.shape}."))


@dataclass(frozen=True)
class KeepPart:
    """Keeps one of so many parts; or finds that it was kept, by a run that came no further.

    `made`: tasks before have made it, and how long that took is not known: then the time since the run began counts.
    """

    keep: Keep
    stem: str
    parts: int
    made: bool = False

    def __call__(self, make: Callable[[], Part]) -> Part:
        """The part: read from where it was kept, else made."""
        for stem in self.keep.stems(self.stem):
            if found := self._found(stem):
                return found
        started = perf_counter()
        part = make()
        seconds = (time() - self.keep.began) / self.parts if self.made else perf_counter() - started
        if self.keep.always or (seconds * self.parts >= LEAST_S and part.nbytes <= seconds * BYTES_A_SECOND):
            keep_part(self.keep.folder, f"{self.stem}.{self.keep.shape}", part)
        return part

    def _found(self, stem: str) -> Part | None:
        piece = self.keep.folder.noted(stem)
        if piece is None:
            return None
        try:
            self.keep.folder.check([piece])
        except ValueError:  # torn by what killed the run that wrote it: it is made again
            return None
        source = KeptSource(self.keep.folder, piece, False)
        return replace(source.part(), counts=dict(piece.counts))


@dataclass(frozen=True)
class KeptSource:
    """A part in a checkpoint. `ranges` are the least and greatest value of columns, as they were known of the table that was kept."""

    folder: StageFolder
    piece: Piece
    cheap: bool
    ranges: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def load(self) -> pl.LazyFrame | Part:
        """A scan, or a part where there are arrays."""
        if self.piece.arrays or not self.folder.is_local:
            return self.part()
        return pl.scan_ipc(self.folder.path(self.piece.files[0].name))

    def part(self) -> Part:
        """The part."""
        frame = pl.read_ipc(self._source(self.piece.files[0]), memory_map=False)
        arrays = zip(self.piece.arrays, self.piece.files[1:], strict=True)
        return Part(frame, {name: np.load(self._source(file), allow_pickle=False) for name, file in arrays})

    def _source(self, file: File) -> Any:
        return self.folder.path(file.name) if self.folder.is_local else io.BytesIO(self.folder.read(file.name))

    def interval(self, column: str) -> tuple[Any, Any] | None:
        """As the sources of the table that was kept knew it."""
        return self.ranges.get(column)


def keep_part(folder: StageFolder, stem: str, part: Part) -> str | None:
    """Write a part; the name by which it was noted. None where that failed: nothing of it stays, and what lacks a part is no checkpoint."""
    own, written = own_stem(stem), list[str]()
    arrays = {name: np.ascontiguousarray(to_host(array)) for name, array in part.arrays.items()}
    contents = {f"{own}.arrow": partial(_frame, part.frame)} | {
        f"{own}.{name}.npy": partial(_array, array) for name, array in arrays.items()
    }
    try:
        files = []
        for name, content in contents.items():
            written.append(name)
            files.append(folder.write(name, content()))
        folder.note(own, Piece(tuple(files), part.frame.height, part.nbytes, dict(part.counts), tuple(arrays)))
    except OSError:
        folder.drop(written)
        return None
    return own


def kept_table(session: Session, stage: str, folder: StageFolder, document: Mapping[str, Any], schema: Schema) -> Table:
    """The table that a whole checkpoint holds, with all that was known of it but what stages before had learned."""
    cheap = session.backend != "gpu" and folder.is_local and not schema.arrays
    ranges = _ranges(folder, document)
    sources = [
        KeptSource(folder, Piece.of(piece), cheap, ranges[number] if ranges else {}) for number, piece in enumerate(document["parts"])
    ]
    axes = {name: Table.of(session, stage, [KeptSource(folder, Piece.of(piece), False)]) for name, piece in document["axes"].items()}
    written = None if document["written"] is None else frozenset(document["written"])
    return Table.of(session, stage, sources, schema=schema, axes=axes, written=written, spread=tuple(document["spread"]), as_read=False)


def fitted_of(
    session: Session, folder: StageFolder, document: Mapping[str, Any], parameters: Mapping[str, tuple[str, Any]]
) -> tuple[Fitted, ...]:
    """What stages before had learned and applied; `parameters` are the plan's, by the stage's name: which stage it is, and it."""
    found = []
    for name, *pieces in document["fitted"]:
        sources = [KeptSource(folder, Piece.of(piece), True) for piece in pieces]
        state = sources[0].part() if len(sources) == 1 else Table.of(session, name, sources)
        found.append(Fitted(name, *parameters[name], state))
    return tuple(found)


def known_ranges(table: Table) -> dict[str, list[Any]]:
    """Of the columns whose least and greatest value every part's sources tell, and which no step has written: these, part by part."""
    if not table.origins or table.written is None or table.schema is None:
        return {}
    found = {}
    for column in table.schema.columns.names():
        intervals = None if column in table.written else table.intervals(column)
        if intervals:
            found[column] = [bound for interval in intervals for bound in interval]
    return found


def _ranges(folder: StageFolder, document: Mapping[str, Any]) -> list[dict[str, tuple[Any, Any]]]:
    if document["ranges"] is None:
        return []
    frame = KeptSource(folder, Piece.of(document["ranges"]), False).part().frame
    values = frame.to_dict(as_series=False)
    return [{name: (of[row], of[row + 1]) for name, of in values.items()} for row in range(0, frame.height, 2)]


def _is_made(block: Step) -> bool:
    return block.kind == "read" and not isinstance(block.source, Source)


def _frame(frame: pl.DataFrame) -> list[Any]:
    sink = io.BytesIO()
    frame.rechunk().write_ipc(sink, compression="lz4")
    return [sink.getbuffer()]


def _array(array: np.ndarray[Any, Any]) -> list[Any]:
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=False)
    return [sink.getbuffer()]
