"""The blocks around any byte of a bgzip file, found without reading what lies before."""

from __future__ import annotations

from typing import BinaryIO

from pipeline.errors import InputError
from pipeline.formats._bgzip.blocks import BLOCK_MOST, block_size, read_block

_MAGIC = b"\x1f\x8b\x08\x04"
_HEAD = 1 << 10  # room for the header of a block


def blocks_at(file: BinaryIO, path: str, cut: int) -> tuple[int, int]:
    """Where the first block at or after a byte begins (the end of the file where none does), and the last one before it that has text.

    A block is known by its header and by those that it leads to, up to that byte and past it. InputError where there is none.
    """
    for room in (2 * BLOCK_MOST, 64 * BLOCK_MOST):  # a block begins in it and ends in it; there may be some without text
        begin = max(0, cut - room)
        file.seek(begin)
        data = file.read(cut - begin + BLOCK_MOST + _HEAD)
        at = data.find(_MAGIC) if begin else 0
        while 0 <= at < cut - begin:
            start, before = _followed(data, at, cut - begin)
            if start >= 0 and before >= 0:
                return begin + start, begin + before
            at = data.find(_MAGIC, at + 1) if begin else -1
    raise InputError(f"{path}: no bgzip block is found before byte {cut:,}; the file is damaged, copy or upload it again")


def ratio_at(file: BinaryIO, path: str, cut: int) -> float:
    """Bytes of text for a byte of the file, of the blocks around a byte; 1 at the least."""
    start = blocks_at(file, path, cut)[1] if cut else 0
    file.seek(start)
    packed = text = 0
    while packed < 2 * BLOCK_MOST and (block := read_block(file, path, start + packed)):
        packed, text = packed + len(block), text + int.from_bytes(block[-4:], "little")
    return max(1.0, text / packed)


def _followed(data: bytes, at: int, cut: int) -> tuple[int, int]:
    """The first block at or after `cut` of those that follow one another from `at` on, and the last before it with text; -1 for none."""
    before = -1
    while at < cut:
        size = block_size(data[at : at + _HEAD])
        if size is None or at + size > len(data):
            return -1, -1
        if int.from_bytes(data[at + size - 4 : at + size], "little"):
            before = at
        at += size
    is_block = at == len(data) or block_size(data[at : at + _HEAD]) is not None
    return (at, before) if is_block else (-1, -1)
