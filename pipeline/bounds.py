"""What a file may make of itself: the longest line of a text, and how much comes out of what is packed.

Four megabytes of gzip can hold four gigabytes, and a text can be one line without an end: whoever reads them believes their sizes, so
every reader reads them through these bounds, and refuses what goes beyond.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import InputError

FREE_BYTES = 256 << 20  # what a file may come to however small it is
PIECE_BYTES, NEAR_BYTES = 1 << 20, 1 << 14


class Bounds(BaseModel):
    """How much a file may come to. Past it the file is refused, by the name of the bound."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line_mib: int = Field(256, ge=1, le=65_536, description="The longest line of a text, and the longest header, in MiB.")
    inflation: int = Field(500, ge=1, description="How many times its own size a file may come to when unpacked; 256 MiB it always may.")
    inflated_gib: int = Field(64, ge=1, description="What a file that is unpacked from its beginning may come to, in GiB.")

    @property
    def line_bytes(self) -> int:
        """The longest line, or header, in bytes."""
        return self.line_mib << 20

    def room(self, size: int) -> int:
        """The bytes that a packed file of so many may come to."""
        return min(self.inflated_gib << 30, max(FREE_BYTES, self.inflation * size))

    def need_room(self, path: str, size: int, inflated: int) -> None:
        """Raise InputError where a packed file of `size` bytes comes to more than it may."""
        if inflated <= self.room(size):
            return
        is_ratio = inflated <= self.inflated_gib << 30
        most = f"{self.inflation:,} times its size" if is_ratio else f"{self.inflated_gib:,} GiB"
        key = "inflation" if is_ratio else "inflated_gib"
        what = f"has {size:,} bytes and comes to {inflated:,} or more when it is unpacked, and may come to {most}"
        raise InputError(f"{path}: {what}. Unpacked, is it what it should be? Then raise limits.{key} of the input.")

    def need_table(self, path: str, size: int, held: int) -> None:
        """Raise InputError where a file of `size` bytes says that its columns take so many: more than any real one would."""
        if held > max(FREE_BYTES, self.inflation * size):
            what = f"has {size:,} bytes and says that its columns take {held:,}, more than {self.inflation:,} times its size"
            raise InputError(f"{path}: {what}. Is it damaged? If it is right, raise limits.inflation of the input.")

    def need_line(self, path: str, length: int, what: str = "a line") -> None:
        """Raise InputError for a line, or a header, that is longer than one may be."""
        if length > self.line_bytes:
            raise InputError(f"{path}: has {what} of more than {self.line_mib:,} MiB. Is it this format? Then raise limits.line_mib.")

    def header(self, path: str, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines of a text as long as they are no more than a header may be. Raises InputError past it."""
        size = 0
        for line in lines:
            size += len(line)
            self.need_line(path, size, "a header")
            yield line


DEFAULTS = Bounds()


class _Bounded(io.RawIOBase):
    """Bytes as another file gives them, counted on the way."""

    def __init__(self, path: str, file: Any, bounds: Bounds, packed: int | None) -> None:
        self.path, self.file, self.bounds, self.packed = path, file, bounds, packed
        self.inflated = self.line = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes. Raises InputError past a bound."""
        view = memoryview(buffer).cast("B")[:PIECE_BYTES]
        size: int = self.file.readinto(view)
        self.inflated += size
        if self.packed is not None:
            self.bounds.need_room(self.path, self.packed, self.inflated)
        if (first := _first_end(view[:size])) < 0:
            self.line += size
        else:
            self.bounds.need_line(self.path, self.line + first)
            self.line = _first_end(view[:size][::-1])
        self.bounds.need_line(self.path, self.line)
        return size


def _first_end(text: memoryview) -> int:
    """Where the first line ends; below 0 where none does. Few bytes are looked at: lines are short."""
    few = text[:NEAR_BYTES].tobytes().find(b"\n")
    return few if few >= 0 or len(text) <= NEAR_BYTES else text.tobytes().find(b"\n")


def bounded(path: str, file: Any, bounds: Bounds, packed: int | None = None) -> io.BufferedReader:
    """The bytes of a text up to its bounds; `packed` is the size of the file that they are unpacked from, None where they lie plain.

    Reading raises InputError past a bound.
    """
    return io.BufferedReader(_Bounded(path, file, bounds, packed), PIECE_BYTES)
