"""How much a block of work may take at once: little on a CPU, whose caches it should not leave, much on a GPU, whose launches are dear."""

from __future__ import annotations

from typing import Any

from pipeline.backend.arrays import array_module

MOST = 8 << 30
"""Bytes: a larger block is no quicker."""

_OF_FREE, _OF_ALL = 8, 40


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
