"""Gradients in float16: scaled so that they do not vanish, and a step that float16 does not hold is skipped."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from pipeline.backend.neural import neural_devices
from pipeline.neural import scaling
from pipeline.neural.mesh import MeshSteps
from pipeline.neural.perceptron import initial
from pipeline.neural.pipelined import PipelinedSteps
from pipeline.neural.scaling import FIRST, GOOD_STEPS, Scaling
from tests.neural.batches import CODES, batch, on_one_device, task, trained

pytestmark = pytest.mark.long  # JAX compiles its programs

TINY = 2.0**-12


def light(number: int) -> dict[str, Any]:
    """A batch whose rows weigh so little that float16 has no gradients of most of them."""
    rows = batch(64, number)
    return {**rows, "weighs": rows["weighs"] * np.float32(TINY)}


def test_float16__keeps_masters_in_float32_and_goes_nearly_the_same_way() -> None:
    batches = [batch(64, number) for number in range(30)]
    exact, losses = on_one_device(task(), batches)
    found, others = on_one_device(task(dtype="float16"), batches)
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    assert found["layers_0/kernel"].tobytes() != exact["layers_0/kernel"].tobytes()
    np.testing.assert_allclose(others, losses, rtol=0.005)


def test_float16__gradients_that_would_vanish_are_those_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, rate = [light(number) for number in range(4)], 0.1 / TINY
    start, (exact, _) = initial(task().network.shape, 3, [np.arange(CODES + 1)]), on_one_device(task(learning_rate=rate), batches)
    moved = {name: np.abs(exact[name] - start[name]).max() for name in start}

    def farthest(found: dict[str, Any]) -> float:
        """The error, as a share of how far a parameter moved."""
        return max(float(np.abs(found[name] - exact[name]).max() / moved[name]) for name in start if moved[name] > 0)

    scaled = farthest(on_one_device(task(learning_rate=rate, dtype="float16"), batches)[0])
    monkeypatch.setattr(scaling, "FIRST", 1.0)
    told = task(learning_rate=rate, dtype="float16", momentum=1e-12)  # another task: its programs are compiled anew
    assert scaled < 0.01 < farthest(on_one_device(told, batches)[0])


@pytest.mark.parametrize("stages", [1, 2])
def test_a_gradient_that_overflows__skips_its_step_and_halves_the_scale(stages: int) -> None:
    told, heavy = task(dtype="float16", optimizer="adamw"), batch(64)
    heavy["weighs"] = heavy["weighs"] * np.float32(2.0**10)
    devices = neural_devices("cpu", stages)
    steps: Any = MeshSteps(told, devices) if stages == 1 else PipelinedSteps(told, devices)
    state, skipped = steps.begun(initial(told.network.shape, 3, [np.arange(CODES + 1)])), 0
    for _ in range(20):
        before = steps.parameters(state)
        state, loss = steps.step(state, heavy)
        assert np.isfinite(loss)
        stays = all(before[name].tobytes() == value.tobytes() for name, value in steps.parameters(state).items())
        assert stays == (steps.skipped(state) == skipped + 1)
        skipped = steps.skipped(state)
    assert 1 <= skipped < 15
    assert all(np.isfinite(value).all() for value in steps.parameters(state).values())


def test_the_scale__doubles_after_many_good_steps_and_halves_after_a_bad_one() -> None:
    found = Scaling(jnp.float32(FIRST), jnp.int32(GOOD_STEPS - 2), jnp.int32(0))
    once = found.after(jnp.bool_(True))
    twice = once.after(jnp.bool_(True))
    assert (float(once.scale), float(twice.scale)) == (FIRST, 2 * FIRST)
    assert (int(twice.good), int(twice.skipped)) == (0, 0)
    bad = twice.after(jnp.bool_(False)).after(jnp.bool_(False))
    assert (float(bad.scale), int(bad.good), int(bad.skipped)) == (FIRST / 2, 0, 2)


@pytest.mark.parametrize("way", ["data", "pipeline"])
def test_several_devices__scale_as_one_does(way: str) -> None:
    batches = [light(number) for number in range(4)]
    told = task(dtype="float16", learning_rate=0.1 / TINY, clip=0.3)
    _, losses = on_one_device(told, batches)
    steps = MeshSteps(told, neural_devices("cpu", 4)) if way == "data" else PipelinedSteps(told, neural_devices("cpu", 2))
    _, others = trained(steps, told, batches)
    np.testing.assert_allclose(others, losses, rtol=0.005)
