"""An array that lies in a file of its worker's folder for as long as somebody knows it. Not a stage."""

from __future__ import annotations

import math
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.tables.task import this_worker

_STEP = 1 << 20  # bytes that are read at once: they stay in the second-level cache


class OnDisk:
    """An array of numbers in a file; goes to another worker as numbers, and lies there in a file again."""

    def __init__(self, numbers: NDArray[Any]) -> None:
        """Write it to the worker's folder. Raises OSError where that has no room."""
        worker = this_worker()
        place = Path(worker.local_directory) if worker is not None else None
        handle, self.path = tempfile.mkstemp(prefix="tile-", dir=place if place is not None and place.is_dir() else None)
        self.shape, self.dtype = numbers.shape, numbers.dtype
        weakref.finalize(self, Path(self.path).unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as file:
            file.write(np.ascontiguousarray(numbers).data)

    def __reduce__(self) -> tuple[Callable[..., OnDisk], tuple[Any, ...]]:
        """Its numbers, for another process."""
        return OnDisk, (np.fromfile(self.path, self.dtype).reshape(self.shape),)

    def entry(self, place: int) -> NDArray[Any]:
        """The numbers at one place of the first axis."""
        numbers: NDArray[Any] = self.entries(slice(place, place + 1))[0]
        return numbers

    def entries(self, places: slice) -> NDArray[Any]:
        """The numbers from one place of the first axis to another."""
        size = math.prod(self.shape[1:])
        wanted = size * (places.stop - places.start)
        numbers = np.fromfile(self.path, self.dtype, wanted, offset=places.start * size * self.dtype.itemsize)
        if len(numbers) != wanted:
            raise OSError(f"{self.path}: {numbers.nbytes} bytes were read where {wanted * self.dtype.itemsize} were written")
        return numbers.reshape(-1, *self.shape[1:])

    def blocks(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Neighbouring rows of a matrix of float64, and the number of the first; what is given is written over by what comes next."""
        height, width = self.shape
        step = max(1, _STEP // (8 * max(1, width)))
        room = np.empty((min(step, height), width))
        with Path(self.path).open("rb", buffering=0) as file:
            for start in range(0, height, step):
                some = room[: min(step, height - start)]
                got = file.readinto(some.data.cast("B"))
                if got != some.nbytes:
                    raise OSError(f"{self.path}: {got} bytes were read where {some.nbytes} were written")
                yield start, some
