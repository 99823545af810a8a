"""A part: what one task holds. A frame, and the arrays that ride along with its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module
from pipeline.backend.devices import Backend
from pipeline.backend.frames import DeviceFrame
from pipeline.errors import RunError
from pipeline.tables.columns import AXES
from pipeline.tables.counts import is_once

# Of two threads that are the first of a process to make a frame of columns, one may fail in Polars (its issue 29121: "dictionary changed
# size during iteration"). Whoever loads this has made one.
pl.DataFrame([pl.Series()])

# While a query runs over a frame with arrays, this column remembers which row of the arrays each row of the frame is.
ROW = "__row__"

LISTED = 100
"""Columns that a line names; of more it says how many."""
VIEW_BYTES, WITHIN = 16, 12  # of a text in memory, and how many letters lie in them: longer texts lie apart


@dataclass(frozen=True)
class Schema:
    """A table's shape: the columns of its frame, and per array the columns of the frame that labels its second axis."""

    columns: pl.Schema
    arrays: Mapping[str, pl.Schema] = field(default_factory=dict)

    def __str__(self) -> str:
        arrays = [f"{name}[{AXES[name]}: {', '.join(axis)}]" for name, axis in self.arrays.items()]
        columns = [f"{name} {dtype}" for name, dtype in self.columns.items()]
        return ", ".join(filter(None, [listed(columns), *arrays]))


def listed(words: Sequence[str]) -> str:
    """The words, or the first of very many and how many more there are."""
    more = [f"and {len(words) - LISTED:,} more"] if len(words) > LISTED + 1 else []
    return ", ".join([*words[: LISTED if more else None], *more])


@dataclass(frozen=True)
class Part:
    """A frame and its arrays: `arrays[name]` is [rows of the frame, ...], NumPy or CuPy.

    The frame is of the host, or lies on the GPU where the run leaves frames there; whoever asks for `frame` has it on the host.
    `counts` are what a task counted on the way (rows that a join lost, sites that a reader split): a step gives its own by plain names,
    and the tree that runs it puts the stage's name before them, so that they add up over parts and stages for the record.
    `beside` is what the part's task found beside its rows, from what it read for them: for a reduction over the table as it was made.
    What is made of the part does not have it.
    """

    held: pl.DataFrame | DeviceFrame
    arrays: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    beside: Any = None

    @property
    def frame(self) -> pl.DataFrame:
        """The frame on the host."""
        return self.held if isinstance(self.held, pl.DataFrame) else self.held.on_host

    def seen(self, names: Sequence[str]) -> pl.DataFrame:
        """Some columns of the frame on the host: of one on a GPU these alone come."""
        return self.held.seen(names) if isinstance(self.held, DeviceFrame) else self.held.select(names)

    @property
    def rows(self) -> int:
        """Rows of the frame."""
        return int(self.held.height)

    @property
    def nbytes(self) -> int:
        """Bytes held: the frame's and the arrays'."""
        held = self.held.estimated_size() if isinstance(self.held, DeviceFrame) else frame_size(self.held)
        return held + sum(int(array.nbytes) for array in self.arrays.values())

    @property
    def on_device(self) -> bool:
        """Whether its arrays lie on a GPU, all of them, or its frame."""
        return isinstance(self.held, DeviceFrame) or self.arrays_on_device

    @property
    def arrays_on_device(self) -> bool:
        """Whether its arrays lie on a GPU; those of one part lie all on one side."""
        return any(array_module(array) is not np for array in self.arrays.values())

    def lazy(self, backend: Backend) -> pl.LazyFrame:
        """The frame for a query on that backend: where it lies, if the query's engine can read it there."""
        return self.held.lazy() if backend == "gpu" else self.frame.lazy()

    def with_frame(self, frame: pl.DataFrame | DeviceFrame) -> Part:
        """The part after a query on its frame: where `frame` still has the row column the arrays follow it, else they are dropped."""
        if ROW not in frame.columns:
            return Part(frame, {}, self.counts)
        rows: Any
        if isinstance(frame, DeviceFrame):
            rows, frame = frame.taken_out(ROW)
        else:
            rows, frame = frame[ROW].to_numpy(), frame.drop(ROW)
        height = max((len(array) for array in self.arrays.values()), default=0)
        if len(rows) == height and bool((rows == array_module(rows).arange(height)).all()):
            return Part(frame, self.arrays, self.counts)
        return Part(frame, {name: take(array, rows) for name, array in self.arrays.items()}, self.counts)

    def replaced(self, frame: pl.DataFrame | None = None, **arrays: Any) -> Part:
        """This part with another frame of the same rows, or with some arrays replaced."""
        return Part(self.held if frame is None else frame, {**self.arrays, **arrays}, self.counts)


def take(array: Any, rows: Any) -> Any:
    """Rows of an array by index, on the array's own device."""
    return array[array_module(array).asarray(rows)]


def hidden(rows: pl.LazyFrame) -> list[str]:
    """The row column, where the frame has one: a `select` lists it too, so that the arrays follow."""
    return [ROW] if ROW in rows.collect_schema().names() else []


def added_counts(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Sum of several parts' counts, name by name; those of the same rows count once."""
    total: dict[str, int] = {}
    for count in counts:
        for name, value in count.items():
            total[name] = max(total.get(name, 0), value) if is_once(name) else total.get(name, 0) + value
    return total


def concat_parts(parts: Sequence[Part]) -> Part:
    """One part of all rows in order; arrays are stacked along the rows. Frames keep their chunks (no copy)."""
    if len(parts) == 1:
        return parts[0]
    filled = [part for part in parts if part.rows] or [parts[0]]
    arrays = {name: array_module(filled[0].arrays[name]).concatenate([part.arrays[name] for part in filled]) for name in filled[0].arrays}
    whole = Part(pl.concat([part.frame for part in parts], rechunk=False), arrays, added_counts([part.counts for part in parts]))
    rows = sum(part.rows for part in parts)
    if any(found != rows for found in (whole.frame.height, *map(len, arrays.values()))):
        raise RunError(f"{len(parts)} parts of {rows:,} rows together came to {whole.frame.height:,}. Please report this.")
    return whole


def empty_part(schema: Schema) -> Part:
    """A part with no rows of that schema, as planning uses it; its arrays are [0, 0]."""
    return Part(schema.columns.to_frame(), {name: np.empty((0, 0), np.uint8) for name in schema.arrays})


def frame_size(frame: pl.DataFrame) -> int:
    """Bytes of a frame in memory. Polars counts of texts their letters, and not the 16 bytes that each has, in which short ones lie."""
    texts = [(column.estimated_size(), len(column)) for column in frame.select(pl.col(pl.String, pl.Binary))]
    beside = sum(VIEW_BYTES * rows - (letters if letters <= WITHIN * rows else 0) for letters, rows in texts)
    return int(frame.estimated_size() + beside)


def frame_bytes(frame: pl.DataFrame, compression: Literal["uncompressed", "lz4"] = "uncompressed") -> memoryview:
    """A frame as Arrow IPC; `oldest` because the newest level ships a sliced string column's whole buffers (docs/platform.md)."""
    sink = cast("Any", frame.rechunk().write_ipc(None, compression=compression, compat_level=pl.CompatLevel.oldest()))
    return cast("memoryview", sink.getbuffer())


def read_frame(buffer: Any) -> pl.DataFrame:
    """The frame that `frame_bytes` wrote: by a scan, whose reader is several times faster than `read_ipc` and does not copy the bytes."""
    return pl.scan_ipc(bytes(buffer)).collect(engine="in-memory")
