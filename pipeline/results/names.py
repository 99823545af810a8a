"""Names that nobody else uses: of runs, and of the files that each attempt of a task writes."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime


def new_run_id(taken: Iterable[str] = ()) -> str:
    """A name for a run, such as 20261121T093012Z-3f2a9c: UTC, then microseconds and a random digit, so that names sort by time."""
    while True:
        now = datetime.now(UTC)
        name = f"{now:%Y%m%dT%H%M%SZ}-{now.microsecond * 16 + secrets.randbelow(16):06x}"
        if name not in taken:
            return name


def attempt_name(stem: str, suffix: str) -> str:
    """A file name that no other attempt of the same task uses: part-00000-1f2e3d4c.parquet."""
    return f"{stem}-{secrets.token_hex(4)}{suffix}"
