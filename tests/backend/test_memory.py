from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.backend.memory import MOST, block_bytes

GIB = 1 << 30


class Array:
    """In the place of CuPy's."""


@pytest.mark.parametrize(
    ("free", "total", "pooled", "expected"),
    [
        (16, 16, 0, 2 * GIB),
        (79, 80, 0, MOST),
        (140, 141, 0, MOST),
        (4, 80, 36, 5 * GIB),
        (1, 80, 0, 2 * GIB),
    ],
)
def test_a_block_on_a_gpu__takes_a_share_of_what_is_free(
    free: int, total: int, pooled: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy: Any = ModuleType("cupy")
    cupy.ndarray = Array
    cupy.cuda = SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (free * GIB, total * GIB)))
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: pooled * GIB)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert block_bytes(Array(), 16 << 20) == expected


def test_a_block_in_a_cpus_memory__is_as_small_as_asked() -> None:
    assert block_bytes(np.zeros(3), 16 << 20) == 16 << 20
