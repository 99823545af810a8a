"""XGBoost: the module, what it needs, and the device it trains on."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any, cast

from pipeline.backend.devices import Backend
from pipeline.errors import PlaceError


def xgboost_device(backend: Backend) -> str:
    """XGBoost's `device`: its own silent fall-back from cuda to the CPU is refused by `choose_backend`, which has seen a GPU."""
    return "cuda" if backend == "gpu" else "cpu"


def need_xgboost() -> None:
    """Raise PlaceError, with what to install, where xgboost is not installed."""
    if find_spec("xgboost") is None:
        raise PlaceError("xgboost is not installed. Install it with: pip install '.[cpu]' (no GPU) or pip install '.[gpu]' (CUDA 13)")


def import_xgboost(*, lean: bool = False) -> Any:
    """The xgboost module. Raises PlaceError as `need_xgboost` does.

    `lean` leaves out scikit-learn, four fifths of XGBoost's import, for a process that is the command line's own and trains by XGBoost's
    native interface alone.
    """
    need_xgboost()
    with _hidden("sklearn") if lean else nullcontext():
        import xgboost

    return xgboost


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Have optional imports of a module fail, unless it is there already."""
    if module in sys.modules:
        yield
        return
    cast("dict[str, Any]", sys.modules)[module] = None
    try:
        yield
    finally:
        del sys.modules[module]


def make_room(backend: Backend) -> None:
    """Before a training on a GPU: what the tasks before have freed goes back to the driver, from whom XGBoost takes its own memory.

    CuPy's pool is emptied; RMM's asynchronous one gives back what is beyond its threshold (`backend.allocator`) when the GPU is waited for.
    """
    if backend != "gpu":
        return
    import cupy

    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.cuda.runtime.deviceSynchronize()


def gpu_memory() -> int:
    """Bytes of the memory of this task's GPU."""
    import cupy

    return int(cupy.cuda.runtime.memGetInfo()[1])
