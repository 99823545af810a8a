"""Steps over stages of layers, each on a device of its own, go the way of one device, and say what they send."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.backend.neural import neural_devices
from pipeline.neural.perceptron import initial
from pipeline.neural.pipelined import PipelinedSteps
from tests.neural.batches import CODES, assert_close, batch, on_one_device, task, trained

pytestmark = pytest.mark.long  # JAX compiles its programs

BATCHES = [batch(64, number, padding=5 * number) for number in range(4)]
HARD: dict[str, Any] = {"dropout": 0.2, "optimizer": "adamw", "clip": 0.3, "schedule": "cosine", "warmup": 2}


MORE = [(2, 1, 1, 1), (4, 1, 1, 4), (2, 1, 2, 1), (2, 2, 2, 2)]
MIXES = [(2, 2, 1, 2), *(pytest.param(*mix, marks=pytest.mark.soak) for mix in MORE)]


@pytest.mark.parametrize(("stages", "data", "model", "pieces"), MIXES)
def test_stages_of_layers__have_the_losses_and_parameters_of_one_device(stages: int, data: int, model: int, pieces: int) -> None:
    expected, losses = on_one_device(task((8, 6, 4), **HARD), BATCHES)
    told = task((8, 6, 4), **HARD, accumulate=pieces)
    found, others = trained(PipelinedSteps(told, neural_devices("cpu", stages * data * model), data, model), told, BATCHES)
    np.testing.assert_allclose(others, losses, rtol=1e-5)
    assert_close(found, expected, 5e-5)


def test_stages_of_several_devices__share_rows_and_layers_and_say_what_they_send() -> None:
    told = task((8, 6, 4))
    start = initial(told.network.shape, 3, [np.arange(CODES + 1)])
    rows, layers = (PipelinedSteps(told, neural_devices("cpu", 4), *mix) for mix in ((2, 1), (1, 2)))
    own = layers.begun(start)[0][0][0]
    assert own["layers_0/kernel"].addressable_shards[0].data.shape == (5, 4)
    numbers = sum(array.size for array in start.values())
    sent = rows.cost(start, BATCHES[0])["bytes_sent"] or 0.0
    assert 2 * 64 * 6 * 4 + 2 * numbers * 4 <= sent < 1.1 * (2 * 64 * 6 * 4 + 2 * numbers * 4)
    assert (layers.cost(start, BATCHES[0])["bytes_sent"] or 0.0) > 2 * 2 * 64 * 6 * 4


def test_stages_of_layers__hold_their_own_parameters_and_send_values_forth_and_gradients_back() -> None:
    told = task((8, 6, 4), accumulate=2)
    start, devices = initial(told.network.shape, 3, [np.arange(CODES + 1)]), neural_devices("cpu", 3)
    steps = PipelinedSteps(told, devices)
    own = [sorted(parameters) for parameters, _ in steps.begun(start)[0]]
    assert [{name.split("/")[0] for name in names} for names in own] == [
        {"embeddings_0", "layers_0"},
        {"layers_1"},
        {"layers_2", "layers_3"},
    ]
    found = steps.cost(start, BATCHES[0])
    assert found["bytes_sent"] == 2 * 64 * (8 + 6) * 4
    assert found["devices"] == 3
