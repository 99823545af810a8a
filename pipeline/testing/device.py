"""CUDA kernels of our own without a GPU: their source run in numba's simulator, and compiled to the PTX that is shipped.

    python -m pipeline.testing.device PACKAGE [PACKAGE ...]     # write the PTX of all kernels of a package, ours by default

Compiling needs numba-cuda (it comes with RAPIDS). The simulator needs numba alone, and NUMBA_ENABLE_CUDASIM=1 before it is imported.
"""

from __future__ import annotations

import hashlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pipeline.backend.launch import DeviceKernel

OURS = "pipeline.kernels.device"
CAPABILITY = (8, 0)
"""What the shipped PTX is compiled for: drivers compile it for this card and all later ones."""
PTX_VERSION = "8.0"
"""Of the language: drivers of CUDA 12.0 and later read it. The compiler writes its own, newer one; ptxas takes our kernels as this."""


def device_kernels(package: str = OURS) -> list[DeviceKernel]:
    """All kernels that the modules of a package hold."""
    modules = [import_module(f"{package}.{module.name}") for module in pkgutil.iter_modules(import_module(package).__path__)]
    found = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, DeviceKernel)}
    return sorted(found.values(), key=lambda kernel: kernel.name)


@contextmanager
def _cuda(kernel: DeviceKernel) -> Iterator[Any]:
    """numba's CUDA, which the modules of the source know in the block, and the helpers as functions of the device."""
    from numba import cuda

    spaces = [function.__globals__ for function in (kernel.body, *kernel.helpers)]
    try:
        for names in spaces:
            names["cuda"] = cuda
            names.update({helper.__name__: cuda.jit(device=True)(helper) for helper in kernel.helpers if helper.__name__ in names})
        yield cuda
    finally:
        for names in spaces:
            names.pop("cuda", None)
            names.update({helper.__name__: helper for helper in kernel.helpers if helper.__name__ in names})


class _Running:
    """numba's CUDA in a kernel that the simulator runs. Its own way, to swap the name as helpers come and go, mixes threads up."""

    def __init__(self) -> None:
        self._of_a_block, self._lock = WeakKeyDictionary[Any, dict[tuple[str, int], Any]](), Lock()
        self.shared = SimpleNamespace(array=self._array)

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("numba.cuda.simulator.kernel")._get_kernel_context(), name)

    def _array(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """The one of a block that stands in this line of the source. The simulator gives threads that come at once one each."""
        line = sys._getframe(1)
        with self._lock:
            block = import_module("numba.cuda.simulator.kernel")._get_kernel_context().shared
            return self._of_a_block.setdefault(block, {}).setdefault((line.f_code.co_filename, line.f_lineno), np.empty(shape, dtype))


@contextmanager
def _simulator(kernel: DeviceKernel) -> Iterator[None]:
    """The simulator's CUDA, which the modules of the source know in the block; helpers are functions of Python as they are."""
    spaces = [function.__globals__ for function in (kernel.body, *kernel.helpers)]
    try:
        for names in spaces:
            names["cuda"] = _Running()
        yield
    finally:
        for names in spaces:
            names.pop("cuda", None)


@contextmanager
def _card(capability: tuple[int, int]) -> Iterator[None]:
    """A card of this capability: numba-cuda compiles functions of the device for the one that is there, and there may be none."""
    names = vars(import_module("numba.cuda.dispatcher"))
    asked = names["get_current_device"]
    names["get_current_device"] = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        names["get_current_device"] = asked


def simulated(kernel: DeviceKernel, blocks: int | tuple[int, int], *arguments: Any, threads: int = 0) -> None:
    """Run a kernel's source on NumPy arrays in numba's simulator: a thread of the host for each of a block. For small arrays.

    `threads` are those of a block, where they are to be others than the kernel's: fewer run sooner.
    """
    from numba import cuda

    with _simulator(kernel):
        cuda.jit(kernel.body)[blocks, threads or kernel.threads](*arguments)


def compiled_ptx(kernel: DeviceKernel, capability: tuple[int, int] = CAPABILITY) -> str:
    """A kernel's PTX for a compute capability, its entry called by the kernel's name.

    Raises what numba-cuda raises for source that it cannot take.
    """
    with _cuda(kernel) as cuda, _card(capability):
        from numba.cuda.core.sigutils import normalize_signature

        arguments, _ = normalize_signature(f"void({', '.join(kernel.types.split())})")
        text, _ = cuda.compile(kernel.body, arguments, cc=capability, output="ptx", device=False, abi="numba")
    entry = re.search(r"\.visible \.entry (\w+)\(", text)
    assert entry, "numba-cuda wrote no entry"
    # Numba's symbols have a number in them that counts what the process compiled before.
    named: str = text.replace(entry[1], kernel.name)
    for place, symbol in enumerate(dict.fromkeys(re.findall(r"\b(?:_Z\w+|_cudapy_smem_\d+)", named))):
        named = re.sub(rf"\b{symbol}\b", f"symbol_{place}", named)
    return named


def shipped_ptx(kernel: DeviceKernel) -> str:
    """What its PTX file holds: the digest of the source it was made from, then the PTX."""
    lowered = re.sub(r"^\.version .*$", f".version {PTX_VERSION}", compiled_ptx(kernel), flags=re.MULTILINE)
    return f"// {digest(kernel)}\n{lowered}"


def digest(kernel: DeviceKernel) -> str:
    """SHA-256 of all that decides a kernel's PTX but the compiler: its modules' source, its types and what it is compiled for."""
    modules = sorted({function.__module__ for function in (kernel.body, *kernel.helpers)})
    said = [inspect.getsource(sys.modules[name]) for name in modules], kernel.types, CAPABILITY, PTX_VERSION
    return hashlib.sha256(repr(said).encode()).hexdigest()


def write_ptx(package: str = OURS) -> list[str]:
    """Compile the kernels whose source has changed since their PTX was written. Returns their names."""
    written = []
    for kernel in device_kernels(package):
        if not kernel.ptx.exists() or kernel.ptx.read_text().split("\n", 1)[0] != f"// {digest(kernel)}":
            kernel.ptx.parent.mkdir(exist_ok=True)
            kernel.ptx.write_text(shipped_ptx(kernel))
            written.append(kernel.name)
    return written


if __name__ == "__main__":
    for named in sys.argv[1:] or [OURS]:
        sys.stdout.writelines(f"{name}: PTX was written anew\n" for name in write_ptx(named))
