"""Steps of training on one device or over many: each computes the gradients of its rows, which are summed before parameters step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pipeline.backend.neural import run_program
from pipeline.neural.compressed import Compression
from pipeline.neural.objectives import losses
from pipeline.neural.perceptron import Parameters, Perceptron, Shape, variables
from pipeline.neural.rules import Rule
from pipeline.neural.scaling import lowered, raised, scaling_of, skipped_steps, updated
from pipeline.neural.traffic import bytes_sent, step_times

Array = Any
Tree = Any
Batch = dict[str, Array]
"""Arrays of a batch's rows: `numbers`, `codes`, `targets`, what each `weighs` in the mean loss, which are `real` (1) and not padding,
and `keys` for what is dropped."""


@dataclass(frozen=True)
class Task:
    """What is trained, and how: the network, its objective, its rule, the longest gradient, in how many pieces a batch is computed, and how
    devices send gradients."""

    network: Perceptron
    objective: str
    rule: Rule
    clip: float | None
    accumulate: int = 1
    compression: Compression | None = None


class MeshSteps:
    """Training steps over devices: some share every batch, and groups of `model` of them every hidden layer."""

    def __init__(self, task: Task, devices: list[Any], model: int = 1, *, exchange: bool = True) -> None:
        """`exchange`: whether devices hear of one another; without, a step shows what computing alone costs."""
        self._mesh = Mesh(np.array(devices).reshape(-1, model), ("data", "model"))
        self._given, self._shape = (task, devices, model), task.network.shape
        self._begin, self._step = _programs(task, self._mesh, exchange)

    def begun(self, parameters: Parameters) -> Tree:
        """Parameters and the optimizer's state, on the devices that have them."""
        return run_program(self._begin, jax.device_put(parameters, places(self._mesh, self._shape, parameters)))

    def step(self, state: Tree, batch: Batch) -> tuple[Tree, Array]:
        """The state after a batch, and the sum of its rows' losses, unweighted: of one device perhaps not computed yet."""
        found: tuple[Tree, Array] = self._run(self._step, state, self._shared(batch))
        return found

    def bytes_sent(self, state: Tree, batch: Batch) -> int:
        """Bytes that all devices together send in a step, by the compiled program."""
        return bytes_sent(self._step.lower(state, self._shared(batch)).compile().as_text() or "", self._mesh.size)

    def cost(self, parameters: Parameters, batch: Batch) -> dict[str, float | None]:
        """What a step costs: devices, bytes sent, and milliseconds in all, of computing, and of the rest."""
        alone = type(self)(*self._given, exchange=False)
        state, other = self.begun(parameters), alone.begun(parameters)
        times = step_times(lambda: self.step(state, batch), lambda: alone.step(other, batch), self._agreed)
        return {"devices": float(self._mesh.size), "bytes_sent": float(self.bytes_sent(state, batch)), **times}

    def parameters(self, state: Tree) -> Parameters:
        """The parameters, in the host's memory."""
        return {name: np.asarray(value) for name, value in state[0].items()}

    def skipped(self, state: Tree) -> int:
        """Steps that were skipped."""
        return skipped_steps(state[3])

    def _run(self, program: Any, *arguments: Any) -> Any:
        """What a program gives. On one device it waits for no other, and is not waited for: the next batch is made meanwhile."""
        return program(*arguments) if self._mesh.size == 1 else run_program(program, *arguments)

    def _agreed(self, over: bool) -> bool:
        """What all processes take for true that have devices."""
        return over

    def _shared(self, batch: Batch) -> Batch:
        shared: Batch = jax.device_put(batch, NamedSharding(self._mesh, PartitionSpec("data"))) if self._mesh.size > 1 else batch
        return shared


