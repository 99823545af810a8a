"""Rows on the disk of the machine, for tables that memory does not hold: whole parts, and parts cut into pieces.

A part that is laid down is one file of Arrow's, scanned as any file is, and one of NumPy's for each array. A part that is cut is one file
of all its pieces, one behind the other, each of which is read alone. Names are new for every attempt: Dask may run a task twice, and what
it gave last is what counts.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import to_host
from pipeline.errors import RunError
from pipeline.results.full import SPILLED, on_disk_of
from pipeline.tables.part import Part, concat_parts

BUFFER = 1 << 20  # bytes that are written at once
WHOLE = {pl.Int16, pl.Int32, pl.Int64, pl.UInt16, pl.UInt32, pl.UInt64}


@dataclass(frozen=True)
class Laid:
    """A part on disk. `arrays` are the names of those that lie beside its frame."""

    path: str
    rows: int
    nbytes: int
    counts: Mapping[str, int] = field(default_factory=dict)
    arrays: tuple[str, ...] = ()

    @property
    def cheap(self) -> bool:
        """Always: projections and filters reach it."""
        return True

    def load(self) -> pl.LazyFrame | Part:
        """A scan, or the part where it has arrays."""
        return self.read() if self.arrays else pl.scan_ipc(self.path)

    def read(self, columns: Sequence[str] = ()) -> Part:
        """The part itself, or these columns of it; without its counts, which are known since it was laid down."""
        rows = pl.scan_ipc(self.path)
        frame = (rows.select(columns) if columns else rows).collect(engine="in-memory")
        return Part(frame, {name: np.load(_beside(self.path, name), allow_pickle=False) for name in self.arrays})

    def interval(self, column: str) -> None:
        """Not known."""


class Stack:
    """Rows of parts that are laid on disk, one behind the other, or some of their columns: a part of them is in memory at a time."""

    def __init__(self, parts: Sequence[Laid], columns: Sequence[str] = ()) -> None:
        """All columns where none are named."""
        self.rows = sum(part.rows for part in parts)
        self._parts, self._columns = parts, columns
        self._ends = list(accumulate(part.rows for part in parts))
        self._last: tuple[int, pl.DataFrame] | None = None  # who goes over the rows finds the part there that the rows before ended in

    def __getitem__(self, at: slice) -> pl.DataFrame:
        """Some rows that follow one another."""
        start, stop, _ = at.indices(self.rows)
        first, last = bisect_right(self._ends, start), bisect_left(self._ends, stop)
        pieces = (
            [(number, self._ends[number] - self._parts[number].rows) for number in range(first, last + 1)] if start < stop else [(0, 0)]
        )
        return pl.concat([self._part(number)[max(0, start - begin) : max(0, stop - begin)] for number, begin in pieces])

    def _part(self, number: int) -> pl.DataFrame:
        if self._last is None or self._last[0] != number:
            self._last = None  # before the next one is read
            self._last = number, self._parts[number].read(self._columns).frame
        return self._last[1]


@dataclass(frozen=True)
class Cut:
    """A part on disk, cut into pieces: `ends[i]` is where piece i ends in the file, `heights[i]` its rows, `sizes[i]` its bytes in memory.

    `none` has its columns and no rows.
    """

    path: str
    ends: tuple[int, ...]
    heights: tuple[int, ...]
    sizes: tuple[int, ...]
    none: pl.DataFrame
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Of all pieces."""
        return sum(self.heights)

    @property
    def nbytes(self) -> int:
        """Bytes of all pieces in memory."""
        return sum(self.sizes)

    def piece(self, number: int) -> pl.DataFrame:
        """One of them, its whole numbers as they were written (`narrow`). Raises RunError where it is not what was written."""
        begin, end = (self.ends[number - 1] if number else 0), self.ends[number]
        with Path(self.path).open("rb", buffering=0) as file:
            file.seek(begin)
            content = file.read(end - begin)
        frame = pl.read_ipc_stream(content)
        if frame.height != self.heights[number]:
            raise RunError(f"an exchange on disk wrote {self.heights[number]:,} rows, and {frame.height:,} were read. Please report this.")
        return frame


