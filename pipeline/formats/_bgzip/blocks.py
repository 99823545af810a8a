"""Text files that are plain, gzip or bgzip: which of these a file is, and how it is cut into ranges without reading it.

A bgzip file (BGZF, section 4.1 of the SAM specification) is a row of gzip members of at most 64 KiB text; the header of each holds its
compressed size (BSIZE), its last four bytes the size of its text. So ranges of equal text are found by hopping from member to member, and
each can be read alone.
"""

from __future__ import annotations

import gzip
import mmap
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from isal import igzip_lib

from pipeline.errors import InputError
from pipeline.files import open_file, stamp

EOF_BLOCK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
TRUNCATED = "looks truncated: {}. Copy or download it again (the writer may also have been stopped before it was done)"
_GZIP_HEADER = 12  # ID1 ID2 CM FLG MTIME(4) XFL OS XLEN(2)
_BC_ROOM, _SUBFIELD_ROOM = 6, 512  # real writers give the extra field BC alone; others may stand before it

_IsalError = cast("type[Exception]", igzip_lib.IsalError)
Kind = Literal["plain", "gzip", "bgzf"]


@dataclass(frozen=True)
class TextRange:
    """The bytes [start, end) of a file: of its text where plain, of its compressed bytes (whole BGZF blocks) where bgzf, all where gzip.

    `before` is where the byte or the block before `start` begins, -1 where a line begins at `start`: its last byte tells whether one does.
    `skip` bytes of text, of a bgzf file, are left out before the first line.
    """

    path: str
    kind: Kind
    start: int
    end: int
    before: int = -1
    skip: int = 0


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what the operating system and zlib say about a file into an InputError with its path."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: there is no such file; check the path (it is taken from the folder in which the run was started)"
        ) from error
    except EOFError as error:
        raise InputError(f"{path}: {TRUNCATED.format('the gzip data stop in the middle')}") from error
    except (gzip.BadGzipFile, zlib.error, _IsalError) as error:
        raise InputError(f"{path}: the compressed data are damaged ({error}); copy or download it again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def file_kind(path: str | Path) -> Kind:
    """Whether a file is plain text, gzip or bgzip, by its first bytes.

    InputError where it is missing, empty, or a bgzip file without its end marker.
    """
    with reading(path), open_file(path) as file:
        head = file.read(_GZIP_HEADER + _SUBFIELD_ROOM)
        if not head:
            raise InputError(f"{path}: the file is empty; give a file with data or remove this input")
        if not head.startswith(b"\x1f\x8b"):
            return "plain"
        if _block_size(head) is None:
            return "gzip"
        file.seek(max(0, stamp(path).size - len(EOF_BLOCK)))
        if file.read() != EOF_BLOCK:
            raise InputError(f"{path}: {TRUNCATED.format('the block that ends every bgzip file is missing')}")
        return "bgzf"


def _block_size(head: bytes) -> int | None:
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

    InputError where no block begins at `start`, or they do not lead from one to the next.
    """
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        at, file_bytes = start, len(view)
        while at < (file_bytes if end is None else min(end, file_bytes)):
            size = _block_size(view[at : at + _GZIP_HEADER + _BC_ROOM]) or _block_size(view[at : at + _GZIP_HEADER + _SUBFIELD_ROOM])
            if size is None or at + size > file_bytes:
                raise InputError(f"{path}: {_bad_block(at, size, file_bytes)}")
            yield at, int.from_bytes(view[at + size - 4 : at + size], "little")
            at += size


def _bad_block(at: int, size: int | None, file_bytes: int) -> str:
    if size is None:
        return f"no bgzip block begins at byte {at}, where one must; the file is damaged, copy or download it again"
    return TRUNCATED.format(f"the bgzip block at byte {at} has {size} bytes and the file ends after {file_bytes - at} of them")


def plan_ranges(path: str | Path, target_bytes: int) -> list[TextRange]:
    """Cut a file into ranges of about `target_bytes` of text each; gzip cannot be cut and is one range.

    Nothing is inflated. InputError where the file is missing, empty, or its bgzip blocks do not lead from one to the next up to its end.
    """
    if target_bytes < 1:
        raise ValueError(f"target_bytes must be 1 or more, not {target_bytes}")
    kind, name = file_kind(path), str(path)
    file_bytes = stamp(path).size
    if kind == "gzip":
        return [TextRange(name, kind, 0, file_bytes)]
    if kind == "plain":
        cuts = range(0, file_bytes, target_bytes)
        return [TextRange(name, kind, at, min(at + target_bytes, file_bytes), at - 1) for at in cuts]
    return cut_blocks(name, target_bytes)


def cut_blocks(path: str, target_bytes: int, first: int = 0, end: int | None = None, skip: int = 0) -> list[TextRange]:
    """Ranges of about `target_bytes` of text of the blocks that begin in [first, end) of a bgzip file; the first leaves out `skip` bytes.

    A line begins after these. InputError as `blocks` gives it.
    """
    starts, text_bytes, last_with_text, stop = [(first, -1)], 0, -1, first
    with reading(path):
        for at, size in blocks(path, first, end):
            if text_bytes >= target_bytes and size:
                starts.append((at, last_with_text))
                text_bytes = 0
            text_bytes += size
            last_with_text = at if size else last_with_text
            stop = at + 1
    stop = stamp(path).size if end is None else stop
    ends = [start for start, _ in starts[1:]] + [stop]
    ranges = zip(starts, ends, strict=True)
    return [TextRange(path, "bgzf", start, stop, before, skip if start == first else 0) for (start, before), stop in ranges]


def text_size(path: str | Path) -> int:
    """Bytes of text in a plain or bgzip file, nothing inflated; a gzip file, which cannot be cut, counts by its own size."""
    file_bytes = stamp(path).size
    if file_kind(path) != "bgzf":
        return file_bytes
    with reading(path):
        return sum(size for _, size in blocks(str(path)))


def read_block(file: BinaryIO, path: str, at: int) -> bytes:
    """The BGZF block that begins where the file stands, `at`; nothing at the end of the file."""
    head = file.read(_GZIP_HEADER)
    if not head:
        return head
    head += file.read(int.from_bytes(head[10:12], "little"))
    size = _block_size(head)
    if size is None or size < len(head):
        raise InputError(f"{path}: {_bad_block(at, None, 0)}")
    block = head + file.read(size - len(head))
    if len(block) < size:
        raise InputError(f"{path}: {_bad_block(at, size, at + len(block))}")
    return block
