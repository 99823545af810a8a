"""Text files that are plain, gzip or bgzip: which of these a file is, and the blocks of bgzip.

A bgzip file (BGZF, section 4.1 of the SAM specification) is a row of gzip members of at most 64 KiB text; the header of each holds its
compressed size (BSIZE), its last four bytes the size of its text.
"""

from __future__ import annotations

import gzip
import mmap
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_END
from pathlib import Path
from typing import BinaryIO, Literal, cast

from isal import igzip_lib

from pipeline.errors import InputError
from pipeline.files import is_url
from pipeline.pieces import open_pieces, why_unreadable

EOF_BLOCK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
BLOCK_MOST = 1 << 16  # bytes of a block, and of its text
TRUNCATED = "looks truncated: {}. Copy or download it again (the writer may also have been stopped before it was done)"
_GZIP_HEADER = 12  # ID1 ID2 CM FLG MTIME(4) XFL OS XLEN(2)
_BC_ROOM, _SUBFIELD_ROOM = 6, 512  # real writers give the extra field BC alone; others may stand before it

_IsalError = cast("type[Exception]", igzip_lib.IsalError)
Kind = Literal["plain", "gzip", "bgzf"]


@dataclass(frozen=True)
class TextRange:
    """The bytes [start, end) of a file: of its text where plain, of its compressed bytes (whole BGZF blocks) where bgzf, all where gzip.

    `before` is where the byte or the block before `start` begins, -1 where a line begins at `start`: its last byte tells whether one does.
    `skip` bytes of text, of a bgzf file, are left out before the first line. Where it `is_cut`, `start` and `end` are any bytes of a bgzf
    file, and the range has the blocks that begin between them.
    """

    path: str
    kind: Kind
    start: int
    end: int
    before: int = -1
    skip: int = 0
    is_cut: bool = False


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what the operating system and zlib say about a file into an InputError with its path."""
    try:
        yield
    except EOFError as error:
        raise InputError(f"{path}: {TRUNCATED.format('the gzip data stop in the middle')}") from error
    except (gzip.BadGzipFile, zlib.error, _IsalError) as error:
        raise InputError(f"{path}: the compressed data are damaged ({error}); copy or download it again") from error
    except OSError as error:
        raise InputError(f"{path}: {why_unreadable(path, error)}") from error


def file_kind(path: str | Path) -> Kind:
    """Whether a file is plain text, gzip or bgzip, by its first bytes.

    InputError where it is missing, empty, or a bgzip file without its end marker.
    """
    with reading(path), open_pieces(path) as file:
        head = file.read(_GZIP_HEADER + _SUBFIELD_ROOM)
        if not head:
            raise InputError(f"{path}: the file is empty; give a file with data or remove this input")
        if not head.startswith(b"\x1f\x8b"):
            return "plain"
        if block_size(head) is None:
            return "gzip"
        file.seek(max(0, file.seek(0, SEEK_END) - len(EOF_BLOCK)))
        if file.read() != EOF_BLOCK:
            raise InputError(f"{path}: {TRUNCATED.format('the block that ends every bgzip file is missing')}")
        return "bgzf"


def block_size(head: bytes) -> int | None:
    """Compressed bytes of the BGZF block that begins with `head`; None where it is no such block."""
    if len(head) < _GZIP_HEADER or head[:3] != b"\x1f\x8b\x08" or not head[3] & 4:
        return None
    at, stop = _GZIP_HEADER, _GZIP_HEADER + int.from_bytes(head[10:12], "little")
    while at + 4 <= stop:
        size = int.from_bytes(head[at + 2 : at + 4], "little")
        if head[at : at + 2] == b"BC" and size == 2 and at + 6 <= len(head):
            return int.from_bytes(head[at + 4 : at + 6], "little") + 1
        at += 4 + size
    return None


def blocks(path: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Offset and text bytes of every BGZF block that begins in [start, end) of a file, from its headers and trailers alone.

    From a URL all bytes between come. InputError where no block begins at `start`, or they do not lead from one to the next.
    """
    with open_pieces(path) as file:
        if is_url(path):
            file_bytes = file.seek(0, SEEK_END)
            file.seek(start)
            data = file.read((file_bytes if end is None else min(end + BLOCK_MOST, file_bytes)) - start)
            yield from _blocks(path, data, (start, start, end), file_bytes)
        else:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                yield from _blocks(path, view, (0, start, end), len(view))


def _blocks(path: str, view: mmap.mmap | bytes, places: tuple[int, int, int | None], file_bytes: int) -> Iterator[tuple[int, int]]:
    """The same of the bytes that are there; `places` are the first of these in the file, and where blocks begin and end."""
    there, at, end = places
    while at < (file_bytes if end is None else min(end, file_bytes)):
        begin = at - there
        size = block_size(view[begin : begin + _GZIP_HEADER + _BC_ROOM]) or block_size(view[begin : begin + _GZIP_HEADER + _SUBFIELD_ROOM])
        if size is None or at + size > file_bytes:
            raise InputError(f"{path}: {_bad_block(at, size, file_bytes)}")
        yield at, int.from_bytes(view[begin + size - 4 : begin + size], "little")
        at += size


def _bad_block(at: int, size: int | None, file_bytes: int) -> str:
    if size is None:
        return f"no bgzip block begins at byte {at}, where one must; the file is damaged, copy or download it again"
    return TRUNCATED.format(f"the bgzip block at byte {at} has {size} bytes and the file ends after {file_bytes - at} of them")


def read_block(file: BinaryIO, path: str, at: int) -> bytes:
    """The BGZF block that begins where the file stands, `at`; nothing at the end of the file."""
    head = file.read(_GZIP_HEADER)
    if not head:
        return head
    head += file.read(int.from_bytes(head[10:12], "little"))
    size = block_size(head)
    if size is None or size < len(head):
        raise InputError(f"{path}: {_bad_block(at, None, 0)}")
    block = head + file.read(size - len(head))
    if len(block) < size:
        raise InputError(f"{path}: {_bad_block(at, size, at + len(block))}")
    return block
