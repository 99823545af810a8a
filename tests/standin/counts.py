"""What a device was asked to do: launches, waits, copies, bytes and products, and the memory that was held at once."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = str(Path(__file__).parents[2] / "pipeline")
LAUNCH_S, WAIT_S = 10e-6, 15e-6  # from Python
BUS, MEMORY, FP64 = 10e9, 3.5e12, 40e12  # of an H200: pageable bytes and device bytes a second, products a second
DEVICE_BYTES = 141 << 30
ALIGNMENT = 512  # what CuPy's pool rounds to


@dataclass
class Counts:
    """What was done in a stretch of work."""

    launches: int = 0
    waits: int = 0
    """Times that the host stood until the device was done."""
    sent: int = 0
    """Bytes from the host to the device."""
    fetched: int = 0
    """Bytes from the device to the host."""
    copies: int = 0
    """Copies either way."""
    frames_sent: int = 0
    """Bytes of frames of the host that queries sent to the device."""
    frames_fetched: int = 0
    """Bytes of frames that came from the device."""
    touched: int = 0
    """Bytes of the arguments and results of all launches."""
    flops: int = 0
    """Of products of matrices."""
    peak: int = 0
    """Most device bytes alive at once, those that were there before included."""
    kernels: set[tuple[Any, ...]] = field(default_factory=set)
    """Function, types and axes of each kernel that NVRTC would compile when a machine meets it first."""
    places: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Launches and waits by the line of ours that asked for them."""

    @property
    def overhead(self) -> float:
        """Seconds of launches and waits alone."""
        return self.launches * LAUNCH_S + self.waits * WAIT_S

    @property
    def seconds(self) -> float:
        """A rough time on one H200: launches and waits, copies of pageable memory, memory traffic and products."""
        return self.overhead + (self.sent + self.fetched) / BUS + self.touched / MEMORY + self.flops / FP64

    def dearest(self, number: int = 8) -> str:
        """The lines that asked for most, one a line of text."""
        return "\n".join(f"{count:8,} {what:6} {place}" for (what, place), count in self.places.most_common(number))


class _Held:
    """Device memory alive, by the arrays that own it: views share their owner's."""

    def __init__(self) -> None:
        self.alive, self.capacity = 0, DEVICE_BYTES
        self._owners: dict[int, weakref.ref[Any]] = {}

    def hold(self, array: np.ndarray[Any, Any]) -> None:
        """Count an array's memory until its owner is gone."""
        owner = owner_of(array)
        key, size = id(owner), -(-owner.nbytes // ALIGNMENT) * ALIGNMENT
        if key not in self._owners:
            if self.alive + size > self.capacity:
                raise MemoryError(f"Out of memory allocating {size:,} bytes (allocated so far: {self.alive:,} bytes)")

            def release(_gone: Any) -> None:
                del self._owners[key]
                self.alive -= size

            self._owners[key] = weakref.ref(owner, release)
            self.alive += size
            counting.peak = max(counting.peak, self.alive)


def owner_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array whose memory this one looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


counting = Counts()
held = _Held()


@contextmanager
def measured() -> Iterator[Counts]:
    """Count the block's work from nothing; what counted before goes on counting afterwards, without the block's."""
    before = dict(vars(counting))
    vars(counting).update(vars(Counts(peak=held.alive)))
    found = Counts()
    try:
        yield found
    finally:
        vars(found).update(vars(counting))
        vars(counting).update(before)


@contextmanager
def card_of(size: int) -> Iterator[None]:
    """A card with so many bytes in the block."""
    held.capacity, before = size, held.capacity
    try:
        yield
    finally:
        held.capacity = before


def launched(*arrays: Any, times: int = 1, kernel: tuple[Any, ...] | None = None) -> None:
    """Count launches over these host arrays, and the kernel where NVRTC would compile one."""
    counting.launches += times
    counting.touched += sum(min(array.nbytes, owner_of(array).nbytes) for array in arrays)
    counting.places["launch", place()] += times
    if kernel is not None:
        counting.kernels.add(kernel)


def waited(times: int = 1) -> None:
    """Count that the host waits for the device."""
    counting.waits += times
    counting.places["wait", place()] += times


def sent(size: int) -> None:
    """Count a copy to the device."""
    counting.sent += size
    counting.copies += 1


def fetched(size: int) -> None:
    """Count a copy to the host, which waits for it."""
    waited()
    counting.fetched += size
    counting.copies += 1


def place() -> str:
    """The innermost line of the package that is running, `?` where none is."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE):
            return f"{name[len(PACKAGE) + 1 :]}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "?"
