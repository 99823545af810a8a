"""Steps with privacy: a row's gradient is no longer than clip, noise has its deviation, and without both they are plain steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from pipeline.backend.neural import neural_devices
from pipeline.kernels.secure_noise import normals, uniforms
from pipeline.neural.mesh import MeshSteps, Task
from pipeline.neural.perceptron import Perceptron, Shape, initial
from pipeline.neural.private import DrawnRows, Noise, PrivateSteps
from pipeline.neural.rules import Rule
from pipeline.neural.training import Rows

pytestmark = pytest.mark.long  # JAX compiles its programs

ROWS, UNLIKELY = 300, 1e-7
SHAPE = Shape(3, ((5, 2),), (8,), 1, "tanh")
TASK = Task(Perceptron(SHAPE), "binary", Rule("sgd", 0.5, 0.0, 0.0, "constant", 1, 0), None)
START = initial(SHAPE, 7, [np.arange(5)])


def rows() -> dict[str, Any]:
    """Rows to learn from."""
    random = np.random.default_rng(3)
    numbers, codes = random.normal(size=(ROWS, 3)).astype(np.float32), random.integers(0, 5, (ROWS, 1)).astype(np.int32)
    targets = (numbers[:, 0] + (codes[:, 0] == 2) > 0).astype(np.float32)
    return {"numbers": numbers, "codes": codes, "targets": targets, "weighs": np.ones(ROWS, np.float32)}


def private(clip: float, multiplier: float, expected: int = ROWS) -> PrivateSteps:
    """Steps with privacy."""
    return PrivateSteps(TASK, neural_devices("cpu")[0], Noise(clip, multiplier), expected)


def length(arrays: dict[str, Any]) -> float:
    """Of all arrays as one vector."""
    return float(np.sqrt(sum(np.square(array).sum() for array in arrays.values())))


def test_private_steps__without_noise_and_with_a_long_clip_are_plain_ones() -> None:
    (batch,) = DrawnRows(rows(), ROWS).batches(1, 0)
    assert len(batch["targets"]) == ROWS
    steps = private(1e6, 0.0)
    state, loss = steps.step(steps.begun(START), batch)
    plain = MeshSteps(TASK, neural_devices("cpu"))
    expected, total = plain.step(plain.begun(START), next(Rows(rows(), ROWS).batches(1, 0)))
    assert loss == pytest.approx(float(total), rel=1e-5)
    for name, array in plain.parameters(expected).items():
        np.testing.assert_allclose(steps.parameters(state)[name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clip", [0.05, 0.4])
def test_private_steps__shorten_the_gradient_of_each_row(clip: float) -> None:
    steps, whole = private(clip, 0.0), dict.fromkeys(START, 0.0)
    batch = {**rows(), "real": np.ones(ROWS, np.float32), "keys": np.zeros(ROWS, np.uint32)}
    lengths = []
    for place in range(40):
        found = steps.clipped_sum(START, {name: array[place : place + 1] for name, array in batch.items()})[1]
        lengths.append(length(found))
        whole = {name: whole[name] + array for name, array in found.items()}
    assert max(lengths) <= clip * (1 + 1e-5)
    assert sum(one > clip * (1 - 1e-5) for one in lengths) > 10
    together = steps.clipped_sum(START, {name: array[:40] for name, array in batch.items()})[1]
    for name, array in together.items():
        np.testing.assert_allclose(array, whole[name], rtol=1e-4, atol=1e-6)


def test_private_steps__add_noise_of_the_stated_deviation_to_the_sum() -> None:
    shape = Shape(40, (), (100,), 1)
    task = Task(Perceptron(shape), "binary", Rule("sgd", 1.0, 0.0, 0.0, "constant", 1, 0), None)
    start = initial(shape, 7, [])
    steps = PrivateSteps(task, neural_devices("cpu")[0], Noise(0.5, 3.0), 20)
    nothing = {"numbers": np.zeros((0, 40), np.float32), "codes": np.zeros((0, 0), np.int32), "targets": np.zeros(0, np.float32)}
    nothing |= {"weighs": np.zeros(0, np.float32), "real": np.zeros(0, np.float32), "keys": np.zeros(0, np.uint32)}
    moves = []
    for _ in range(2):
        after = steps.parameters(steps.step(steps.begun(start), nothing)[0])
        moves.append(np.concatenate([(after[name] - start[name]).ravel() for name in start]))
    assert not np.array_equal(*moves)
    assert stats.kstest(moves[0] / (0.5 * 3.0 / 20), "norm").pvalue > UNLIKELY


def test_noise__is_normal_and_rows_are_drawn_by_their_chance() -> None:
    assert stats.kstest(normals(20_000), "norm").pvalue > UNLIKELY
    assert 0 < uniforms(1000).min() < uniforms(1000).max() < 1
    drawn = [len(batch["targets"]) for epoch in range(20) for batch in DrawnRows(rows(), 30).batches(1, epoch)]
    assert len(drawn) == 200
    assert stats.binomtest(sum(drawn), 200 * ROWS, 0.1).pvalue > UNLIKELY
    assert len({*drawn}) > 5
