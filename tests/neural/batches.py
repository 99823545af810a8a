"""Rows, networks and rules that the tests of training steps share."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.neural.chance import row_keys
from pipeline.neural.mesh import MeshSteps, Task
from pipeline.neural.perceptron import Perceptron, Shape, initial
from pipeline.neural.rules import Rule

CODES = 4  # of one category, beside the missing one


def rule(**more: Any) -> Rule:
    """Plain gradient descent."""
    given = {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.0, "schedule": "constant"}
    return Rule(**{**given, "steps": 100, "warmup": 0, **more})


def task(layers: tuple[int, ...] = (8, 5), objective: str = "binary", **more: Any) -> Task:
    """Three numbers and a category; `more` are of the network (dropout, dtype), the rule, clip, accumulate and compression."""
    shape = Shape(3, ((CODES + 1, 2),), layers, 3 if objective == "multiclass" else 1, more.pop("activation", "relu"))
    network = Perceptron(shape, more.pop("dropout", 0.0), more.pop("dtype", "float32"))
    clip, accumulate, compression = more.pop("clip", None), more.pop("accumulate", 1), more.pop("compression", None)
    return Task(network, objective, rule(**more), clip, accumulate, compression)


def batch(rows: int, number: int = 0, *, padding: int = 0) -> dict[str, Any]:
    """Rows of a batch, the last ones padding."""
    random = np.random.default_rng(number)
    numbers, codes = random.normal(size=(rows, 3)).astype(np.float32), random.integers(0, CODES + 1, (rows, 1)).astype(np.int32)
    real = np.append(np.ones(rows - padding), np.zeros(padding)).astype(np.float32)
    targets = (numbers[:, 0] + (codes[:, 0] == 2) > 0).astype(np.float32)
    weighs = real * random.uniform(0.5, 1.5, rows).astype(np.float32) / np.float32(real.sum())
    return {"numbers": numbers, "codes": codes, "targets": targets, "weighs": weighs, "real": real, "keys": row_keys(7, 0, number, rows)}


def trained(steps: Any, told: Task, batches: list[dict[str, Any]]) -> tuple[dict[str, Any], list[float]]:
    """The parameters after these batches, and the loss of each."""
    shape = told.network.shape
    state, losses = steps.begun(initial(shape, 3, [np.arange(CODES + 1)])), []
    for each in batches:
        state, loss = steps.step(state, each)
        losses.append(float(loss))
    return steps.parameters(state), losses


def on_one_device(told: Task, batches: list[dict[str, Any]]) -> tuple[dict[str, Any], list[float]]:
    """What one device gives."""
    from pipeline.backend.neural import neural_devices

    return trained(MeshSteps(told, neural_devices("cpu")), told, batches)


def assert_close(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    """Parameters are alike, absolutely."""
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=tolerance, rtol=tolerance, err_msg=name)
