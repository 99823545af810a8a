"""How much a block of work may take at once: little on a CPU, whose caches it should not leave, much on a GPU, whose launches are dear."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pipeline.backend.arrays import array_module

MOST = 8 << 30
"""Bytes: a larger block is no quicker."""

_OF_FREE, _OF_ALL = 8, 40
_GROUPS = Path("/proc/self/cgroup")
_MOUNTED = Path("/sys/fs/cgroup")
_PAGES = Path("/proc/self/statm")


def block_bytes(array: Any, on_host: int) -> int:
    """Bytes that one temporary of a block may take where `array` lives: `on_host` in a CPU's memory, on a GPU an eighth of what is free.

    That is 2 GiB on a card of 16 GiB and 8 GiB, the most, on one of 80. What CuPy's pool holds and nobody uses is free. Other pools do not
    say what they hold, so a fortieth of the card is taken for free however full it looks.
    """
    xp = array_module(array)
    if xp.__name__ != "cupy":
        return on_host
    free, total = xp.cuda.runtime.memGetInfo()
    return int(min(MOST, max((free + xp.get_default_memory_pool().free_bytes()) // _OF_FREE, total // _OF_ALL)))


def host_bytes() -> int:
    """Bytes of memory that this machine has, or that its container may take where that is less; 0 where the system does not say."""
    names = getattr(os, "sysconf_names", {})
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if "SC_PHYS_PAGES" in names else 0
    return min([has, *_limits()]) if has else 0


def _limits() -> list[int]:
    """What the groups of processes that this one belongs to may take: a container's, or a batch system's."""
    found = list[int]()
    for line in _GROUPS.read_text(encoding="utf-8").splitlines() if _GROUPS.is_file() else ():
        _, kinds, name = line.split(":", 2)
        if kinds == "" or "memory" in kinds.split(","):
            root, file = (_MOUNTED / "memory", "memory.limit_in_bytes") if kinds else (_MOUNTED, "memory.max")
            here = root / name.lstrip("/")
            told = [folder / file for folder in (here, *here.parents) if folder.is_relative_to(root)]
            found += [int(text) for path in told if path.is_file() and (text := path.read_text(encoding="ascii").strip()).isdigit()]
    return found


def resident_bytes() -> int:
    """Bytes of memory that this process has now; 0 where the system does not say.

    Without pages of files that are mapped (of Polars' scans, and libraries): the system takes them back when it needs memory.
    """
    if not _PAGES.is_file():
        return 0
    _, resident, shared, *_ = map(int, _PAGES.read_text(encoding="ascii").split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
