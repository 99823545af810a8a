"""Texts in a network: a step by hand, and what moves its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipeline.neural.influence import centre_of
from pipeline.neural.inputs import Inputs
from pipeline.neural.mesh import Task
from pipeline.neural.perceptron import Perceptron, Shape, initial
from pipeline.neural.saved import Trained
from pipeline.neural.towards import of_embeddings, towards
from tests.neural.batches import CODES, assert_close, on_one_device, rule

pytestmark = pytest.mark.long  # JAX compiles its programs

SHAPE = Shape(1, (), (), 1, texts=((6, 3, 4),))
GRAMS = np.array([[1, 2, 2, 0], [5, 0, 0, 0], [0, 0, 0, 0]], np.int32)  # the last row has none
NUMBERS, TARGETS = np.array([[0.5], [-1.0], [2.0]], np.float32), np.array([1.0, 0.0, 1.0], np.float32)


def _means(table: Any) -> Any:
    """The mean embedding of each row's n-grams, and the share that each row of the table has in it."""
    shares = np.array([np.bincount(codes[codes > 0], minlength=6) / max((codes > 0).sum(), 1) for codes in GRAMS])
    return shares @ table, shares


def test_a_step_with_texts__is_the_one_by_hand() -> None:
    told = Task(Perceptron(SHAPE), "binary", rule(), None)
    ones = np.ones(3, np.float32)
    batch = {"numbers": NUMBERS, "codes": GRAMS, "targets": TARGETS, "weighs": ones / 3, "real": ones, "keys": np.zeros(3, np.uint32)}
    found, losses = on_one_device(told, [batch])
    start = {name: value.astype(np.float64) for name, value in initial(SHAPE, 3, [np.arange(CODES + 1)]).items()}
    kernel, table = start["layers_0/kernel"], start["texts_0/embedding"]
    means, shares = _means(table)
    values = np.hstack([NUMBERS, means])
    odds = values @ kernel + start["layers_0/bias"]
    chance = 1 / (1 + np.exp(-odds[:, 0]))
    apart = (chance - TARGETS)[:, None] / 3
    down = apart @ kernel.T
    expected = {
        "layers_0/kernel": kernel - 0.1 * values.T @ apart,
        "layers_0/bias": start["layers_0/bias"] - 0.1 * apart.sum(axis=0),
        "texts_0/embedding": table - 0.1 * shares.T @ down[:, 1:],
    }
    assert_close(found, {name: value.astype(np.float32) for name, value in expected.items()}, 1e-6)
    loss = -np.where(TARGETS == 1, np.log(chance), np.log(1 - chance)).sum()
    assert losses[0] == pytest.approx(loss, rel=1e-6)


def test_towards__of_a_linear_network_are_its_weights_by_the_distance_from_the_mean() -> None:
    shape = replace(SHAPE, outputs=3)
    parameters = initial(shape, 5, [np.arange(6)])
    network = Trained(shape, "multiclass", Inputs((0,), (1, 2, 3, 4), np.zeros(1), np.ones(1)), (0.0, 1.0), parameters)
    gradients, centre = towards(network, (NUMBERS, GRAMS), "cpu"), centre_of(network, (NUMBERS, GRAMS))
    kernel = parameters["layers_0/kernel"]
    np.testing.assert_allclose(gradients, (kernel - kernel.mean(axis=1, keepdims=True)).T, rtol=1e-5, atol=1e-7)
    table = parameters["texts_0/embedding"]
    np.testing.assert_allclose(centre, [0.5, *_means(table)[0].mean(axis=0)], rtol=1e-5)
    moved = of_embeddings(network, 0, gradients, np.array([2, 5]), centre)
    np.testing.assert_allclose(moved, (table[[2, 5]] - centre[1:]) @ gradients[:, 1:].T)
