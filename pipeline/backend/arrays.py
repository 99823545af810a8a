"""Arrays: NumPy on a CPU, CuPy on a GPU. Inside a task the data decides which; no kernel asks which backend it runs on."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pipeline.backend.devices import Backend


def array_module(*arrays: Any) -> Any:
    """NumPy, or CuPy where any of the arrays lives on a GPU."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and any(isinstance(array, cupy.ndarray) for array in arrays):
        return cupy
    import numpy

    return numpy


def special_module(*arrays: Any) -> Any:
    """scipy.special, or CuPy's where any of the arrays lives on a GPU."""
    if array_module(*arrays).__name__ == "cupy":
        import cupyx.scipy.special as special
    else:
        import scipy.special as special
    return special


def checked_linalg(xp: Any) -> AbstractContextManager[Any]:
    """Factorizations in the block raise LinAlgError where they fail, as NumPy's do: CuPy's go on with what came out, unless told."""
    if xp.__name__ != "cupy":
        return nullcontext()
    import cupyx

    raising: AbstractContextManager[Any] = cupyx.errstate(linalg="raise")
    return raising


def to_device(array: Any, backend: Backend) -> Any:
    """The array where the backend wants it: NumPy on a CPU, CuPy on a GPU."""
    if backend != "gpu":
        return to_host(array)
    import cupy

    return cupy.asarray(array)


def to_host(array: Any) -> Any:
    """The array as NumPy."""
    return array if array_module(array).__name__ == "numpy" else array.get()
