"""Where sources of CUDA kernels run in numba's simulator: only where NUMBA_ENABLE_CUDASIM was set before numba was imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _threads_that_take_turns_soon() -> Iterator[None]:
    """The simulator's master never rests: at Python's usual turns, threads wait most of the time for it."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        for item in items:
            if item.path.parent.name == "simulated":
                item.add_marker(pytest.mark.skip(reason="runs in numba's simulator; tests/kernels/test_device.py starts it"))
