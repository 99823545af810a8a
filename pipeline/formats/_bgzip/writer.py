"""Text as bgzip blocks (BGZF, section 4.1 of the SAM specification), so that pieces of a file can be compressed apart and put together.

A file is any number of such pieces and, at its end, bgzf.EOF_BLOCK; gzip and tabix read it.
"""

from __future__ import annotations

import struct

from isal import isal_zlib

BLOCK_TEXT_BYTES = 0xFF00  # of text in a block, as bgzip has it: even what does not get smaller then fits into 64 KiB
_LEVEL = 2  # of isal's 0 to 3
_HEADER, _TRAILER = struct.Struct("<4BI2BH2BHH"), struct.Struct("<II")


def bgzip(text: bytes) -> bytes:
    """Text as BGZF blocks, without the block that ends a file; none for no text."""
    return b"".join(_block(text[at : at + BLOCK_TEXT_BYTES]) for at in range(0, len(text), BLOCK_TEXT_BYTES))


def _block(text: bytes) -> bytes:
    data = isal_zlib.compress(text, _LEVEL, -15)
    size = _HEADER.size + len(data) + _TRAILER.size
    head = _HEADER.pack(31, 139, 8, 4, 0, 0, 255, 6, ord("B"), ord("C"), 2, size - 1)
    return head + data + _TRAILER.pack(isal_zlib.crc32(text), len(text))
