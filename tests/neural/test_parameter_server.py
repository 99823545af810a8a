"""A parameter server keeps to its bound, steps as one device does, and ends its learners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import RunError
from pipeline.neural.asynchronous import Lesson, driven, learners_here
from pipeline.neural.mesh import MeshSteps, Task
from pipeline.neural.parameter_server import Beginning, Ended, ParameterServer, Share, Taken
from pipeline.neural.perceptron import Parameters, initial
from pipeline.neural.training import Course, Fitted, Rows, fitted
from tests.neural.batches import CODES, assert_close, batch, task

pytestmark = pytest.mark.long  # JAX compiles its programs

COURSE = Course(3, None, 5)
HARD: dict[str, Any] = {"dropout": 0.2, "optimizer": "adamw", "clip": 0.3, "schedule": "cosine", "warmup": 2}


class Alone:
    """A training that nobody watches."""

    def resumed(self, state: Any, found: Fitted) -> tuple[Any, Fitted]:
        """It begins."""
        return state, found

    def watch(self, parameters: Parameters) -> None:
        """There are no other rows."""

    def done(self, state: Any, found: Fitted) -> None:
        """Nobody hears of it."""


def start_of(told: Task) -> Parameters:
    """The parameters that the tests begin with."""
    return initial(told.network.shape, 3, [np.arange(CODES + 1)])


def rows() -> Rows:
    """Four batches of 32, the last one not full."""
    return Rows({name: array for name, array in batch(120).items() if name not in {"keys", "real"}}, 32)


def by_learners(told: Task, learners: int, staleness: int) -> tuple[Fitted, dict[str, float | None]]:
    """What learners in threads give, and what it cost."""
    server, lesson = ParameterServer(learners, staleness), Lesson(told, rows(), COURSE.seed, learners)
    with learners_here(server, lesson), driven(server, lesson, COURSE.epochs, lambda: None) as (steps, ticks):
        return fitted(steps, start_of(told), ticks, COURSE, Alone()), steps.cost({}, {})


def on_one(told: Task) -> Fitted:
    """What one device gives."""
    from pipeline.backend.neural import neural_devices

    return fitted(MeshSteps(told, neural_devices("cpu")), start_of(told), rows(), COURSE, Alone())


def test_learners_in_step__go_the_way_of_one_device_and_the_same_way_again() -> None:
    told = task((8, 4), **HARD)
    expected, (found, cost) = on_one(told), by_learners(told, 4, 0)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-5)
    assert_close(found.parameters, expected.parameters, 5e-5)
    again, _ = by_learners(told, 4, 0)
    assert all(again.parameters[name].tobytes() == value.tobytes() for name, value in found.parameters.items())
    size = sum(array.nbytes for array in found.parameters.values())
    assert (cost["staleness_most"], cost["devices"], cost["bytes_sent"]) == (0, 4, 2 * 4 * size)
    times = [cost[name] or 0.0 for name in ("step_ms", "compute_ms", "communication_ms")]
    assert times[0] > 0
    assert times[0] == pytest.approx(times[1] + times[2])


def begun(learners: int, staleness: int, steps: int = 50, epochs: int = 1) -> tuple[ParameterServer, Parameters]:
    """A server that has begun, and gradients to give it."""
    told, server = task(), ParameterServer(learners, staleness)
    server.begin(Beginning(told, start_of(told), steps, epochs))
    return server, {name: np.ones_like(value) for name, value in start_of(told).items()}


def given(server: ParameterServer, learner: int, gradients: Parameters) -> bool:
    """Whether a learner may go on, and did: it gave its share."""
    taken = server.take(learner)
    if isinstance(taken, Taken):
        server.give(learner, Share(taken.step, taken.version, 1.0, gradients, 0.001))
    return isinstance(taken, Taken)


@pytest.mark.parametrize("staleness", [0, 3])
def test_a_learner__waits_when_it_is_so_many_steps_ahead_of_the_slowest(staleness: int) -> None:
    server, gradients = begun(2, staleness)
    assert [given(server, 0, gradients) for _ in range(6)] == [place <= staleness for place in range(6)]
    assert given(server, 1, gradients)
    assert [given(server, 0, gradients) for _ in range(2)] == [True, False]
    assert server.cost()["staleness_most"] == 0  # one step is made, of first parameters
    for _ in range(staleness):
        assert given(server, 1, gradients)
    assert server.cost()["staleness_most"] == staleness


def test_random_learners__are_never_staler_than_the_bound() -> None:
    random, (server, gradients) = np.random.default_rng(1), begun(3, 2)
    for learner in random.choice(3, 200, p=[0.7, 0.2, 0.1]):
        given(server, int(learner), gradients)
    found = server.cost()
    assert found["staleness_most"] == 2
    assert 0 < (found["staleness_mean"] or 0.0) < 2


def test_a_share_that_comes_twice__changes_nothing() -> None:
    server, gradients = begun(2, 1)
    taken = server.take(0)
    assert isinstance(taken, Taken)
    for _ in range(2):
        server.give(0, Share(taken.step, taken.version, 1.0, gradients, 0.001))
    again = server.take(0)
    assert isinstance(again, Taken)
    assert again.step == 1


def test_learners__wait_for_who_looks_at_epochs_and_end_with_the_last_one() -> None:
    server, gradients = begun(1, 0, steps=2, epochs=4)
    assert [given(server, 0, gradients) for _ in range(5)] == [True] * 4 + [False]
    first = server.epoch(0)
    assert first is not None
    assert (first.loss, first.skipped) == (2, 0)
    assert server.epoch(0) is None
    assert [given(server, 0, gradients) for _ in range(3)] == [True, True, False]
    server.end()
    assert isinstance(server.take(0), Ended)


def test_a_learner_that_fails__ends_the_others_and_is_named() -> None:
    told = task()
    torn = Rows({**rows().arrays, "codes": np.zeros((120, 2, 2), np.int32)}, 32)
    server, lesson = ParameterServer(2, 4), Lesson(told, torn, COURSE.seed, 2)
    with (
        pytest.raises(RunError, match=r"learner [12] of 2 failed: [A-Za-z]+: "),
        learners_here(server, lesson),
        driven(server, lesson, COURSE.epochs, lambda: None) as (steps, ticks),
    ):
        fitted(steps, start_of(told), ticks, COURSE, Alone())
    assert isinstance(server.take(0), Ended)


def test_a_server__begins_once() -> None:
    server, _ = begun(1, 0)
    with pytest.raises(RunError, match="the task that drives the learners was lost with its worker"):
        server.begin(Beginning(task(), {}, 1, 1))
