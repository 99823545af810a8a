"""A matrix that lies in a file of its worker's folder for as long as somebody knows it. Not a stage."""

from __future__ import annotations

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
    """A float64 matrix of a file; goes to another worker as numbers, and lies there in a file again."""

    def __init__(self, numbers: NDArray[np.float64]) -> None:
        """Write it to the worker's folder. Raises OSError where that has no room."""
        worker = this_worker()
        place = Path(worker.local_directory) if worker is not None else None
        handle, self.path = tempfile.mkstemp(prefix="tile-", dir=place if place is not None and place.is_dir() else None)
        self.shape = numbers.shape
        weakref.finalize(self, Path(self.path).unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as file:
            file.write(np.ascontiguousarray(numbers).data)

    def __reduce__(self) -> tuple[Callable[..., OnDisk], tuple[Any, ...]]:
        """Its numbers, for another process."""
        return OnDisk, (np.fromfile(self.path).reshape(self.shape),)

    def blocks(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Neighbouring rows, and the number of the first; what is given is written over by what comes next."""
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
