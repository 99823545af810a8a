"""Whether the kernels give on a GPU what they give on a CPU: against NumPy here where numba is installed, else against what was recorded.

python benchmarks/gpu_parity.py     # record anew, where numba is installed
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks.gpu_kernels import OF_PAIRS, OF_VARIANTS, Cohort, Work, arrays_of, simulated
from pipeline.backend.arrays import to_host

RECORDED = Path(__file__).resolve().parent / "gpu_parity.npz"
VARIANTS, SAMPLES = 301, 203
TOLERANCE = 1e-6
"""Of the largest number of an array: products add up in another order, and Firth's regressions stop a step apart."""
MORE_OF_THE_SAME = {"linear GWAS, 100 traits", "linear GWAS, 2,048 traits"}
KEPT = 1000
"""Numbers kept of each array, evenly spread."""


def works(place: Callable[[Any], Any]) -> Iterator[tuple[str, Work]]:
    """Every kernel on a small cohort that lies where `place` puts it."""
    for name, made in (OF_VARIANTS | OF_PAIRS).items():
        if name not in MORE_OF_THE_SAME:
            yield name, made(Cohort(place(simulated(VARIANTS, SAMPLES)), SAMPLES))


def answer(name: str, work: Work) -> list[np.ndarray[Any, Any]]:
    """What a kernel gives, on the host, thinned; of symmetric sums the half that counts."""
    found = [np.asarray(to_host(value)) for value in arrays_of(work.run())]
    if name == "relationship sums":
        found = [np.triu(value) if value.ndim == 2 else value for value in found]
    return [value.ravel()[:: max(1, value.size // KEPT)] for value in found]


def live() -> dict[str, list[np.ndarray[Any, Any]]]:
    """What the CPU gives; needs numba."""
    return {name: answer(name, work) for name, work in works(np.asarray)}


def recorded() -> dict[str, list[np.ndarray[Any, Any]]]:
    """What the CPU gave when it was recorded."""
    found: dict[str, list[np.ndarray[Any, Any]]] = {}
    with np.load(RECORDED) as file:
        for key in file.files:
            found.setdefault(key.rsplit("/", 1)[0], []).append(file[key])
    return found


def oracle() -> dict[str, list[np.ndarray[Any, Any]]]:
    """What the CPU gives: computed where numba is installed, else as recorded."""
    return live() if find_spec("numba") else recorded()


def difference(ours: list[np.ndarray[Any, Any]], theirs: list[np.ndarray[Any, Any]]) -> float:
    """The largest difference of two answers, as a share of the largest number of its array; infinite where they are of different kinds."""
    if [(a.dtype, a.shape) for a in ours] != [(b.dtype, b.shape) for b in theirs]:
        return float("inf")
    return max((_apart(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)


def _apart(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> float:
    if not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
        return float("inf")
    finite = np.isfinite(theirs)
    a, b = ours[finite].astype(float), theirs[finite].astype(float)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300)) if len(b) else 0.0


def record() -> None:
    """Write what the CPU gives here."""
    arrays: dict[str, Any] = {f"{name}/{number}": value for name, values in live().items() for number, value in enumerate(values)}
    np.savez_compressed(RECORDED, **arrays)


if __name__ == "__main__":
    record()
