"""Steps of training on one device or over many: each computes the gradients of its rows, which are summed before parameters step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pipeline.backend.neural import run_program
from pipeline.neural.objectives import losses
from pipeline.neural.perceptron import Parameters, Perceptron, variables
from pipeline.neural.rules import Rule, clipped
from pipeline.neural.traffic import bytes_sent, step_times

Array = Any
Tree = Any
Batch = dict[str, Array]
"""Arrays of a batch's rows: `numbers`, `codes`, `targets`, what each `weighs` in the mean loss, which are `real` (1) and not padding,
and `keys` for what is dropped."""


@dataclass(frozen=True)
class Task:
    """What is trained, and how: the network, its objective, its rule, the longest gradient, and in how many pieces a batch is computed."""

    network: Perceptron
    objective: str
    rule: Rule
    clip: float | None
    accumulate: int = 1


class MeshSteps:
    """Training steps over devices that each take an equal share of every batch, and the same parameters."""

    def __init__(self, task: Task, devices: list[Any], *, exchange: bool = True) -> None:
        """`exchange`: whether gradients are summed; without, a step shows what computing alone costs."""
        self._mesh = Mesh(np.array(devices), ("data",))
        self._begin, self._step = _programs(task, self._mesh, exchange)

    def begun(self, parameters: Parameters) -> Tree:
        """Parameters and the optimizer's state, on every device."""
        return run_program(self._begin, jax.device_put(parameters, NamedSharding(self._mesh, PartitionSpec())))

    def step(self, state: Tree, batch: Batch) -> tuple[Tree, float]:
        """The state after a batch, and the sum of its rows' losses, unweighted."""
        placed = jax.device_put(batch, NamedSharding(self._mesh, PartitionSpec("data")))
        state, loss = run_program(self._step, state, placed)
        return state, float(loss)

    def bytes_sent(self, state: Tree, batch: Batch) -> int:
        """Bytes that all devices together send in a step, by the compiled program."""
        placed = jax.device_put(batch, NamedSharding(self._mesh, PartitionSpec("data")))
        return bytes_sent(self._step.lower(state, placed).compile().as_text() or "", self._mesh.size)

    def parameters(self, state: Tree) -> Parameters:
        """The parameters, in the host's memory."""
        return {name: np.asarray(value) for name, value in state[0].items()}


def cost(task: Task, devices: list[Any], parameters: Parameters, batch: Batch) -> dict[str, float | None]:
    """What a step costs over these devices: how many they are, bytes sent, and milliseconds in all, of computing and of exchanging."""
    whole, alone = MeshSteps(task, devices), MeshSteps(task, devices, exchange=False)
    state, other = whole.begun(parameters), alone.begun(parameters)
    times = step_times(lambda: whole.step(state, batch), lambda: alone.step(other, batch))
    return {"devices": float(len(devices)), "bytes_sent": float(whole.bytes_sent(state, batch)), **times}


@lru_cache(maxsize=16)
def _programs(task: Task, mesh: Mesh, exchange: bool) -> tuple[Any, Any]:
    """What begins a state from parameters, and what steps; compiled once for all trainings of a process that are alike."""
    transform, whole = task.rule.made(), NamedSharding(mesh, PartitionSpec())

    def begin(parameters: Tree) -> Tree:
        """Parameters and the optimizer's state."""
        return parameters, transform.init(parameters)

    def step(state: Tree, batch: Batch) -> tuple[Tree, Array]:
        """The state after a batch, and its summed loss."""
        parameters, inner = state
        loss, gradients = _gradients(task, mesh, exchange, parameters, batch)
        changes, inner = transform.update(clipped(gradients, task.clip), inner, parameters)
        return (optax.apply_updates(parameters, changes), inner), loss

    return jax.jit(begin, out_shardings=whole), jax.jit(step, out_shardings=whole)


def _gradients(task: Task, mesh: Mesh, exchange: bool, parameters: Tree, rows: Batch) -> tuple[Array, Tree]:
    """The summed loss and gradients of all devices."""

    def of_device(parameters: Tree, rows: Batch) -> tuple[Array, Tree]:
        """What one device adds, summed over all."""
        found = summed(task, parameters, rows)
        return jax.lax.psum(found, "data") if exchange else found

    whole, shared = PartitionSpec(), PartitionSpec("data")
    over = jax.shard_map(of_device, mesh=mesh, in_specs=(whole, shared), out_specs=whole, check_vma=False)
    found: tuple[Array, Tree] = over(parameters, rows)
    return found


def summed(task: Task, parameters: Tree, rows: Batch) -> tuple[Array, Tree]:
    """Sum of the rows' losses, and gradients of their weighted sum, computed in `accumulate` pieces one after another."""

    def weighted(parameters: Tree, piece: Batch) -> tuple[Array, Array]:
        """The loss to step by, and the plain one."""
        given = task.network.apply(variables(parameters), piece["numbers"], piece["codes"], piece["keys"])
        each = losses(task.objective, given, piece["targets"])
        return (each * piece["weighs"]).sum(), (each * piece["real"]).sum()

    def added(sums: tuple[Array, Tree], piece: Batch) -> tuple[tuple[Array, Tree], None]:
        """The sums with a piece's own."""
        (_, loss), gradients = jax.value_and_grad(weighted, has_aux=True)(parameters, piece)
        return jax.tree.map(jnp.add, sums, (loss, gradients)), None

    nothing = (jnp.float32(0), jax.tree.map(jnp.zeros_like, parameters))
    if task.accumulate == 1:
        return added(nothing, rows)[0]
    pieces = jax.tree.map(lambda array: array.reshape(task.accumulate, -1, *array.shape[1:]), rows)
    sums: tuple[Array, Tree] = jax.lax.scan(added, nothing, pieces)[0]
    return sums
