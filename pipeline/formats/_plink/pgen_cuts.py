"""A stretch of a .pgen as a small .pgen of its own, so that PLINK 2's library, which reads files, can read one that lies far away.

The header of a .pgen has, for each block of 65,536 variants, where its records begin, and then block by block the type and the length of
every record. A record of the types 2 and 3 holds what differs from the last one before it of another type, in its block (PLINK 2's file
format specification, "PGEN").
"""

from __future__ import annotations

from dataclasses import dataclass
from io import SEEK_END, BufferedReader

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.formats._plink.pgen_files import BLOCK_VARIANTS, FIXED_WIDTHS, FLAGS_STORED, HEAD_BYTES
from pipeline.pieces import open_pieces

_NO_FLAGS, _BYTE_TYPES = 0x40, 4  # of the control byte: no variant's REF is provisional; a type is a byte


@dataclass(frozen=True)
class Cut:
    """Some variants of a .pgen as one of their own, whose first is the variant `first` of the whole file."""

    first: int
    pieces: tuple[bytes, ...]


def cut_pgen(path: str, first: int, end: int) -> Cut:
    """The variants [first, end) of one block of a .pgen, with those before that they lean on.

    Raises OSError, and InputError where the file ends before.
    """
    with open_pieces(path) as file:
        head = file.read(HEAD_BYTES)
        variants, control = int.from_bytes(head[3:7], "little"), head[11]
        if width := FIXED_WIDTHS.get(head[2]):
            begin = HEAD_BYTES + (-(-variants // 8) if control >> 6 == FLAGS_STORED else 0)
            size = width(int.from_bytes(head[7:11], "little"))
            records = _read(file, path, begin + first * size, (end - first) * size)
            return Cut(first, (head[:3] + (end - first).to_bytes(4, "little") + head[7:11] + bytes([_NO_FLAGS]), records))
        if control & 15 > 7:
            raise InputError(
                f"{path}: its records are stored in a way that is read from a disk alone; write it again with plink2 --make-pgen"
            )
        begin, types, lengths = _block(file, path, variants, control, first // BLOCK_VARIANTS)
        low, high = first % BLOCK_VARIANTS, (end - 1) % BLOCK_VARIANTS + 1
        low = int(np.flatnonzero(types[: low + 1] & 6 != 2)[-1])
        sizes = np.pad(lengths, ((0, 0), (0, 8 - lengths.shape[1]))).view("<u8")[:, 0]
        at = begin + int(sizes[:low].sum())
        records = _read(file, path, at, int(sizes[low:high].sum()))
    start = HEAD_BYTES + 8 + (high - low) * (1 + lengths.shape[1])
    own = head[:3] + (high - low).to_bytes(4, "little") + head[7:11] + bytes([_NO_FLAGS | _BYTE_TYPES | lengths.shape[1] - 1])
    tables = (start.to_bytes(8, "little"), types[low:high].tobytes(), lengths[low:high].tobytes())
    return Cut(first - first % BLOCK_VARIANTS + low, (own, *tables, records))


def _block(file: BufferedReader, path: str, variants: int, control: int, number: int) -> tuple[int, NDArray[np.uint8], NDArray[np.uint8]]:
    """Where a block's records begin, their types `uint8[variants]`, and the bytes of their lengths `uint8[variants, bytes]`."""
    blocks = -(-variants // BLOCK_VARIANTS)
    begin = int.from_bytes(_read(file, path, HEAD_BYTES + 8 * number, 8), "little")
    count = min(BLOCK_VARIANTS, variants - number * BLOCK_VARIANTS)
    width, has_bytes = (control & 3) + 1, bool(control & _BYTE_TYPES)
    of_block = BLOCK_VARIANTS * (width + (control >> 4 & 3)) + (BLOCK_VARIANTS if has_bytes else BLOCK_VARIANTS // 2)
    of_block += BLOCK_VARIANTS // 8 if control >> 6 == FLAGS_STORED else 0
    packed = count if has_bytes else -(-count // 2)
    found = np.frombuffer(_read(file, path, HEAD_BYTES + 8 * blocks + number * of_block, packed + count * width), np.uint8)
    types = found[:packed] if has_bytes else np.stack([found[:packed] & 15, found[:packed] >> 4], axis=1).ravel()[:count]
    return begin, types, found[packed:].reshape(count, width)


def _read(file: BufferedReader, path: str, at: int, size: int) -> bytes:
    file.seek(at)
    found = file.read(size)
    if len(found) < size:
        raise InputError(f"{path}: ends after {file.seek(0, SEEK_END):,} bytes, within what its header tells of; copy it again")
    return found
