"""The stand-in's array: what `cupy.ndarray` does and does not do, over a NumPy array in the place of device memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.standin import counts
from tests.standin.indexing import count_advanced, host_index, is_advanced

Host = np.ndarray[Any, Any]
SCALARS = (bool, int, float, complex, np.generic)
MODULES: dict[str, Any] = {}
"""The stand-in's modules by name, whose functions methods and operators call."""


class Array:
    """An array that would lie on the device; `cupy.ndarray` of the stand-in. Made of a host array, which becomes its memory."""

    __slots__ = ("__weakref__", "host")
    __array_priority__ = 100

    def __init__(self, host: Host) -> None:
        if host.dtype.kind not in "biufc":
            raise ValueError(f"Unsupported dtype {host.dtype}")
        self.host = host
        counts.held.hold(host)

    dtype = property(lambda self: self.host.dtype)
    shape = property(lambda self: self.host.shape)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    nbytes = property(lambda self: self.host.nbytes)
    itemsize = property(lambda self: self.host.itemsize)
    strides = property(lambda self: self.host.strides)
    flags = property(lambda self: SimpleNamespace(c_contiguous=self.host.flags.c_contiguous, f_contiguous=self.host.flags.f_contiguous))
    data = property(lambda self: SimpleNamespace(ptr=self.host.ctypes.data))
    T = property(lambda self: Array(self.host.T))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return len(self.host)

    def __iter__(self) -> Iterator[Array]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    # To the host: never in silence, always counted.

    def __array__(self, *_: Any, **__: Any) -> Host:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly.")

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Host:
        """A copy on the host."""
        counts.fetched(self.nbytes)
        return self.host.copy()

    def item(self) -> Any:
        """The one element, on the host."""
        return self.get().item()

    def tolist(self) -> Any:
        """The elements, on the host."""
        return self.get().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The bytes, on the host."""
        return self.get().tobytes(order)

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __index__(self) -> int:
        return self.get().__index__()

    def __format__(self, spec: str) -> str:
        return format(self.get() if self.ndim else self.get()[()], spec)

    def __repr__(self) -> str:
        return f"on the stand-in: {self.host!r}"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Host]]:
        return MODULES["cupy"].asarray, (self.get(),)

    # Views, which cost nothing, and copies.

    def reshape(self, *shape: Any, order: Any = "C") -> Array:
        """Another shape: a view, where the layout has one."""
        return self._view_or_copy(self.host.reshape(*shape, order=order))

    def view(self, dtype: Any = None) -> Array:
        """The same memory."""
        return Array(self.host.view() if dtype is None else self.host.view(dtype))

    def transpose(self, *axes: Any) -> Array:
        """The axes in another order: a view."""
        return Array(self.host.transpose(*axes))

    def copy(self, order: Any = "C") -> Array:
        """A copy on the device."""
        return self._view_or_copy(self.host.copy(order))

    def flatten(self, order: Any = "C") -> Array:
        """A copy of one axis."""
        return self._view_or_copy(self.host.flatten(order))

    def astype(self, dtype: Any, order: Any = "K", casting: Any = None, subok: Any = None, copy: bool = True) -> Array:
        """The elements as another type."""
        if casting is not None or subok is not None:
            raise TypeError("casting and subok are not supported yet")
        with np.errstate(all="ignore"):
            return self._view_or_copy(self.host.astype(dtype, order=order, copy=copy))

    def _view_or_copy(self, host: Host) -> Array:
        made = Array(host)
        if counts.owner_of(host) is not counts.owner_of(self.host):
            self._elementwise("copy", host)
        return made

    def _elementwise(self, name: str, *others: Host) -> None:
        arrays = [self.host, *others]
        counts.launched(*arrays, kernel=(name, *(array.dtype.char for array in arrays), self.ndim))

    def fill(self, value: Any) -> None:
        """All elements the same: a number, or an array of no axes."""
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        self.host.fill(value.host if isinstance(value, Array) else value)
        self._elementwise("fill")

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        """In place, stable."""
        if kind not in (None, "stable"):
            raise ValueError("kind can only be None or 'stable'")
        self.host.sort(axis, kind="stable")
        counts.launched(self.host, self.host, times=2)

    def __getitem__(self, key: Any) -> Array:
        found = Array(np.asarray(self.host[host_index(key, waits=True)]))
        if is_advanced(key):
            count_advanced(key, self.host, found.host, scanned=True)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        advanced = is_advanced(key)
        if isinstance(value, np.ndarray) and value.ndim and not advanced:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        if advanced and not isinstance(value, (Array, *SCALARS)):
            value = MODULES["cupy"].asarray(value, dtype=self.dtype)
        many = isinstance(value, Array) and value.ndim > 0
        at = host_index(key, waits=many)
        with np.errstate(all="ignore"):
            self.host[at] = value.host if isinstance(value, Array) else value
        if advanced:
            count_advanced(key, self.host, self.host[at], scanned=many)
        else:
            counts.launched(*[np.asarray(self.host[at])] * (1 + many), kernel=("copy" if many else "fill", self.dtype.char, self.ndim))

    # NumPy's functions of this array are CuPy's, where CuPy has them.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        function = getattr(MODULES["cupy"], ufunc.__name__, None) or getattr(MODULES["cupyx.scipy.special"], ufunc.__name__, None)
        if function is None:
            return NotImplemented
        if "out" in keywords:
            (keywords["out"],) = keywords["out"]
        return (function if method == "__call__" else getattr(function, method))(*inputs, **keywords)

    def __array_function__(self, function: Any, kinds: Any, args: Any, keywords: Any) -> Any:
        module = MODULES.get(function.__module__.replace("numpy", "cupy", 1))
        found = getattr(module, function.__name__, None)
        return NotImplemented if found is None else found(*args, **keywords)


Array.__name__ = Array.__qualname__ = "ndarray"
