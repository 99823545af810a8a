"""A parameter server: it holds the parameters and the optimizer, and steps when the shares of a batch are there from all learners."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from threading import Lock
from typing import Any

import jax
import numpy as np
import optax

from pipeline.backend.devices import Backend
from pipeline.backend.neural import neural_devices, run_single
from pipeline.errors import RunError
from pipeline.neural.mesh import Task
from pipeline.neural.perceptron import Parameters
from pipeline.neural.scaling import scaling_of, skipped_steps, updated

Tree = Any
REMEMBERED = 10_000  # steps, of which the times are kept


@dataclass(frozen=True)
class Taken:
    """What a learner takes: the step that it is to compute, the parameters, how many steps these have made, and the scale of gradients."""

    step: int
    version: int
    parameters: Parameters
    scale: float


@dataclass(frozen=True)
class Ended:
    """What a learner takes when there is no more to do."""


@dataclass(frozen=True)
class Share:
    """What a learner gives: of which step, by parameters that had made how many, its rows' summed loss, gradients, and its seconds."""

    step: int
    version: int
    loss: float
    gradients: Parameters
    seconds: float


@dataclass(frozen=True)
class Epoch:
    """The summed loss of an epoch, the parameters after it, and how many steps were skipped so far."""

    loss: float
    parameters: Parameters
    skipped: int


@dataclass(frozen=True)
class Beginning:
    """What training begins with: the task, its parameters, how many steps make an epoch, how many epochs, and the device."""

    task: Task
    parameters: Parameters
    steps: int
    epochs: int
    backend: Backend = "cpu"


class ParameterServer:
    """Learners take parameters, and give gradients of their shares of a batch. No call waits: who is early is told so by None.

    A step is made of the shares of one batch from all learners, in the order of the learners, so it is the step that one device would
    make, but by gradients of older parameters: a learner may be `staleness` steps ahead of the slowest, and no more (Ho et al. 2013).
    """

    def __init__(self, learners: int, staleness: int) -> None:
        self._learners, self._staleness, self._lock = learners, staleness, Lock()
        self._given: Beginning | None = None
        self._failed, self._ended = "", False
        self._working = set[int]()  # learners that have come and not left
        self._clocks = [0] * learners  # the step that each learner computes next
        self._shares: dict[int, dict[int, Share]] = defaultdict(dict)  # by step and learner, of steps that are not made yet
        self._version, self._loss = 0, 0.0
        self._epochs: dict[int, Epoch] = {}
        self._fetched = 0
        self._lags, self._seconds = list[int](), deque[float](maxlen=REMEMBERED)
        self._times: deque[float] = deque(maxlen=REMEMBERED)

    def begin(self, given: Beginning) -> None:
        """Training begins. Raises RunError where it has begun before: what drove it was lost."""
        with self._lock:
            if self._given is not None:
                raise RunError("the task that drives the learners was lost with its worker (out of memory?). Run again.")
            begin, self._step = _programs(given.task)
            (device,) = neural_devices(given.backend)
            self._state = run_single(begin, jax.device_put(given.parameters, device))
            self._show()
            self._given = given

    def take(self, learner: int) -> Taken | Ended | None:
        """What a learner is to do now; None where it must wait for the others, or for who looks at the epochs."""
        with self._lock:
            self._working.add(learner)
            if self._ended or self._failed:
                return Ended()
            if self._given is None:
                return None
            step = self._clocks[learner]
            if step == self._given.steps * self._given.epochs:
                return Ended()
            early = step - self._version > self._staleness or step // self._given.steps > self._fetched + 1
            return None if early else Taken(step, self._version, self._parameters, self._scale)

    def give(self, learner: int, share: Share) -> None:
        """A learner's share of its step. One that came before, of a task that Dask ran twice, changes nothing."""
        with self._lock:
            if share.step != self._clocks[learner] or self._ended:
                return
            self._clocks[learner] += 1
            self._shares[share.step][learner] = share
            while len(self._shares[self._version]) == self._learners:
                self._make_step([of for _, of in sorted(self._shares.pop(self._version).items())])

    def _make_step(self, shares: list[Share]) -> None:
        assert self._given is not None
        self._state = run_single(self._step, self._state, [share.gradients for share in shares])
        self._show()
        self._loss += sum(share.loss for share in shares)
        self._lags += [share.step - share.version for share in shares]
        self._seconds.extend(share.seconds for share in shares)
        self._times.append(time.perf_counter())
        self._version += 1
        if self._version % self._given.steps == 0:
            self._epochs[self._version // self._given.steps - 1] = Epoch(self._loss, self._parameters, skipped_steps(self._state[2]))
            self._loss = 0.0

    def _show(self) -> None:
        """Parameters and scale as learners take them, in the host's memory."""
        parameters, _, scales = self._state
        self._parameters: Parameters = {name: np.asarray(value) for name, value in parameters.items()}
        self._scale = float(scales.scale) if scales else 1.0

    def epoch(self, number: int) -> Epoch | None:
        """What came of an epoch, once; None where it is not over. Raises RunError where a learner failed."""
        with self._lock:
            if self._failed:
                raise RunError(self._failed)
            if number not in self._epochs:
                return None
            self._fetched = number + 1
            return self._epochs.pop(number)

    def leave(self, learner: int, failed: str = "") -> None:
        """A learner ends. Where it failed the others end too, and who asks for an epoch hears of the first failure."""
        with self._lock:
            self._working.discard(learner)
            self._failed = self._failed or failed

    def end(self) -> bool | None:
        """Learners end at their next step; None while some have not."""
        with self._lock:
            self._ended = True
            return None if self._working else True

    def cost(self) -> dict[str, float | None]:
        """What a step took, of those that were made: bytes to the learners and back, milliseconds, and how old its parameters were."""
        with self._lock:
            size = sum(array.nbytes for array in self._parameters.values())
            between = np.diff(np.array(self._times)) * 1000
            step = float(np.median(between)) if len(between) else None
            compute = min(median(self._seconds) * 1000, step) if step is not None else None
            rest = None if step is None or compute is None else step - compute
            return {
                "devices": float(self._learners),
                "bytes_sent": float(2 * self._learners * size),
                "step_ms": step,
                "compute_ms": compute,
                "communication_ms": rest,
                "staleness_most": float(max(self._lags, default=0)),
                "staleness_mean": float(np.mean(self._lags)) if self._lags else 0.0,
            }


@lru_cache(maxsize=16)
def _programs(task: Task) -> tuple[Any, Any]:
    """What begins a state from parameters, and what steps by the gradients of all learners."""
    transform = task.rule.made()

    def begin(parameters: Tree) -> Tree:
        """Parameters, the optimizer's state, and the scale of gradients."""
        return parameters, transform.init(parameters), scaling_of(task.network)

    def step(state: Tree, shares: list[Tree]) -> Tree:
        """The state after a step by the sum of all."""
        gradients = jax.tree.map(lambda *each: sum(each[1:], each[0]), *shares)
        return updated(transform, task.clip, state, gradients, optax.tree.norm(gradients, squared=True))

    return jax.jit(begin), jax.jit(step)
