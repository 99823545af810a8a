"""CUDA kernels of our own: written in numba's CUDA dialect, shipped as PTX, loaded and launched by CuPy.

A machine with a GPU needs CuPy alone to run them. numba-cuda, which compiles them to PTX, and numba's simulator, which runs their source
without a GPU, are for developers (`pipeline.testing.device`). CuPy launches in about ten microseconds where numba takes a hundred.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

_TYPE = re.compile(r"(u?int\d+|float\d+)(\[[:,1]+\])?")


@dataclass(frozen=True)
class DeviceKernel:
    """A CUDA kernel: the source that one thread runs, the types of what it takes, and the same said plainly.

    `body` is written in numba's CUDA dialect and returns nothing: what it gives it writes into arrays. Its module has the name `cuda` only
    while it is compiled or simulated. `plain` takes the same arguments and writes the same into NumPy arrays: the oracle.
    """

    body: Callable[..., None]
    types: str
    """What it takes, as numba writes it and separated by blanks: `uint8[:,::1] int64 float64[::1]`. Arrays are C-contiguous."""
    plain: Callable[..., None]
    threads: int = 256
    """Threads a block."""
    helpers: tuple[Callable[..., Any], ...] = ()
    """The functions that `body` and they call, written in the same dialect."""

    def __call__(self, blocks: int | tuple[int, int], *arguments: Any) -> None:
        """Launch on the current stream; returns before the kernel has run. No blocks, no launch.

        `arguments` are CuPy arrays, and numbers of the host. Raises TypeError for an array of another type, number of axes or layout than
        `types` says: the device would read it as what it is not.
        """
        checked = [_checked(self, *each) for each in zip(arguments, self.parameters, strict=True)]
        grid = blocks if isinstance(blocks, tuple) else (blocks,)
        if all(grid):
            launch(self, grid, checked)

    @property
    def name(self) -> str:
        """The name of its function, and of its PTX file."""
        return self.body.__name__

    @cached_property
    def parameters(self) -> list[tuple[str, int | None]]:
        """Type, and number of axes of an array (None for a number), of each argument."""
        return [_parameter(text) for text in self.types.split()]

    @property
    def ptx(self) -> Path:
        """Where its PTX lies: in the folder `ptx` beside the module of its source."""
        return Path(str(sys.modules[self.body.__module__].__file__)).parent / "ptx" / f"{self.name}.ptx"


def _parameter(text: str) -> tuple[str, int | None]:
    match = _TYPE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no type that kernels take; write float64, or an array in C order such as float64[:,::1].")
    return match[1], match[2].count(":") - match[2].count("::") if match[2] else None


def blocks_for(items: int, threads: int) -> int:
    """Blocks that give each item a thread."""
    return -(-items // threads)


def launch(kernel: DeviceKernel, grid: tuple[int, ...], arguments: list[Any]) -> None:
    """Launch a kernel with checked arguments. Tests without a GPU put another function in its place."""
    _loaded(str(kernel.ptx), kernel.name)(grid, (kernel.threads,), tuple(flat for argument in arguments for flat in _flat(argument)))


@cache
def _loaded(ptx: str, name: str) -> Any:
    """The function of a PTX file; the driver compiles it for the card when it is first asked for."""
    import cupy

    return cupy.RawModule(path=ptx).get_function(name)


def _checked(kernel: DeviceKernel, value: Any, expected: tuple[str, int | None]) -> Any:
    """A number as the type it goes to the device with; an array as it is, once it is what the kernel reads."""
    dtype, axes = expected
    if axes is None:
        return np.dtype(dtype).type(value)
    if value.dtype != dtype or value.ndim != axes or not value.flags.c_contiguous:
        raise TypeError(
            f"The kernel {kernel.name} takes {dtype} of {axes} axes in C order, not {value.dtype} of {value.ndim} axes"
            f"{'' if value.flags.c_contiguous else ' in another order'}."
        )
    return value


def _flat(value: Any) -> list[Any]:
    """An argument as numba's kernels take it: of an array no owner, its size, the bytes of an element, its address, shape and strides."""
    if isinstance(value, np.generic):
        return [value]
    numbers = (0, 0, value.size, value.itemsize, value.data.ptr, *value.shape, *value.strides)
    return [np.int64(number) for number in numbers]
