"""Texts in stretches of whole rows, told by their bytes: each is read by itself, however much lies before it."""

from __future__ import annotations

import re
import tempfile
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, pairwise, starmap
from pathlib import Path
from typing import Protocol, Self, TypeVar

from isal import igzip
from pydantic import PrivateAttr

from pipeline.errors import InputError
from pipeline.files import exists, is_url, open_file, stamp
from pipeline.formats._bad_rows import SiftedInput
from pipeline.formats._csv_dialect import Dialect
from pipeline.formats._csv_text import BLOCK_BYTES, UNREADABLE, is_packed, unreadable, utf8_between, utf8_blocks
from pipeline.results.full import is_full

PACE = 8  # blocks a stretch in which a text is looked at, at least: it begins in one of them
FEW_LINES = 100  # of fewer nothing is concluded
AT_ONCE = 2  # pieces that are packed while the next one is read
PIECE_BYTES = 32 << 20  # of a text that cannot be sought in, where it is looked at piece by piece
UNPACKED = 3  # bytes of text for one of a packed file, about
_BEGINNING = re.compile(rb"\n(?=[^\r\n])")
_NOTHING = b"\r\n\xef\xbb\xbf"


@dataclass(frozen=True)
class Text:
    """The text of a file: in UTF-8, without skipped lines; what it was prepared to where that is no more all of the file."""

    path: str
    dialect: Dialect
    prepared: bytes | None = None

    @property
    def is_sought_in(self) -> bool:
        """Whether some of it is read without what lies before."""
        return self.prepared is not None or not (self.dialect.encoding != "utf-8" or is_url(self.path) or is_packed(self.path))

    def blocks(self, size: int) -> Iterator[bytes]:
        """It in blocks."""
        if (text := self.prepared) is not None:
            return (text[at : at + size] for at in range(0, len(text), size))
        return utf8_blocks(self.path, self.dialect, size)

    def between(self, start: int, stop: int) -> bytes:
        """Its bytes from one to before another. Raises DataError where they cannot be read."""
        return utf8_between(self.path, self.dialect, start, stop) if self.prepared is None else self.prepared[start:stop]


@dataclass(frozen=True)
class Stretch:
    """Some whole rows of a text: its bytes from `start` to before `stop`; `offset` rows lie before it, `rows` in it.

    `laid` is a file where they lie alone, gzipped.
    """

    start: int
    stop: int
    offset: int
    rows: int
    laid: str | None = None

    def read(self, text: Text) -> bytes:
        """Its bytes. Raises DataError where they cannot be read."""
        if self.laid is not None:
            return bytes(igzip.decompress(Path(self.laid).read_bytes()))
        return text.between(self.start, self.stop)


Counts = Callable[[bytes, bool], int]
"""The rows of some text, of which the second argument says whether it is the first."""


def stretches(text: Text, parts: int, rows: Counts, folder: str | None, *, quoted: bool) -> list[Stretch]:
    """So many stretches of a text, of about as many bytes each; empty ones where it has fewer rows.

    A text that is gone over to come to a row (packed, of another encoding, of another machine) is laid in the folder, where one is given,
    in about so many pieces. `quoted`: a line end between quotes ends no row. No stretch but the first begins with an empty line. Takes
    the memory of one. Raises InputError for a file that cannot be read.
    """
    try:
        return (
            _where_it_lies(text, parts, rows, quoted) if folder is None or text.is_sought_in else _laid(text, parts, rows, folder, quoted)
        )
    except UNREADABLE as error:
        if is_full(error):
            raise
        raise InputError(unreadable(text.path, error, text.dialect)) from error


