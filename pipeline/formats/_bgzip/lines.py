"""The whole lines of a range of a text file that is plain, gzip or bgzip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from isal import igzip, isal_zlib

from pipeline.bounds import DEFAULTS, Bounds, bounded
from pipeline.errors import InputError
from pipeline.files import stamp
from pipeline.formats._bgzip.blocks import BLOCK_MOST, Kind, TextRange, file_kind, read_block, reading
from pipeline.formats._bgzip.search import blocks_at
from pipeline.pieces import open_pieces

CHUNK_BYTES = 4 << 20
TEXT_BYTES = 1 << 20


@contextmanager
def open_text(path: str | Path, kind: Kind, limits: Bounds = DEFAULTS) -> Iterator[BinaryIO]:
    """The text of a file from its beginning, inflated where it is gzip or bgzip; reading past its limits raises InputError."""
    with open_pieces(path) as file:
        if kind == "plain":
            yield bounded(str(path), file, limits)
        else:
            with igzip.open(file, "rb") as text:
                yield bounded(str(path), text, limits, stamp(path).size if kind == "gzip" else None)


def read_lines(part: TextRange, limits: Bounds = DEFAULTS) -> Iterator[bytes]:
    """The lines that begin in a range, in chunks of whole lines of about 4 MiB.

    Each chunk ends with a line end, but for the last of a file that has none. Memory is a few chunks, or a few times the longest line.
    InputError where the data are cut or damaged, or beyond the limits.
    """
    with reading(part.path):
        yield from _chunks(part, limits)


def read_text(path: str, kind: Kind, limits: Bounds = DEFAULTS) -> Iterator[bytes]:
    """The text of a file from its beginning, a megabyte at most at a time, wherever its lines end. InputError as for lines."""
    with reading(path):
        if kind == "bgzf":
            yield from (text for text, _ in bgzf_pieces(TextRange(path, kind, 0, stamp(path).size)))
            return
        with open_text(path, kind, limits) as file:
            while text := file.read(TEXT_BYTES):
                yield text


def _chunks(part: TextRange, limits: Bounds) -> Iterator[bytes]:
    """The lines that begin in a range: text up to the first line end belongs to the range before, and the last line is read to its end."""
    pending: list[bytes] = []
    size, before_first_line = 0, part.before >= 0 or part.is_cut
    for text, inside in _pieces(part, limits):
        if before_first_line:
            if not inside:
                return
            line_end = text.find(b"\n")
            before_first_line = line_end < 0
            text = text[line_end + 1 :] if line_end >= 0 else b""
        if not inside:
            if not pending or pending[-1].endswith(b"\n"):
                break
            text = text[: text.find(b"\n") + 1] or text
        if text:
            pending.append(text)
            size += len(text)
        # Joining only where a line ended keeps a line that is longer than a chunk from being copied again with every piece of it.
        if size >= CHUNK_BYTES and (cut := text.rfind(b"\n") + 1):
            yield b"".join([*pending[:-1], text[:cut]])
            pending, size = ([text[cut:]], len(text) - cut) if cut < len(text) else ([], 0)
        limits.need_line(part.path, size - CHUNK_BYTES)
    if pending:
        yield b"".join(pending)


def _pieces(part: TextRange, limits: Bounds) -> Iterator[tuple[bytes, bool]]:
    """Text from the byte before a range to the end of the file, piece by piece, and whether each lies in the range."""
    if part.kind == "bgzf":
        yield from bgzf_pieces(part)
        return
    if part.kind == "gzip":
        with open_text(part.path, part.kind, limits) as unpacked:
            while text := unpacked.read(CHUNK_BYTES):
                yield text, True
        return
    with open_pieces(part.path) as file:
        at = max(part.before, 0)
        file.seek(at)
        while text := file.read(min(CHUNK_BYTES, part.end - at) if at < part.end else 1 << 16):
            yield text, at < part.end
            at += len(text)


def bgzf_pieces(part: TextRange) -> Iterator[tuple[bytes, bool]]:
    """The text of each block of a range and of those after it, up to the file's end, and whether the block lies in the range."""
    with open_pieces(part.path, 1 << 20) as file:
        start, before = blocks_at(file, part.path, part.start) if part.is_cut else (part.start, part.before)
        at, skip = start if before < 0 else before, part.skip
        file.seek(at)
        while block := read_block(file, part.path, at):
            text = isal_zlib.decompress(block, wbits=31, bufsize=1 << 16)
            if len(text) > BLOCK_MOST:  # what makes a bomb of it impossible, so that only lines have a bound
                raise InputError(f"{part.path}: the bgzip block at byte {at} holds {len(text):,} bytes, and none holds more than 64 KiB")
            if at < start:
                yield text[-1:], True
                at = start
                file.seek(at)
            else:
                yield text[skip:] if skip else text, at < part.end
                at, skip = at + len(block), 0


def whole_text(path: str, limits: Bounds = DEFAULTS) -> str:
    """All of a file's text; bytes that are no UTF-8 are replaced."""
    return b"".join(read_lines(TextRange(path, file_kind(path), 0, stamp(path).size), limits)).decode(errors="replace")
