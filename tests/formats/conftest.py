"""Writers of compressed files that the tests of formats share."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

EOF_BLOCK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
Writer = Callable[[Path, bytes], Path]


def bgzf_block(text: bytes) -> bytes:
    """One BGZF block, after section 4.1 of the SAM specification."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    data = deflate.compress(text) + deflate.flush()
    head = struct.pack("<4BI2BH2BHH", 31, 139, 8, 4, 0, 0, 255, 6, ord("B"), ord("C"), 2, len(data) + 25)
    return head + data + struct.pack("<II", zlib.crc32(text), len(text))


def write_text(path: Path, text: bytes) -> Path:
    """Write plain text, gzip (two members) or bgzip (blocks of 700 bytes, an empty one among them), by the kind in the file's name."""
    if "bgzip" in path.name:
        blocks = [bgzf_block(text[at : at + 700]) for at in range(0, len(text), 700)]
        path.write_bytes(b"".join([*blocks[:2], EOF_BLOCK, *blocks[2:], EOF_BLOCK]))
    elif "gzip" in path.name:
        path.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
    else:
        path.write_bytes(text)
    return path


@pytest.fixture
def text_file(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """Writes a file in the test's own folder; its name says whether it is plain, gzip or bgzip."""
    return lambda name, text: write_text(tmp_path / name, text)