def _where_it_lies(text: Text, parts: int, rows: Counts, quoted: bool) -> list[Stretch]:
    block = max(1, min(BLOCK_BYTES, stamp(text.path).size // (PACE * parts)))
    starts, size = row_starts(text.blocks(block), quoted=quoted)
    chosen = [bisect_left(starts, size * part // parts) for part in range(1, parts)]
    bounds = [0, *((*starts, size)[at] for at in chosen), size]
    texts = starmap(text.between, pairwise(bounds)) if text.is_sought_in else _texts(text.blocks(block), bounds)
    counts = [rows(found, number == 0) if found else 0 for number, found in enumerate(texts)]
    offsets = accumulate(counts, initial=0)
    return [Stretch(*bound, offset, count) for bound, offset, count in zip(pairwise(bounds), offsets, counts, strict=False)]


def _laid(text: Text, parts: int, rows: Counts, folder: str, quoted: bool) -> list[Stretch]:
    size = max(1, stamp(text.path).size * (UNPACKED if is_packed(text.path) else 1) // parts)
    place, counts, ends = tempfile.mkdtemp(prefix="text-", dir=folder), list[int](), [0]

    def lay(number: int, piece: bytes) -> int:
        """Its rows."""
        Path(place, f"{number}.gz").write_bytes(igzip.compress(piece, 1))
        return rows(piece, number == 0)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = deque[Future[int]]()
        for number, piece in enumerate(pieces(text.blocks(min(size, BLOCK_BYTES)), size, quoted=quoted)):
            ends.append(ends[-1] + len(piece))
            waiting.append(pool.submit(lay, number, piece))
            if len(waiting) > AT_ONCE:  # few pieces are in memory
                counts.append(waiting.popleft().result())
        counts += [future.result() for future in waiting]
    offsets = accumulate(counts, initial=0)
    of_each = zip(pairwise(ends), offsets, counts, strict=False)
    return [Stretch(*bound, offset, count, f"{place}/{number}.gz") for number, (bound, offset, count) in enumerate(of_each)]


def pieces(blocks: Iterable[bytes], size: int, *, quoted: bool) -> Iterator[bytes]:
    """A text in pieces of at least so many bytes, each but the last."""
    held, begin = bytearray(), 0
    for block, start in _marked(blocks, quoted=quoted):
        held += block
        if start is not None and start - begin >= size:
            yield bytes(held[: start - begin])
            del held[: start - begin]
            begin = start
    if held:
        yield bytes(held)


def bounds_of(blocks: Iterable[bytes], size: int, *, quoted: bool) -> list[tuple[int, int]]:
    """Where pieces of a text of at least so many bytes begin and end."""
    starts, end = row_starts(blocks, quoted=quoted)
    found = [0]
    for start in starts:
        if start - found[-1] >= size:
            found.append(start)
    return list(pairwise([*found, end]))


def row_starts(blocks: Iterable[bytes], *, quoted: bool) -> tuple[list[int], int]:
    """Where a row begins that is not empty, one a block at most and not the first of all, and the bytes of the text."""
    starts, size = list[int](), 0
    for block, start in _marked(blocks, quoted=quoted):
        size += len(block)
        if start is not None:
            starts.append(start)
    return starts, size


def _marked(blocks: Iterable[bytes], *, quoted: bool) -> Iterator[tuple[bytes, int | None]]:
    """Each block, and where in the text the first row begins in it, if one does."""
    at, inside, is_after_end, is_blank = 0, False, False, True
    for block in blocks:
        has_quotes = quoted and b'"' in block
        start = 0 if is_after_end and block[:1] not in b"\r\n" else _start(block, inside=inside, has_quotes=has_quotes)
        if start is not None and is_blank and not block[:start].strip(_NOTHING):
            start = None  # the first row of all
        yield block, None if start is None else at + start
        is_blank = is_blank and not block.strip(_NOTHING)
        inside ^= has_quotes and block.count(b'"') % 2 == 1
        at, is_after_end = at + len(block), block.endswith(b"\n") and not inside


def _start(text: bytes, *, inside: bool, has_quotes: bool) -> int | None:
    """Where the first row begins after a line end outside of quotes; None where none does."""
    at, pieces = 0, text.split(b'"') if has_quotes else [text]
    for number, piece in enumerate(pieces, 1):
        if not inside:
            if found := _BEGINNING.search(piece):
                return at + found.end()
            if piece.endswith(b"\n") and number < len(pieces):  # a row that begins with a quote
                return at + len(piece)
        at, inside = at + len(piece) + 1, not inside
    return None


def _texts(blocks: Iterable[bytes], bounds: Sequence[int]) -> Iterator[bytes]:
    """The text between each two bounds."""
    held, rest = bytearray(), iter(blocks)
    for start, stop in pairwise(bounds):
        while len(held) < stop - start:
            held += next(rest)
        yield bytes(held[: stop - start])
        del held[: stop - start]


class Cuts(Protocol):
    """A source of a text that can be cut."""

    def cut(self, parts: int, folder: str | None) -> Sequence[Self]:
        """So many sources of its rows, or about so many that lie in a folder."""


S = TypeVar("S", bound=Cuts)


class StretchedInput(SiftedInput):
    """Base of inputs of text, whose parts are stretches of it."""

    _folder: str | None = PrivateAttr(default=None)

    @property
    def is_prepared(self) -> bool:
        """Whether rows are left out before the text is scanned, all of which is then held."""
        return self.sifts

    def stored_bytes_of_row(self, path: str) -> float | None:
        """Bytes of a file for a line, by its beginning; None where it is packed, elsewhere, gone or of few lines."""
        if is_url(path) or not exists(path) or is_packed(path):
            return None
        with open_file(path) as file:
            beginning = file.read(BLOCK_BYTES)
        lines = beginning.count(b"\n")
        return len(beginning) / lines if lines >= FEW_LINES else None

    def finer(self, sources: int, parts: int, folder: str) -> Self:
        """In as many as are wanted: of plain text on this disk each reads its bytes, any other is laid there once, in pieces."""
        if self.is_prepared:
            return self
        finer = self.model_copy(update={"parts": parts})
        finer._folder = folder
        return finer

    def stretched(self, files: Sequence[S]) -> Sequence[S]:
        """A source a file, or `parts` of stretches of rows of about as many bytes."""
        if self.parts is None or self.parts <= len(files):
            return files
        return [piece for file in files for piece in file.cut(-(-self.parts // len(files)), self._folder)]
