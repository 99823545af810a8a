"""A function of CuPy, computed by NumPy or SciPy: refused as the real one refuses it, and counted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.standin import counts, rules
from tests.standin.array import SCALARS, Array

UFUNC_KEYWORDS = {"out", "dtype", "casting", "_where"}


class Function:
    """A function by CuPy's name for it, the host's function that computes it and the real one that says what it takes."""

    def __init__(self, name: str, host: Callable[..., Any], real: Any) -> None:
        self.__name__, self._host, self._real = name, host, real
        self.is_ufunc = hasattr(real, "nin") and hasattr(real, "types")
        self._signature = None if self.is_ufunc else signature_of(real)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self._real, name):
            raise AttributeError(f"cupy.{self.__name__} has no {name}")
        if name == "at":
            return self._at
        return getattr(self._real, name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        self._check(arguments, keywords)
        out = keywords.pop("out", None)
        given, named = [host_of(value) for value in arguments], {name: host_of(value) for name, value in keywords.items()}
        with np.errstate(all="ignore"):
            found = computed(self._host, given, named)
        if self.__name__ in rules.TELLS:
            return found
        if self.is_ufunc:
            found = self._as_its_loop(arguments, keywords, found)
        if out is not None:
            if not np.can_cast(found.dtype, out.dtype, "same_kind"):
                raise TypeError(f"output (typecode '{found.dtype.char}') could not be coerced to provided output ('{out.dtype.char}')")
            out.host[...] = found
        self._count(arguments, out.host if out is not None else found)
        return device_of(found) if out is None else out

    def _check(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        rules.check(self.__name__, arguments, keywords, also=SCALARS if self.is_ufunc else ())
        if self.is_ufunc:
            if unknown := set(keywords) - UFUNC_KEYWORDS:
                raise TypeError(f"Wrong arguments {unknown} of cupy.{self.__name__}")
            if lists := [value for value in arguments if isinstance(value, (list, tuple))]:
                raise TypeError(f"Unsupported type {type(lists[0])}: cupy.{self.__name__} takes arrays and numbers")
        elif self._signature is not None:
            try:
                self._signature.bind(*arguments, **keywords)
            except TypeError as error:
                raise TypeError(f"cupy.{self.__name__}{self._signature}: {error}") from None

    def _as_its_loop(self, arguments: tuple[Any, ...], keywords: dict[str, Any], found: Any) -> Any:
        """The result in the type that CuPy's own loop gives. Raises TypeError where it has none for these types."""
        types = [getattr(value, "dtype", None) for value in arguments[: self._real.nin]]  # a number of Python's takes the others' type
        for loop in self._real.types:
            takes, _, gives = loop.partition("->")
            if all(dtype is None or np.can_cast(dtype, np.dtype(char), "safe") for dtype, char in zip(types, takes, strict=True)):
                alone = all(dtype is not None for dtype in types) and "dtype" not in keywords and len(gives) == 1
                return np.asarray(found).astype(np.dtype(gives), copy=False) if alone else found
        raise TypeError(f"Wrong type ({types}) of arguments for cupy.{self.__name__}")

    def _count(self, arguments: tuple[Any, ...], found: Any) -> None:
        name, inputs, outputs = self.__name__, list(host_arrays(arguments)), list(host_arrays([device_of(found)]))
        counts.counting.flops += _flops(name, inputs, outputs)
        if waits := rules.waits(name, arguments):
            counts.waited(waits)
        owners = {id(counts.owner_of(array)) for array in inputs}
        if name in rules.VIEWS and (
            not inputs or name.startswith("empty") or all(id(counts.owner_of(array)) in owners for array in outputs)
        ):
            return
        arrays = [*inputs, *outputs]
        axes = 1 if all(array.flags.c_contiguous and array.shape == arrays[0].shape for array in arrays) else max(a.ndim for a in arrays)
        kernel = None if name in rules.NOT_NVRTC else (name, *(array.dtype.char for array in arrays), axes)
        counts.launched(*arrays, times=rules.launches(name, arguments), kernel=kernel)

    def _at(self, array: Array, places: Any, values: Any = None) -> None:
        """The ufunc in place at elements that may come more than once."""
        rules.check(self.__name__, (array, places, values), {})
        more = [] if values is None else [host_of(values)]
        getattr(np, self.__name__).at(array.host, host_of(places), *more)
        chosen = np.asarray(array.host[host_of(places)])
        counts.launched(chosen, chosen, kernel=("scatter", self.__name__, array.dtype.char))


def signature_of(real: Any) -> inspect.Signature | None:
    """What a real function takes; None where it is compiled and does not say."""
    try:
        return inspect.signature(real)
    except (TypeError, ValueError):
        return None


def host_of(value: Any) -> Any:
    """What the host's function computes with."""
    if isinstance(value, Array):
        return value.host
    if isinstance(value, (list, tuple)):
        return type(value)(host_of(each) for each in value)
    return value


def device_of(value: Any) -> Any:
    """What the host's function gave, on the device."""
    if isinstance(value, (np.ndarray, np.generic, bool, int, float)):
        return Array(np.asarray(value))
    if isinstance(value, (list, tuple)):
        made = [device_of(each) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


def host_arrays(values: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The memory of all device arrays among values and in their lists."""
    for value in values:
        if isinstance(value, Array):
            yield value.host
        elif isinstance(value, (list, tuple)):
            yield from host_arrays(value)


def computed(host: Callable[..., Any], given: list[Any], named: dict[str, Any]) -> Any:
    """A host function's answer; where a factorization fails NaN, as CuPy, which does not raise there, leaves no numbers of use."""
    try:
        return host(*given, **named)
    except np.linalg.LinAlgError:
        first = given[0]
        if first.ndim < 3:
            return np.full_like(given[-1], np.nan)
        each = [computed(host, [value[row] for value in given], named) for row in range(len(first))]
        return np.stack(each)


def _flops(name: str, inputs: list[np.ndarray[Any, Any]], outputs: list[np.ndarray[Any, Any]]) -> int:
    if name not in rules.PRODUCTS or len(inputs) < 2 or not inputs[0].ndim:
        return 0
    return 2 * int(outputs[0].size) * int(inputs[0].shape[-1])
