"""A file put together of pieces, for formats that write one file of all parts. Not a format."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path


def join_files(path: str, pieces: Iterable[str], before: bytes = b"", after: bytes = b"") -> None:
    """Write a file of what stands before, of the pieces in order, block by block, and of what stands after; it appears whole."""
    whole = f"{path}.{secrets.token_hex(4)}"
    with Path(whole).open("wb") as target:
        target.write(before)
        for piece in pieces:
            with Path(piece).open("rb") as source:
                shutil.copyfileobj(source, target, 1 << 20)
        target.write(after)
    Path(whole).replace(path)
