"""The stand-in's modules: `cupy`, `cupyx` and theirs, with the real ones' names and no others, put in their place for a while."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from pipeline.backend import launch
from tests.standin import counts, operators
from tests.standin.array import MODULES, Array
from tests.standin.functions import Function
from tests.standin.launching import launch as counted_launch
from tests.standin.runtime import cuda, memory_pool

HOSTS = {
    "cupy": "numpy",
    "cupy.linalg": "numpy.linalg",
    "cupy.fft": "numpy.fft",
    "cupyx": "",
    "cupyx.scipy": "scipy",
    "cupyx.scipy.special": "scipy.special",
    "cupyx.scipy.linalg": "scipy.linalg",
}
"""The library of the host that computes for a module."""


class StandInModule(ModuleType):
    """A module that has what the real one has, computed on the host."""

    def __init__(self, name: str, host: Any, real: Any) -> None:
        super().__init__(name)
        vars(self).update(_host=host, _real=real, __path__=[], __version__=getattr(real, "__version__", ""))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self._real, name):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}, and CuPy's has none")
        if not hasattr(self._host, name):
            raise NotImplementedError(f"{self.__name__}.{name} is in CuPy, and not on the stand-in: say in tests/standin what computes it")
        found = getattr(self._host, name)
        if callable(found) and not isinstance(found, type):
            found = Function(name, found, getattr(self._real, name))
        vars(self)[name] = found
        return found


def asarray(a: Any, dtype: Any = None, order: Any = None, **_blocking: bool) -> Array:
    """A device array, the same where it is one of that type already."""
    if isinstance(a, Array):
        return a if dtype is None or a.dtype == np.dtype(dtype) else a.astype(dtype)
    return array(a, dtype, order=order or "K")


def array(obj: Any, dtype: Any = None, copy: bool | None = True, order: Any = "K", ndmin: int = 0) -> Array:
    """A new device array of anything; host arrays are copied there, lists of device arrays are stacked there."""
    if isinstance(obj, Array):
        return obj.astype(dtype or obj.dtype, copy=bool(copy))
    if isinstance(obj, (list, tuple)) and any(isinstance(value, Array) for value in obj):
        stacked = MODULES["cupy"].stack([asarray(value) for value in obj])
        return asarray(stacked, dtype)
    made = Array(np.array(obj, dtype=dtype, order=order, ndmin=ndmin))
    counts.sent(made.nbytes)
    return made


def asnumpy(a: Any) -> np.ndarray[Any, Any]:
    """The array on the host."""
    return a.get() if isinstance(a, Array) else np.asarray(a)


def ascontiguousarray(a: Any, dtype: Any = None) -> Array:
    """A device array in C order, the same where it is one already."""
    found = asarray(a, dtype)
    return found if found.flags.c_contiguous else found.copy()


def build() -> dict[str, ModuleType]:
    """The modules by name. Raises ImportError where CuPy is not installed: it says what there is."""
    made: dict[str, ModuleType] = {}
    for name, host in HOSTS.items():
        made[name] = StandInModule(name, import_module(host) if host else SimpleNamespace(), import_module(name))
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(made[parent], own, made[name])
    library: Any = made["cupy"]
    for function in (asarray, array, asnumpy, ascontiguousarray):
        setattr(library, function.__name__, function)
    library.ndarray, library.cuda, library.get_default_memory_pool = Array, cuda(), memory_pool
    special: Any = made["cupyx"]
    special.errstate = lambda **_: nullcontext()  # NumPy's factorizations raise by themselves
    special.rsqrt = Function("rsqrt", lambda x: 1 / np.sqrt(x), special._real.rsqrt)
    return made


@contextmanager
def installed() -> Iterator[Any]:
    """Have `import cupy` give the stand-in in the block. Code that holds the real module from before goes on with that one."""
    operators.attach()
    MODULES.update(build())
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ("cupy", "cupyx")}
    for name in before:
        del sys.modules[name]
    sys.modules.update(MODULES)
    try:
        with patch.object(launch, "launch", counted_launch):
            yield MODULES["cupy"]
    finally:
        for name in MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(before)
