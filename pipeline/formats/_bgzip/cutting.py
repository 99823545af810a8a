"""How a text file is cut into ranges without reading it: where lines begin in one is found by the task that reads it.

Ranges of equal text of a bgzip file are found by hopping from block to block: a page of a disk for each, and a request at a URL, where what
is looked at is fetched for it. That is for small ones. What is larger than `COUNTED` is cut by its bytes, wherever it lies, so that parts
at a URL are those of a disk: some blocks in each stretch of the file tell how much text its bytes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.files import Stamp, is_url, stamp
from pipeline.formats._bgzip.blocks import TextRange, blocks, file_kind, reading
from pipeline.formats._bgzip.search import ratio_at
from pipeline.pieces import open_pieces

COUNTED = STRETCH = 64 << 20  # bytes
STRETCHES = 16  # at most, of a file, since each is a request or two at a URL

Floats = npt.NDArray[np.float64]


def plan_ranges(path: str | Path, target_bytes: int) -> list[TextRange]:
    """Cut a file into ranges of about `target_bytes` of text each; gzip cannot be cut and is one range.

    Nothing is inflated. InputError where the file is missing, empty, or bgzip without its end, or where the blocks of a small one do not
    lead from one to the next: those of a large one are for the task that reads them.
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
    if _is_large(path, first, end):
        return _cut_anywhere(path, target_bytes, first, stamp(path).size if end is None else end, skip)
    starts, text_bytes, last_with_text, stop = [(first, -1)], 0, -1, first
    with reading(path):
        for at, size in _counted(path, first, end, stamp(path)) if is_url(path) else blocks(path, first, end):
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


def _is_large(path: str, first: int, end: int | None) -> bool:
    """Whether a stretch of a file is too large to be looked through for its blocks."""
    return (stamp(path).size if end is None else end) - first > COUNTED


@lru_cache(maxsize=16)
def _counted(path: str, first: int, end: int | None, _stamp: Stamp) -> Sequence[tuple[int, int]]:
    """The blocks of a stretch, which is fetched once while the file is unchanged."""
    return list(blocks(path, first, end))


def _cut_anywhere(path: str, target_bytes: int, first: int, end: int, skip: int) -> list[TextRange]:
    """Ranges of a bgzip file whose blocks are too many to be looked up: cut at bytes, from which each task finds its first block."""
    at, text = _measured(path, stamp(path))
    begin, stop = np.interp([first, end], at, text)
    found = np.interp(np.arange(begin, stop, target_bytes), text, at).astype(np.int64)
    cuts = sorted({first, *(cut for cut in map(int, found) if first < cut < end)})
    return [
        TextRange(path, "bgzf", cut, following, skip=skip if cut == first else 0, is_cut=cut != first)
        for cut, following in zip(cuts, [*cuts[1:], end], strict=True)
    ]


@lru_cache(maxsize=64)
def _measured(path: str, file: Stamp) -> tuple[Floats, Floats]:
    """Bytes of a bgzip file at which its stretches begin and end, and the bytes of text before each, by some blocks amid every stretch."""
    at = np.linspace(0, file.size, min(STRETCHES, 1 + file.size // STRETCH) + 1)
    with reading(path), open_pieces(path) as opened:
        ratios = [ratio_at(opened, path, int(middle)) for middle in (at[1:] + at[:-1]) / 2]
    return at, np.append(0.0, np.floor(np.cumsum(np.diff(at) * ratios)))


def text_size(path: str | Path) -> int:
    """Bytes of text in a plain or bgzip file, nothing inflated; a gzip file, which cannot be cut, counts by its own size.

    Of a large bgzip file they are estimated.
    """
    file_bytes, name = stamp(path).size, str(path)
    if file_kind(path) != "bgzf":
        return file_bytes
    if _is_large(name, 0, None):
        return int(_measured(name, stamp(path))[1][-1])
    with reading(path):
        return sum(size for _, size in (_counted(name, 0, None, stamp(path)) if is_url(path) else blocks(name)))
