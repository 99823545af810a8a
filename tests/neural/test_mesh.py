"""Steps over eight devices of this process go the way of one, and say what they cost."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from pipeline.backend.neural import neural_devices
from pipeline.errors import PlaceError
from pipeline.neural.mesh import MeshSteps
from pipeline.neural.perceptron import initial
from tests.neural.batches import CODES, assert_close, batch, on_one_device, task, trained

pytestmark = pytest.mark.long  # JAX compiles its programs

BATCHES = [batch(64, number, padding=5 * number) for number in range(5)]
HARD: dict[str, Any] = {"dropout": 0.2, "optimizer": "adamw", "clip": 0.3, "schedule": "cosine", "warmup": 2}


MORE = [(8, 1, 1), (8, 1, 2), (4, 4, 1), (8, 4, 1)]
MIXES = [(4, 2, 2), *(pytest.param(*mix, marks=pytest.mark.soak) for mix in MORE)]


@pytest.mark.parametrize(("devices", "model", "accumulate"), MIXES)
def test_several_devices__have_the_losses_and_parameters_of_one(devices: int, model: int, accumulate: int) -> None:
    expected, losses = on_one_device(task((8, 4), **HARD), BATCHES)
    told = task((8, 4), **HARD, accumulate=accumulate)
    steps = MeshSteps(told, neural_devices("cpu", devices), model)
    found, others = trained(steps, told, BATCHES)
    np.testing.assert_allclose(others, losses, rtol=1e-5)
    assert_close(found, expected, 5e-5)


def test_model__has_a_share_of_each_hidden_layer_and_of_its_optimizer_on_every_device() -> None:
    told = task((8, 4), optimizer="adamw")
    state = MeshSteps(told, neural_devices("cpu", 4), 4).begun(initial(told.network.shape, 3, [np.arange(CODES + 1)]))
    shapes = {leaf.addressable_shards[0].data.shape for leaf in jax.tree.leaves(state)}
    assert {(5, 2), (8, 1), (4, 1)} <= shapes
    assert not {(5, 8), (8, 4)} & shapes


def test_data__sends_each_gradient_twice_around_the_ring() -> None:
    told = task()
    start = initial(told.network.shape, 3, [np.arange(CODES + 1)])
    found = MeshSteps(told, neural_devices("cpu", 4)).cost(start, BATCHES[0])
    numbers = sum(array.size for array in start.values()) + 1  # and the loss
    assert found["bytes_sent"] == 4 * numbers * 2 * 3
    assert found["devices"] == 4
    times = [found[name] or 0.0 for name in ("step_ms", "compute_ms", "communication_ms")]
    assert times[0] == pytest.approx(times[1] + times[2])
    assert MeshSteps(told, neural_devices("cpu")).cost(start, BATCHES[0])["bytes_sent"] == 0


def test_neural_devices__are_eight_of_a_cpu_and_more_are_refused() -> None:
    assert len({str(device) for device in neural_devices("cpu", 8)}) == 8
    with pytest.raises(PlaceError, match=r"9 devices are asked for, and JAX, which has started in this process, sees 8. Start Python anew"):
        neural_devices("cpu", 9)
