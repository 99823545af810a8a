"""A training that was ended after any round goes on, bit for bit, to what it would have come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pipeline.backend.neural import neural_devices
from pipeline.neural.compressed import Compression
from pipeline.neural.mesh import MeshSteps
from pipeline.neural.perceptron import initial
from pipeline.neural.pipelined import PipelinedSteps
from pipeline.neural.resuming import Keeper
from pipeline.neural.training import Course, Fitted, Rows, fitted
from tests.neural.batches import CODES, batch, task

pytestmark = pytest.mark.long  # JAX compiles its programs

EPOCHS, END = 5, 3
ROWS = Rows({name: array for name, array in batch(90).items() if name not in ("real", "keys")}, 32)
HARD: dict[str, Any] = {"dropout": 0.2, "optimizer": "adamw", "clip": 0.3, "schedule": "cosine"}


@dataclass
class Kept:
    """A place where every round is kept."""

    content: bytes | None = None

    def last(self) -> bytes | None:
        return self.content

    def due(self) -> bool:
        return True

    def keep(self, content: Callable[[], bytes]) -> None:
        self.content = content()


@dataclass
class Around:
    """Keeps every round, and ends after one of them."""

    place: Kept = field(default_factory=Kept)
    end: int | None = None

    def resumed(self, state: Any, found: Fitted) -> tuple[Any, Fitted]:
        return Keeper(self.place).resumed(state, found)

    def watch(self, parameters: Any) -> float:
        return float(abs(parameters["layers_0/kernel"]).sum())

    def done(self, state: Any, found: Fitted) -> None:
        Keeper(self.place).keep(state, found)
        if len(found.losses) == self.end:
            raise InterruptedError("killed")


@pytest.mark.parametrize("over", ["one", "data", "compressed", "pipeline"])
def test_a_training_that_was_ended__comes_to_the_same_bits(over: str) -> None:
    told = task((8, 5), **HARD, compression=Compression("top_k", 0.2) if over == "compressed" else None)
    devices = neural_devices("cpu", {"one": 1, "pipeline": 2}.get(over, 4))
    steps = PipelinedSteps(told, devices) if over == "pipeline" else MeshSteps(told, devices)
    start, course = initial(told.network.shape, 3, [np.arange(CODES + 1)]), Course(EPOCHS, EPOCHS, 7)
    expected = fitted(steps, start, ROWS, course, Around())
    around = Around(end=END)
    with pytest.raises(InterruptedError, match="killed"):
        fitted(steps, start, ROWS, course, around)
    found = fitted(steps, start, ROWS, course, Around(around.place))
    assert (found.resumed, expected.resumed) == (END, 0)
    assert (found.losses, found.watched, found.epoch) == (expected.losses, expected.watched, expected.epoch)
    for name, array in expected.parameters.items():
        np.testing.assert_array_equal(found.parameters[name], array, strict=True)


def test_a_file_that_is_torn__is_no_beginning() -> None:
    begun, found = object(), Fitted({})
    assert Keeper(Kept(b"\x00" * 100)).resumed(begun, found) == (begun, found)
