"""A file of another machine as a file: its bytes are asked for by ranges, as they are needed, and more at once the longer it is read on."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

FIRST, MOST = 64 << 10, 8 << 20  # bytes of a range: the first of what is read on, and the most, which is what is held


class Ranged(io.RawIOBase):
    """The bytes [start, end) are what `fetch(start, end)` gives; `first` are those that are there. Reading raises what `fetch` raises."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes], first: bytes = b"") -> None:
        self.size, self.fetch, self.at = size, fetch, 0
        self.held, self.held_at, self.ahead = first, 0, FIRST

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The next byte."""
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte, counted from the beginning, from here, or from the end."""
        self.at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence])
        return self.at

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes, at most as many as the buffer holds. Raises OSError where others come than were asked for."""
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self.size - self.at)
        if wanted <= 0:
            return 0
        if not self.held_at <= self.at < self.held_at + len(self.held):
            self._hold(wanted)
        found = memoryview(self.held)[self.at - self.held_at :][:wanted]
        view[: len(found)] = found
        self.at += len(found)
        return len(found)

    def readall(self) -> bytes:
        """Read all that is left."""
        begun = self.held[self.at - self.held_at :] if self.held_at <= self.at < self.held_at + len(self.held) else b""
        pieces, self.at = [begun], self.at + len(begun)
        while self.at < self.size:
            self._hold(MOST)
            pieces.append(self.held)
            self.at += len(self.held)
        return b"".join(pieces)

    def _hold(self, wanted: int) -> None:
        """Ask for the next bytes; what is read on is asked for in ranges twice as long each time."""
        reads_on = self.at == self.held_at + len(self.held)
        self.ahead = min(2 * self.ahead, MOST) if reads_on else FIRST
        end = min(self.at + min(max(wanted, self.ahead), MOST), self.size)
        self.held, self.held_at = self.fetch(self.at, end), self.at
        if len(self.held) != end - self.at:
            what = f"{len(self.held)} bytes came where {end - self.at} were asked for"
            self.held = b""
            raise OSError(f"{what}: was the file written anew?")
