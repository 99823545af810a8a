"""Steps of training with differential privacy: every row's gradient is shortened, and noise is added to their sum (DP-SGD).

Abadi and others (2016), Deep Learning with Differential Privacy. Rows of a step are drawn each for itself (Poisson), as accountants have
it, and the sum is divided by how many are expected, not by how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import optax

from pipeline.backend.neural import run_single
from pipeline.kernels.secure_noise import normals, uniforms
from pipeline.neural.chance import row_keys
from pipeline.neural.mesh import Task
from pipeline.neural.objectives import losses
from pipeline.neural.perceptron import Parameters, variables
from pipeline.neural.predicting import padded
from pipeline.neural.rules import clipped
from pipeline.neural.training import Batch, Rows

Array = Any
Tree = Any

MOST_PIECE, PIECE_NUMBERS = 256, 1 << 24
"""Rows whose gradients are held at once, and numbers of these."""


class DrawnRows(Rows):
    """Rows of which every step takes each by the same chance, `batch` of them on the mean, from the system's entropy."""

    def batches(self, seed: int, epoch: int) -> Iterator[Batch]:
        """As many batches as an epoch has; `seed` is for what is dropped alone."""
        for number in range(self.steps):
            chosen = np.flatnonzero(uniforms(self.count) < self.batch / self.count)
            batch = {name: array[chosen] for name, array in self.arrays.items()}
            yield {**batch, "real": np.ones(len(chosen), np.float32), "keys": row_keys(seed, epoch, number, len(chosen))}


@dataclass(frozen=True)
class Noise:
    """How long a row's gradient may be, and the noise's deviation as a multiple of that."""

    clip: float
    multiplier: float


class PrivateSteps:
    """Training steps on one device, of rows that `DrawnRows` drew, `expected` of them on the mean."""

    def __init__(self, task: Task, device: Any, noise: Noise, expected: int) -> None:
        self._task, self._device, self._noise, self._expected = task, device, noise, expected
        self._begin, self._sum, self._step = _programs(task, noise.clip)

    def begun(self, parameters: Parameters) -> Tree:
        """Parameters and the optimizer's state."""
        return run_single(self._begin, jax.device_put(parameters, self._device))

    def step(self, state: Tree, batch: Batch) -> tuple[Tree, float]:
        """The state after a batch, and the sum of its rows' losses."""
        loss, sums = self.clipped_sum(state[0], batch)
        deviation = self._noise.clip * self._noise.multiplier
        noisy = {
            name: (array + deviation * normals(array.size).reshape(array.shape)) / self._expected for name, array in sorted(sums.items())
        }
        gradients = {name: array.astype(np.float32) for name, array in noisy.items()}
        return run_single(self._step, state, jax.device_put(gradients, self._device)), loss

    def clipped_sum(self, parameters: Tree, batch: Batch) -> tuple[float, Parameters]:
        """Sums of the rows' losses, and of their gradients, none longer than `clip`: float64."""
        size = sum(array.size for array in parameters.values())
        piece = max(1, min(MOST_PIECE, PIECE_NUMBERS // max(size, 1)))
        total, sums = 0.0, {name: np.zeros(array.shape) for name, array in parameters.items()}
        for start in range(0, len(batch["targets"]), piece):
            given = {name: padded(array[start : start + piece], piece) for name, array in batch.items()}
            loss, found = run_single(self._sum, parameters, jax.device_put(given, self._device))
            total += float(loss)
            for name, array in found.items():
                sums[name] += np.asarray(array, np.float64)
        return total, sums

    def parameters(self, state: Tree) -> Parameters:
        """The parameters, in the host's memory."""
        return {name: np.asarray(value) for name, value in state[0].items()}

    def skipped(self, state: Tree) -> int:
        """None: it is no training in float16."""
        return 0

    def cost(self, parameters: Parameters, batch: Batch) -> dict[str, float | None]:
        """Nothing is exchanged."""
        return {}


@lru_cache(maxsize=16)
def _programs(task: Task, clip: float) -> tuple[Any, Any, Any]:
    """What begins a state, what sums shortened gradients of rows, and what steps by them."""
    transform = task.rule.made()

    def of_row(parameters: Tree, row: Batch) -> Array:
        """A row's loss."""
        one = jax.tree.map(lambda array: array[None], row)
        given = task.network.apply(variables(parameters), one["numbers"], one["codes"], one["keys"])
        return losses(task.objective, given, one["targets"])[0]

    def shortened(parameters: Tree, row: Batch) -> tuple[Array, Tree]:
        """A row's loss and its gradient, none where it is padding."""
        loss, gradient = jax.value_and_grad(of_row)(parameters, row)
        return loss * row["real"], jax.tree.map(lambda array: array * row["real"], clipped(gradient, clip))

    def summed(parameters: Tree, rows: Batch) -> tuple[Array, Tree]:
        """Sums over the rows of a piece."""
        found: tuple[Array, Tree] = jax.tree.map(lambda array: array.sum(axis=0), jax.vmap(shortened, (None, 0))(parameters, rows))
        return found

    def begin(parameters: Tree) -> Tree:
        """Parameters, and the optimizer's state."""
        return parameters, transform.init(parameters)

    def step(state: Tree, gradients: Tree) -> Tree:
        """The state after a step."""
        parameters, inner = state
        changes, inner = transform.update(gradients, inner, parameters)
        return optax.apply_updates(parameters, changes), inner

    return jax.jit(begin), jax.jit(summed), jax.jit(step)
