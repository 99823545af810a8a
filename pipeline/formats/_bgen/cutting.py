"""A stretch of a BGEN file at a URL as a small BGEN file of its own, and where its variants begin, by its index. Not a format.

A BGEN file (https://www.well.ox.ac.uk/~gav/bgen_format/spec/v1.2.html) begins with the bytes up to its first variant, less four, a header
with the numbers of variants and people and with flags, and their ids where the highest flag says so. An index (.bgi) is an SQLite database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.files import is_url, stamp
from pipeline.formats._bgzip.blocks import reading
from pipeline.pieces import as_file, open_pieces

_COUNT = 8  # the byte at which the number of variants stands
_IDS = 1 << 31  # the flag of ids

Stretch = tuple[int, int]
"""The bytes of a file from the first of some variants on to the end of the last."""


def head_of(path: str) -> tuple[int, bytes]:
    """The number of variants, and all before them as a file of none. Raises OSError, and InputError for what is no such file."""
    with reading(path), open_pieces(path) as file:
        begin = int.from_bytes(file.read(4), "little") + 4
        if begin > stamp(path).size:
            raise InputError(
                f"{path}: is no BGEN file, or damaged: its variants would begin at byte {begin:,}, past its end; copy it again"
            )
        file.seek(0)
        head = file.read(begin)
    return int.from_bytes(head[_COUNT : _COUNT + 4], "little"), head[:_COUNT] + bytes(4) + head[_COUNT + 4 :]


def cut_bgen(path: str, stretch: Stretch, count: int) -> tuple[bytes, ...]:
    """The variants of a stretch as a file of their own, without the people's ids. Raises OSError."""
    with reading(path), open_pieces(path) as file:
        length = int.from_bytes(file.read(8)[4:], "little")  # of the header
        file.seek(4)
        header = file.read(length)
        file.seek(stretch[0])
        variants = file.read(stretch[1] - stretch[0])
    flags = int.from_bytes(header[-4:], "little") & ~_IDS
    own = header[:4] + count.to_bytes(4, "little") + header[8:-4] + flags.to_bytes(4, "little")
    return length.to_bytes(4, "little"), own, variants


@contextmanager
def _here(index: str) -> Iterator[str]:
    """The path of an index on this machine."""
    if not is_url(index):
        yield index
        return
    with reading(index), open_pieces(index) as file, as_file(iter(lambda: file.read(1 << 20), b""), ".bgi") as path:
        yield path


def indexed(path: str, index: str, variants: int) -> NDArray[np.int64]:
    """Where each variant of a file at a URL begins, in order, and where the last ends; of a file on a disk nothing, which needs no cutting.

    InputError for an index of another file.
    """
    count: int | str
    starts, end = np.zeros(0, np.int64), 0
    try:
        with _here(index) as here, closing(sqlite3.connect(f"{Path(here).absolute().as_uri()}?mode=ro", uri=True)) as connection:
            ((count, end),) = connection.execute("SELECT COUNT(*), MAX(file_start_position + size_in_bytes) FROM Variant")
            if is_url(path):
                found = connection.execute("SELECT file_start_position FROM Variant ORDER BY file_start_position")
                starts = np.fromiter((start for (start,) in found), np.int64)
    except sqlite3.Error as error:
        count, end = f"no variants that can be read ({error})", 0
    size = stamp(path).size
    if count != variants or end != size:
        raise InputError(
            f"{index}: is the index of another file: it lists {count} variants up to byte {end}, and {path} has {variants} in "
            f"{size} bytes. Make it again (bgenix -g {path} -index -clobber), or remove it"
        )
    return np.append(starts, end)
