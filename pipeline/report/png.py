"""Small pictures for the page: PNG files as addresses that hold them."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOUR = 0, 2


def png_address(pixels: np.ndarray[Any, Any]) -> str:
    """A picture of uint8 [height, width], grey, or [height, width, 3], as an address that a page's image takes."""
    kind = GREY if pixels.ndim == 2 else COLOUR
    height, width = pixels.shape[:2]
    lines = np.hstack([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)])  # before each line: it is not filtered
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    pieces = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    content = SIGNATURE + b"".join(_piece(name, data) for name, data in pieces)
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _piece(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
