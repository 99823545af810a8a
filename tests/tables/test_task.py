"""Arguments of a task that came from another process: their arrays lie as they lay there, so that sums have the same last digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.tables.task import aligned


def askew(array: NDArray[np.float64], order: Any = "C") -> NDArray[np.float64]:
    """A copy that begins at an odd byte, as a frame of a message may."""
    room = bytearray(array.nbytes + 64)
    at = -np.frombuffer(room, np.uint8).ctypes.data % 16 + 3
    found: NDArray[np.float64] = np.ndarray(array.shape, array.dtype, room, at, order=order)
    found[...] = array
    return found


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Held:
    name: str
    numbers: Any
    more: Any


def test_aligned__lays_arrays_of_every_order_anew_and_keeps_what_lies_well() -> None:
    numbers = np.random.default_rng(1).normal(size=(2_049, 19))
    for order in ("C", "F"):
        given = askew(numbers, order)
        found = aligned(given)
        assert given.ctypes.data % 16 == 3
        assert found.ctypes.data % 16 == 0
        assert found.strides == given.strides
        assert np.array_equal(found, numbers)
        assert found.sum() == np.array(numbers, order=order).sum()
    assert aligned(numbers) is numbers
    assert aligned(askew(numbers[:0])).size == 0


def test_aligned__looks_into_what_holds_arrays() -> None:
    numbers: NDArray[np.float64] = np.arange(5, dtype=np.float64)
    held = Held("x", askew(numbers), {"a": [askew(numbers), "text"], "b": Pair(askew(numbers), numbers)})
    found = aligned(held)
    assert (found.name, type(found.more["b"])) == ("x", Pair)
    arrays = [found.numbers, found.more["a"][0], found.more["b"].first]
    assert all(array.ctypes.data % 16 == 0 and np.array_equal(array, numbers) for array in arrays)
    assert found.more["b"].second is numbers
    for kept in (Held("x", numbers, [1, (2, numbers)]), Pair(numbers, None), {"a": numbers}, Held, "text"):
        assert aligned(kept) is kept