@lru_cache(maxsize=16)
def _programs(task: Task, mesh: Mesh, exchange: bool) -> tuple[Any, Any]:
    """What begins a state from parameters, and what steps; compiled once for all trainings of a process that are alike."""
    transform = task.rule.made()

    def placed(state: Tree) -> Tree:
        """The state, each array where it has its place."""
        return jax.lax.with_sharding_constraint(state, places(mesh, task.network.shape, state))

    def begin(parameters: Tree) -> Tree:
        """Parameters, the optimizer's state, what each device has not sent yet, and the scale of gradients."""
        size = sum(array.size for array in parameters.values()) if task.compression else 0
        left = jax.lax.with_sharding_constraint(jnp.zeros((mesh.shape["data"], size)), NamedSharding(mesh, PartitionSpec("data")))
        return *placed((parameters, transform.init(parameters))), left, scaling_of(task.network)

    def step(state: Tree, batch: Batch) -> tuple[Tree, Array]:
        """The state after a batch, and its summed loss."""
        parameters, inner, left, scales = state
        loss, gradients, squares, left = _gradients(task, mesh, exchange, (parameters, left), raised(batch, scales))
        gradients, squares = lowered(gradients, squares, scales)
        parameters, inner, scales = updated(transform, task.clip, (parameters, inner, scales), gradients, squares)
        return (*placed((parameters, inner)), left, scales), loss

    return jax.jit(begin), jax.jit(step)


def _gradients(task: Task, mesh: Mesh, exchange: bool, given: tuple[Tree, Array], rows: Batch) -> tuple[Array, Tree, Array, Array]:
    """The summed loss and gradients of all devices, the gradients' squared length, and what each device has not sent yet.

    `given` are the parameters, and what was not sent before.
    """
    model = mesh.shape["model"]
    share = replace(task, network=task.network.clone(shards=model, exchange=exchange))

    def of_device(parameters: Tree, left: Array, rows: Batch) -> tuple[Array, Tree, Array, Array]:
        """What one device adds, summed over all. Each of those that share layers has the whole loss, and counts a share of it."""
        loss, gradients = jax.tree.map(lambda array: array / model, summed(share, parameters, rows))
        mine = {name: gradients.pop(name) for name in list(gradients) if model > 1 and _is_hidden(name, task.network.shape)}
        if exchange and task.compression:
            vector, as_tree = ravel_pytree(gradients)
            vector, left = task.compression.summed(vector, left[0], mesh.shape["data"])
            loss, gradients, left = jax.lax.psum(loss, "data"), as_tree(vector), left[None]
        elif exchange:
            loss, gradients = jax.lax.psum((loss, gradients), ("data", "model") if model > 1 else "data")
            mine = jax.lax.psum(mine, "data")
        squares = sum((jnp.square(array).sum() for array in mine.values()), jnp.float32(0))
        if exchange and model > 1:
            squares = jax.lax.psum(squares, "model")
        return loss, {**gradients, **mine}, squares + sum(jnp.square(array).sum() for array in gradients.values()), left

    specs = {name: _spec(name, task.network.shape, model) for name in given[0]}
    whole, cut = PartitionSpec(), PartitionSpec("data")
    over = jax.shard_map(of_device, mesh=mesh, in_specs=(specs, cut, cut), out_specs=(whole, specs, whole, cut), check_vma=False)
    found: tuple[Array, Tree, Array, Array] = over(*given, rows)
    return found


def _is_hidden(name: str, shape: Shape) -> bool:
    """Whether a parameter is of a hidden layer, which devices share."""
    return name.startswith("layers_") and int(name.removeprefix("layers_").partition("/")[0]) < len(shape.layers)


def _spec(name: str, shape: Shape, model: int) -> PartitionSpec:
    """How a parameter is cut: those of hidden layers by what they give."""
    if model == 1 or not _is_hidden(name, shape):
        return PartitionSpec()
    return PartitionSpec("model") if name.endswith("bias") else PartitionSpec(None, "model")


def places(mesh: Mesh, shape: Shape, state: Tree) -> Tree:
    """Where the arrays of a state are: those that an optimizer keeps of a parameter have its name and are where it is."""

    def place(path: tuple[Any, ...], _leaf: Any) -> NamedSharding:
        """The place of one."""
        name = str(getattr(path[-1], "key", "")) if path else ""
        return NamedSharding(mesh, _spec(name, shape, mesh.shape["model"]))

    return jax.tree_util.tree_map_with_path(place, state)


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
    pieces = jax.tree.map(lambda array: array.reshape(task.accumulate, len(array) // task.accumulate, *array.shape[1:]), rows)
    sums: tuple[Array, Tree] = jax.lax.scan(added, nothing, pieces)[0]
    return sums
