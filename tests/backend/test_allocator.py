"""One allocator a process, with stand-ins for RMM and CuPy that note what is set."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pipeline.backend.allocator import KEPT_SHARE, share_memory

TOTAL = 24 << 30


class CudaMemoryResource:
    """What RMM begins with."""


class CudaAsyncMemoryResource:
    """The asynchronous allocator."""

    def __init__(self, *, release_threshold: int) -> None:
        self.release_threshold = release_threshold


class Machine:
    """RMM's current allocator and CuPy's."""

    def __init__(self, current: Any) -> None:
        self.current = current
        self.of_cupy: Any = None

    def set_current(self, resource: Any) -> None:
        self.current = resource

    def set_of_cupy(self, allocator: Any) -> None:
        self.of_cupy = allocator

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the stand-ins in the places of rmm and cupy."""
        rmm, allocators, cupy = ModuleType("rmm"), ModuleType("rmm.allocators.cupy"), ModuleType("cupy")
        mr = SimpleNamespace(
            CudaMemoryResource=CudaMemoryResource,
            CudaAsyncMemoryResource=CudaAsyncMemoryResource,
            available_device_memory=lambda: (TOTAL // 2, TOTAL),
            get_current_device_resource=lambda: self.current,
            set_current_device_resource=self.set_current,
        )
        rmm.__dict__.update(mr=mr)
        allocators.__dict__.update(rmm_cupy_allocator="RMM's")
        cupy.__dict__.update(cuda=SimpleNamespace(set_allocator=self.set_of_cupy))
        modules = {"rmm": rmm, "rmm.allocators": ModuleType("rmm.allocators"), "rmm.allocators.cupy": allocators, "cupy": cupy}
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)


def test_a_process_that_has_set_nothing__has_one_asynchronous_allocator_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(CudaMemoryResource())
    machine.install(monkeypatch)
    share_memory()
    first = machine.current
    assert isinstance(first, CudaAsyncMemoryResource)
    assert 0 < first.release_threshold <= KEPT_SHARE * TOTAL, "RMM itself would keep all that was ever used"
    assert first.release_threshold % 256 == 0
    assert machine.of_cupy == "RMM's"
    share_memory()
    assert machine.current is first


def test_an_allocator_that_was_set__stays_and_cupy_takes_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = object()
    machine = Machine(pool)
    machine.install(monkeypatch)
    share_memory()
    assert machine.current is pool
    assert machine.of_cupy == "RMM's"
