"""A training step on one device: what NumPy computes by hand, and what scikit-learn's network does from the same weights."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from pipeline.neural.chance import kept
from pipeline.neural.mesh import Task
from pipeline.neural.perceptron import Shape, initial
from pipeline.neural.rules import Rule
from tests.neural.batches import CODES, assert_close, batch, on_one_device, rule, task

pytestmark = pytest.mark.long  # JAX compiles its programs


def by_hand(told: Task, rows: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """Parameters after one step of gradient descent, and the loss: forward and backward in NumPy, float64."""
    start = {name: value.astype(float) for name, value in initial(told.network.shape, 3, [np.arange(CODES + 1)]).items()}
    codes, drop = rows["codes"][:, 0], told.network.dropout
    values = [np.hstack([rows["numbers"], start["embeddings_0/embedding"][codes]])]
    slopes = []
    for layer, width in enumerate(told.network.shape.layers):
        before = values[-1] @ start[f"layers_{layer}/kernel"] + start[f"layers_{layer}/bias"]
        stay = kept(rows["keys"], layer, np.arange(width, dtype=np.uint32), drop) / (1 - drop)
        slopes.append((before > 0) * stay)
        values.append(before * slopes[-1])
    last = len(slopes)
    given = values[-1] @ start[f"layers_{last}/kernel"] + start[f"layers_{last}/bias"]
    chance = 1 / (1 + np.exp(-given[:, 0]))
    losses = -np.log(np.where(rows["targets"] == 1, chance, 1 - chance))
    error, gradients = ((chance - rows["targets"]) * rows["weighs"])[:, None], {}
    for layer in range(last, -1, -1):
        gradients[f"layers_{layer}/kernel"], gradients[f"layers_{layer}/bias"] = values[layer].T @ error, error.sum(axis=0)
        error = error @ start[f"layers_{layer}/kernel"].T * (slopes[layer - 1] if layer else 1)
    gradients["embeddings_0/embedding"] = np.zeros_like(start["embeddings_0/embedding"])
    np.add.at(gradients["embeddings_0/embedding"], codes, error[:, 3:])
    stepped = {name: start[name] - told.rule.learning_rate * gradients[name] for name in start}
    return stepped, float((losses * rows["real"]).sum())


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_step__is_what_numpy_gives_by_hand(dropout: float) -> None:
    told, rows = task(dropout=dropout, learning_rate=0.5), batch(24, padding=5)
    found, (loss,) = on_one_device(told, [rows])
    expected, by_numpy = by_hand(told, rows)
    assert_close(found, expected, 1e-5)
    assert loss == pytest.approx(by_numpy, rel=1e-5)


def test_dropout__leaves_out_its_share_and_differs_by_row_layer_and_batch() -> None:
    keys = batch(4_000)["keys"]
    columns = np.arange(50, dtype=np.uint32)
    masks = [kept(keys, layer, columns, 0.25) for layer in range(2)] + [kept(batch(4_000, 1)["keys"], 0, columns, 0.25)]
    for mask in masks:
        assert mask.mean() == pytest.approx(0.75, abs=0.004)
        assert np.abs(mask.mean(axis=0) - 0.75).max() < 0.03
        assert np.abs(np.corrcoef(mask.T) - np.eye(50)).max() < 0.08
    assert np.abs(np.corrcoef([mask.ravel() for mask in masks]) - np.eye(3)).max() < 0.01


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_training__goes_as_scikit_learns_does(objective: str, activation: str) -> None:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    random = np.random.default_rng(5)
    numbers = random.normal(size=(96, 3)).astype(np.float32)
    targets = {
        "regression": numbers @ [1.0, -2, 0.5],
        "binary": (numbers[:, 0] > 0) * 1.0,
        "multiclass": np.digitize(numbers[:, 0], [-0.5, 0.5]) * 1.0,
    }[objective].astype(np.float32)
    shape = Shape(3, (), (7, 4), 3 if objective == "multiclass" else 1, activation)
    start = initial(shape, 3, [])
    options = {"hidden_layer_sizes": (7, 4), "activation": activation, "solver": "sgd", "alpha": 0.0, "batch_size": 24, "shuffle": False}
    options |= {"learning_rate_init": 0.05, "momentum": 0.8, "nesterovs_momentum": False, "warm_start": True, "max_iter": 1}
    oracle = (MLPRegressor if objective == "regression" else MLPClassifier)(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        oracle.fit(numbers, targets)
        oracle.coefs_, oracle.intercepts_ = ([start[f"layers_{layer}/{of}"].copy() for layer in range(3)] for of in ("kernel", "bias"))
        oracle.set_params(max_iter=4, tol=0.0).fit(numbers, targets)
    found = _trained_in_order(shape, objective, rule(learning_rate=0.05, momentum=0.8), (numbers, targets))
    for layer in range(3):
        np.testing.assert_allclose(found[f"layers_{layer}/kernel"], oracle.coefs_[layer], atol=2e-5)
        np.testing.assert_allclose(found[f"layers_{layer}/bias"], oracle.intercepts_[layer], atol=2e-5)


def _trained_in_order(shape: Shape, objective: str, by: Rule, rows: tuple[Any, Any]) -> dict[str, Any]:
    """Parameters after four passes over the rows in batches of 24, as they stand."""
    from pipeline.backend.neural import neural_devices
    from pipeline.neural.mesh import MeshSteps
    from pipeline.neural.perceptron import Perceptron

    steps = MeshSteps(Task(Perceptron(shape), objective, by, None), neural_devices("cpu"))
    state, ones = steps.begun(initial(shape, 3, [])), np.ones(24, np.float32)
    for start in [0, 24, 48, 72] * 4:
        numbers, targets = (array[start : start + 24] for array in rows)
        codes, keys = np.zeros((24, 0), np.int32), np.zeros(24, np.uint32)
        piece = {"numbers": numbers, "codes": codes, "targets": targets, "weighs": ones / 24, "real": ones, "keys": keys}
        state, _ = steps.step(state, piece)
    return steps.parameters(state)


def test_accumulated_pieces__give_the_step_of_the_whole_batch() -> None:
    batches = [batch(24, number, padding=number) for number in range(4)]
    whole, losses = on_one_device(task(dropout=0.2, optimizer="adamw", clip=0.5), batches)
    pieces, others = on_one_device(task(dropout=0.2, optimizer="adamw", clip=0.5, accumulate=4), batches)
    assert_close(pieces, whole, 2e-5)
    np.testing.assert_allclose(others, losses, rtol=1e-5)


def test_clip__shortens_what_is_longer_alone() -> None:
    rows = [batch(24)]
    (start, _), (free, _) = on_one_device(task(learning_rate=1e-12), rows), on_one_device(task(), rows)
    length = np.sqrt(sum(float(((free[name] - start[name]) ** 2).sum()) for name in free)) / 0.1
    assert_close(on_one_device(task(clip=length * 1.01), rows)[0], free, 1e-6)
    half, _ = on_one_device(task(clip=length / 2), rows)
    assert_close(half, {name: (start[name] + free[name]) / 2 for name in free}, 1e-5)


def test_bfloat16__keeps_masters_in_float32_and_goes_nearly_the_same_way() -> None:
    batches = [batch(64, number) for number in range(30)]
    exact, losses = on_one_device(task(), batches)
    found, others = on_one_device(task(dtype="bfloat16"), batches)
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    assert found["layers_0/kernel"].tobytes() != exact["layers_0/kernel"].tobytes()
    np.testing.assert_allclose(others, losses, rtol=0.02)


def test_a_rule__warms_up_falls_by_cosine_and_lets_weights_shrink_alone() -> None:
    rates = rule(schedule="cosine", learning_rate=0.2, steps=30, warmup=10).rates()
    found = [float(rates(step)) for step in (0, 5, 10, 20, 30)]
    np.testing.assert_allclose(found, [0, 0.1, 0.2, 0.1, 0], atol=1e-7)
    rows = batch(24)
    rows["weighs"] = np.zeros_like(rows["weighs"])
    start = initial(task().network.shape, 3, [np.arange(CODES + 1)])
    for told in (task(weight_decay=0.5), task(weight_decay=0.5, optimizer="adamw")):
        found_parameters, _ = on_one_device(told, [rows])
        shrunk = {name: value if name.endswith("bias") else value * 0.95 for name, value in start.items()}
        assert_close(found_parameters, shrunk, 1e-6)


def test_initial__has_variance_by_what_comes_in_and_zeros_for_what_no_row_has() -> None:
    made = initial(Shape(400, ((300, 25),), (500,), 1), 1, [np.arange(100)])
    assert made["layers_0/kernel"].shape == (425, 500)
    assert made["layers_0/kernel"].std() == pytest.approx(1 / np.sqrt(425), rel=0.01)
    assert made["embeddings_0/embedding"][:100].std() == pytest.approx(1 / 5, rel=0.05)
    assert not made["embeddings_0/embedding"][100:].any()
    assert not made["layers_0/bias"].any()
