"""How a text file is cut into ranges without reading it: where lines begin in one is found by the task that reads it.

Ranges of equal text of a bgzip file are found by hopping from block to block. At a URL each hop would be a request: there what is no
larger than `COUNTED` is fetched for it, so that parts are those of a disk, and what is larger is cut by its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil
from pathlib import Path

from pipeline.files import Stamp, is_url, stamp
from pipeline.formats._bgzip.blocks import TextRange, blocks, file_kind, reading
from pipeline.formats._bgzip.search import ratio_at
from pipeline.pieces import open_pieces

COUNTED = 64 << 20  # bytes


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
    if _is_far(path, first, end):
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


def _is_far(path: str, first: int, end: int | None) -> bool:
    """Whether a stretch of a file is at a URL, and too large to be fetched for its blocks."""
    return is_url(path) and (stamp(path).size if end is None else end) - first > COUNTED


@lru_cache(maxsize=16)
def _counted(path: str, first: int, end: int | None, _stamp: Stamp) -> Sequence[tuple[int, int]]:
    """The blocks of a stretch, which is fetched once while the file is unchanged."""
    return list(blocks(path, first, end))


def _cut_anywhere(path: str, target_bytes: int, first: int, end: int, skip: int) -> list[TextRange]:
    """Ranges of a bgzip file whose blocks are too far to be looked up: cut at bytes, from which each task finds its first block."""
    step = max(ceil(target_bytes / text_ratio(path)), 1)
    return [
        TextRange(path, "bgzf", at, min(at + step, end), skip=skip if at == first else 0, is_cut=at != first)
        for at in range(first, end, step)
    ]


@lru_cache(maxsize=64)
def _ratio(path: str, _stamp: Stamp) -> float:
    with reading(path), open_pieces(path) as file:
        return ratio_at(file, path, _stamp.size // 2)


def text_ratio(path: str) -> float:
    """Bytes of text for a byte of a bgzip file, by some blocks in its middle."""
    return _ratio(path, stamp(path))


def text_size(path: str | Path) -> int:
    """Bytes of text in a plain or bgzip file, nothing inflated; a gzip file, which cannot be cut, counts by its own size.

    Of a large bgzip file at a URL they are estimated.
    """
    file_bytes, name = stamp(path).size, str(path)
    if file_kind(path) != "bgzf":
        return file_bytes
    if _is_far(name, 0, None):
        return int(file_bytes * text_ratio(name))
    with reading(path):
        return sum(size for _, size in (_counted(name, 0, None, stamp(path)) if is_url(path) else blocks(name)))
