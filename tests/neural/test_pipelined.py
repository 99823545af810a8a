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


@pytest.mark.parametrize(("devices", "pieces"), [(2, 1), (4, 4)])
def test_stages_of_layers__have_the_losses_and_parameters_of_one_device(devices: int, pieces: int) -> None:
    expected, losses = on_one_device(task((8, 6, 4), **HARD), BATCHES)
    told = task((8, 6, 4), **HARD, accumulate=pieces)
    found, others = trained(PipelinedSteps(told, neural_devices("cpu", devices)), told, BATCHES)
    np.testing.assert_allclose(others, losses, rtol=1e-5)
    assert_close(found, expected, 5e-5)


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
