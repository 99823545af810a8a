"""The system's allocator, which NumPy and XGBoost have, told in a process that runs: glibc's. Where there is another, nothing changes."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ARENAS = "MALLOC_ARENA_MAX"
THRESHOLDS = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 128 << 20}
"""Bytes: from the first an array is a map of its own, as glibc ends up with by itself; from the second what is free at the end goes
back."""
_NUMBERS = {ARENAS: -8, "MALLOC_MMAP_THRESHOLD_": -3, "MALLOC_TRIM_THRESHOLD_": -1}  # glibc's own
_MOST = 2**31 - 1

_lock, _blocks = threading.Lock(), 0


def limit_arenas(count: int) -> None:
    """At most so many arenas; what a user set stays."""
    if ARENAS not in os.environ:
        _tell(ARENAS, count)


@contextmanager
def freed_stays() -> Iterator[None]:
    """What is freed in the block stays with the process, for whoever asks next, and goes back at its end; a user's thresholds stay.

    XGBoost makes arrays of all rows anew in every round. The system maps one of more than 32 MB each time, and zeroes it page by page: 100
    rounds of 20 million rows took 8 of 168 s for it, on one core.
    """
    global _blocks
    users = any(os.environ.get(name, str(ours)) != str(ours) for name, ours in THRESHOLDS.items())
    if users or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        yield
        return
    with _lock:
        _blocks += 1
        for name in THRESHOLDS:
            _tell(name, _MOST)
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                for name, ours in THRESHOLDS.items():
                    _tell(name, ours)
                give_back()


def give_back() -> None:
    """Give the system what is free in between, which an allocator keeps for whoever asks next."""
    _call("malloc_trim", 0)


def stays_now() -> bool:
    """Whether somebody is within `freed_stays`."""
    return _blocks > 0


def _tell(name: str, value: int) -> None:
    _call("mallopt", _NUMBERS[name], value)


def _call(name: str, *values: Any) -> None:
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*values)