def lay(part: Part, folder: str) -> Laid:
    """The part, written to files of its own."""
    path = _new(folder, "part")
    with on_disk_of(folder, SPILLED):
        part.frame.rechunk().write_ipc(path, compression="lz4", compat_level=pl.CompatLevel.oldest())
        for name, array in part.arrays.items():
            np.save(_beside(path, name), to_host(array), allow_pickle=False)
    return Laid(path, part.rows, part.nbytes, part.counts, tuple(part.arrays))


def cut(part: Part, bucket: pl.Series, pieces: int, folder: str, *, compiled: bool = True) -> Cut:
    """The part, whose rows go to the pieces that `bucket` [rows] says (whole numbers below `pieces`); within one they keep their order.

    `compiled`: whether compiled code may be loaded for it, which takes a quarter of the time and 80 MB of the process.
    """
    numbers = bucket.cast(pl.UInt64).to_numpy()
    order, heights = (_counted if compiled else _sorted)(numbers, pieces)
    rows = pl.Series(order)
    frame = pl.DataFrame([column.rechunk().gather(rows) for column in narrow(part.frame)])
    return _written(part, frame, heights.tolist(), folder)


def _counted(numbers: NDArray[np.uint64], pieces: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Rows in the order of their pieces, and within one as they are, and how many each has."""
    from pipeline.kernels.compiled.pieces import in_pieces

    heights, order = np.zeros(pieces, np.int64), np.empty(len(numbers), np.uint32)  # as many rows as a frame of Polars can have
    in_pieces(numbers, heights, np.empty(pieces, np.int64), order)
    return order, heights


def _sorted(numbers: NDArray[np.uint64], pieces: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The same: numbers of 8 and 16 bits NumPy sorts by counting them."""
    order = np.argsort(numbers.astype(np.min_scalar_type(pieces)), kind="stable").astype(np.uint32)
    return order, np.bincount(numbers.astype(np.int64), minlength=pieces)


def _written(part: Part, frame: pl.DataFrame, heights: Sequence[int], folder: str) -> Cut:
    if sum(heights) != frame.height:
        raise RunError(f"a part of {frame.height:,} rows was cut into {sum(heights):,}. Please report this.")
    path, ends, sizes = _new(folder, "cut"), list[int](), list[int]()
    held = part.nbytes / max(1, part.rows)  # bytes of a row
    with on_disk_of(folder, SPILLED), Path(path).open("wb", buffering=BUFFER) as file:
        for first, last in pairwise(accumulate(heights, initial=0)):
            piece = frame[first:last]
            if last > first:
                piece.write_ipc_stream(file, compression="lz4", compat_level=pl.CompatLevel.oldest())
            ends.append(file.tell())
            sizes.append(round(held * piece.height))
    return Cut(path, tuple(ends), tuple(heights), tuple(sizes), part.frame.clear(), part.counts)


def narrow(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with whole numbers in as few bytes as hold them: quicker than to compress them, and as small."""
    return frame.with_columns(column.shrink_dtype() for column in frame if column.dtype in WHOLE)


def joined(cuts: Sequence[Cut], numbers: Sequence[int]) -> Part:
    """These pieces of all parts as one part, piece by piece, and each part by part, in order."""
    frames = [one.piece(number) for number in numbers for one in cuts if one.heights[number]]
    if not frames:
        return Part(cuts[0].none)
    schema = cuts[0].none.schema
    alike = all(frame.schema == frames[0].schema for frame in frames)
    whole = concat_parts([Part(frame if alike else _as(frame, schema)) for frame in frames])
    return Part(_as(whole.frame, schema))


def _as(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The frame with columns of these types."""
    return pl.DataFrame([column.cast(schema[column.name]) for column in frame])


def _beside(path: str, array: str) -> str:
    return f"{path}.{array}.npy"


def _new(folder: str, what: str) -> str:
    return str(Path(folder) / f"{what}-{secrets.token_hex(8)}.arrow")
