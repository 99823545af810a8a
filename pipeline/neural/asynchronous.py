"""Training by learners that do not wait for one another: each takes parameters, computes its share of a batch, and gives its gradients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import jax
import numpy as np

from pipeline.backend.devices import Backend
from pipeline.backend.neural import neural_devices, run_single
from pipeline.errors import RunError
from pipeline.neural.mesh import Task, summed
from pipeline.neural.parameter_server import Beginning, Ended, Epoch, Share, Taken
from pipeline.neural.perceptron import Parameters
from pipeline.neural.training import Batch, Rows, Steps

Found = TypeVar("Found")
State = tuple[int, Epoch]  # steps that were asked for, and what came of the last whole epoch
Look = Callable[[], None]
"""Called while somebody waits; it raises where nobody waits for the training any more."""

FIRST_S, LAST_S = 0.0005, 0.02  # between two questions of who waits: more and more
ENDED_S = 10.0  # for which learners' last shares are waited for


class Server(Protocol):
    """A ParameterServer, here or on another worker."""

    def begin(self, given: Beginning) -> None:
        """As ParameterServer does."""
        ...

    def take(self, learner: int) -> Taken | Ended | None:
        """As ParameterServer does."""
        ...

    def give(self, learner: int, share: Share) -> None:
        """As ParameterServer does."""
        ...

    def epoch(self, number: int) -> Epoch | None:
        """As ParameterServer does."""
        ...

    def leave(self, learner: int, failed: str = "") -> None:
        """As ParameterServer does."""
        ...

    def end(self) -> bool | None:
        """As ParameterServer does."""
        ...

    def cost(self) -> dict[str, float | None]:
        """As ParameterServer does."""
        ...


@dataclass(frozen=True)
class Lesson:
    """What learners learn: the task, the rows, the seed of their order, how many learners there are, and on what they compute."""

    task: Task
    rows: Rows
    seed: int
    learners: int
    backend: Backend = "cpu"


class LearnersSteps:
    """The steps of learners, for who drives the training: it does nothing but ask the server for one epoch after the other."""

    def __init__(self, server: Server, lesson: Lesson, epochs: int, look: Look) -> None:
        self._server, self._lesson, self._epochs, self._look = server, lesson, epochs, look

    def begun(self, parameters: Parameters) -> State:
        """The learners begin."""
        lesson = self._lesson
        self._server.begin(Beginning(lesson.task, parameters, lesson.rows.steps, self._epochs, lesson.backend))
        return 0, Epoch(0.0, parameters, 0)

    def step(self, state: State, batch: Batch) -> tuple[State, float]:
        """One step more was asked for. After the last one of an epoch: the parameters after it, and its summed loss; else 0."""
        asked, steps = state[0] + 1, self._lesson.rows.steps
        if asked % steps:
            return (asked, state[1]), 0.0
        found = _asked(lambda: self._server.epoch(asked // steps - 1), self._look)
        return (asked, found), found.loss

    def parameters(self, state: State) -> Parameters:
        """Those after the last whole epoch."""
        return state[1].parameters

    def skipped(self, state: State) -> int:
        """Steps that were skipped until then."""
        return state[1].skipped

    def cost(self, parameters: Parameters, batch: Batch) -> dict[str, float | None]:
        """What a step took while training went on."""
        return self._server.cost()


class Ticks(Rows):
    """Rows whose batches are empty: who drives learners counts them, and learners cut their own."""

    def batches(self, seed: int, epoch: int) -> Iterator[Batch]:
        """One for each of an epoch."""
        return iter([Batch() for _ in range(self.steps)])


def learn(server: Server, lesson: Lesson, learner: int, place: int, look: Look) -> None:
    """A learner's work to its end, on this process's device number `place`. Raises RunError, by its name, for what it fails with; the
    server tells it whoever drives the learners."""
    try:
        found = neural_devices(lesson.backend, 1 + place)
        _learn(server, lesson, learner, found[place], look)
    except Exception as error:
        failed = f"learner {learner + 1} of {lesson.learners} failed: {type(error).__name__}: {error}"
        server.leave(learner, failed)
        raise RunError(failed) from error
    server.leave(learner)


def _learn(server: Server, lesson: Lesson, learner: int, device: Any, look: Look) -> None:
    program, at, batches = _gradients(lesson.task), -1, iter(list[Batch]())
    while isinstance(taken := _asked(lambda: server.take(learner), look), Taken):
        look()
        if taken.step != at + 1 or not taken.step % lesson.rows.steps:
            batches = _batches_from(lesson, taken.step)
        at, batch = taken.step, next(batches)
        started = time.perf_counter()
        mine = {name: np.split(array, lesson.learners)[learner] for name, array in batch.items()}
        loss, gradients = run_single(program, *jax.device_put((taken.parameters, mine, np.float32(taken.scale)), device))
        given = {name: np.asarray(value) for name, value in gradients.items()}
        server.give(learner, Share(at, taken.version, float(loss), given, time.perf_counter() - started))


def _batches_from(lesson: Lesson, step: int) -> Iterator[Batch]:
    """The batches of a step's epoch, from that step on."""
    batches = lesson.rows.batches(lesson.seed, step // lesson.rows.steps)
    for _ in range(step % lesson.rows.steps):
        next(batches)
    return batches


def _asked(ask: Callable[[], Found | None], look: Look) -> Found:
    """The answer, asked for until there is one."""
    pause = FIRST_S
    while (found := ask()) is None:
        look()
        time.sleep(pause)
        pause = min(2 * pause, LAST_S)
    return found


@lru_cache(maxsize=16)
def _gradients(task: Task) -> Any:
    """What gives a share's summed loss and its gradients, compiled once a device."""

    def program(parameters: Any, rows: Batch, scale: Any) -> Any:
        """Loss and gradients, computed so many times as great."""
        loss, gradients = summed(task, parameters, {**rows, "weighs": rows["weighs"] * scale})
        return loss, jax.tree.map(lambda array: array / scale, gradients)

    return jax.jit(program)


@contextmanager
def driven(server: Server, lesson: Lesson, epochs: int, look: Look) -> Iterator[tuple[Steps, Rows]]:
    """The steps of a server's learners, wherever these are, and rows for who drives them. Learners end with the block, whatever happens."""
    try:
        yield LearnersSteps(server, lesson, epochs, look), Ticks(lesson.rows.arrays, lesson.rows.batch)
    finally:
        _ended(server)


def _ended(server: Server) -> None:
    """End the learners, and wait until they have, for so long that none of them asks a server that is gone."""
    until = time.monotonic() + ENDED_S
    while server.end() is None and time.monotonic() < until:
        time.sleep(LAST_S)


@contextmanager
def learners_here(server: Server, lesson: Lesson) -> Iterator[None]:
    """All learners as threads of this process, each with a device of its own. Who drives them in the block ends them."""
    neural_devices(lesson.backend, lesson.learners)

    def nobody() -> None:
        """Who drives them looks."""

    with ThreadPoolExecutor(lesson.learners, "learner") as pool:
        for number in range(lesson.learners):
            pool.submit(learn, server, lesson, number, number, nobody)
        yield
