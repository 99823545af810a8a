"""Steps of training over stages of layers: pieces of a batch go on, and their gradients back (GPipe, Huang et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pipeline.backend.neural import run_program
from pipeline.neural.mesh import Batch, Task, places
from pipeline.neural.objectives import losses
from pipeline.neural.perceptron import Parameters, Perceptron, Shape, variables
from pipeline.neural.rules import clipped
from pipeline.neural.scaling import raised, scaling_of, skipped_steps
from pipeline.neural.traffic import bytes_sent, step_times

Array = Any
Tree = Any
ROWS = PartitionSpec("data")
Inputs = list[list[tuple[Any, Batch]]]
"""By stage and piece: what a stage takes, and the rows' keys, targets and weights."""


class PipelinedSteps:
    """Training steps over devices that each have some layers. A batch goes through in `accumulate` pieces, so that all are at work.

    Where a stage has several devices, `data` of them share the rows of each piece, and groups of `model` its hidden layers: XLA divides
    the stage's programs by where their arrays are.
    """

    def __init__(self, task: Task, devices: list[Any], data: int = 1, model: int = 1) -> None:
        """Two stages at least, with about as many layers each."""
        self._task, self._stages = task, len(devices) // (data * model)
        self._meshes = [Mesh(stage, ("data", "model")) for stage in np.array(devices).reshape(self._stages, data, model)]
        self._waits = data * model > 1 and devices[0].platform == "cpu"
        count = len(task.network.shape.layers) + 1
        self._ends = [count * place // self._stages for place in range(self._stages + 1)]
        self._programs = [_programs(task, first, end, mesh) for (first, end), mesh in zip(pairwise(self._ends), self._meshes, strict=True)]

    def begun(self, parameters: Parameters) -> Tree:
        """Of each stage its parameters and the optimizer's state, on its device; and the scale of gradients."""
        stages = []
        for mesh, (first, end), programs in zip(self._meshes, pairwise(self._ends), self._programs, strict=True):
            own = {name: value for name, value in parameters.items() if _layer(name) in range(first, end)}
            placed = jax.device_put(own, places(mesh, self._task.network.shape, own))
            stages.append((placed, run_program(programs.begin, placed)))
        return stages, scaling_of(self._task.network)

    def step(self, state: Tree, batch: Batch) -> tuple[Tree, float]:
        """The state after a batch, and the sum of its rows' losses, unweighted."""
        state, loss = run_program(self._stepped, state, batch)
        return state, float(loss)

    def parameters(self, state: Tree) -> Parameters:
        """The parameters of all stages, in the host's memory."""
        return {name: np.asarray(value) for own, _ in state[0] for name, value in own.items()}

    def cost(self, parameters: Parameters, batch: Batch) -> dict[str, float | None]:
        """What a step costs: devices, bytes sent, and milliseconds in all, of computing, and of the rest: sending and waiting.

        What devices of one stage send one another counts as computing.
        """
        state = self.begun(parameters)
        inputs = self._forward(state[0], batch)
        times = step_times(lambda: self.step(state, batch), lambda: run_program(self._alone, state[0], inputs))
        sent = sum(values.nbytes for stage in inputs[1:] for values, _ in stage) * self._meshes[0].shape["model"]
        within = run_program(self._sent_within, state[0], inputs) if self._meshes[0].size > 1 else 0
        return {"devices": float(self._stages * self._meshes[0].size), "bytes_sent": float(2 * sent + within), **times}

    def skipped(self, state: Tree) -> int:
        """Steps that were skipped."""
        return skipped_steps(state[1])

    def _stepped(self, state: Tree, batch: Batch) -> tuple[Tree, Array]:
        stages, scales = state
        sums, losses = self._backward(stages, self._forward(stages, raised(batch, scales)))
        scale, squares = float(scales.scale) if scales else 1.0, 0.0
        if self._task.clip or scales:
            squares = sum(float(optax.tree.norm(stage, squared=True)) for stage in sums) / scale**2
        if np.isfinite(squares) or not scales:
            given = zip(self._programs, stages, sums, strict=True)
            stages = [self._run(programs.update, own, stage, squares, scale) for programs, own, stage in given]
        scales = scales.after(np.isfinite(squares)) if scales else scales
        return (stages, scales), sum(np.asarray(loss) for loss in losses)

    def _forward(self, state: Tree, batch: Batch) -> Inputs:
        """What each stage takes of each piece, on its device: nothing is waited for, so that a stage works while the next one does."""
        inputs: Inputs = [[] for _ in self._meshes]
        for number in range(self._task.accumulate):
            piece = {name: np.split(array, self._task.accumulate)[number] for name, array in batch.items()}
            values: Any = (piece.pop("numbers"), piece.pop("codes"))
            for place, mesh in enumerate(self._meshes):
                inputs[place].append(jax.device_put((values, piece), NamedSharding(mesh, ROWS)))
                if place < self._stages - 1:
                    values = self._run(self._programs[place].forward, state[place][0], *inputs[place][-1])
        return inputs

    def _backward(self, state: Tree, inputs: Inputs) -> tuple[list[Tree], list[Array]]:
        """The summed gradients of each stage, and the loss of each piece; the last piece comes back first."""
        sums, losses = [jax.tree.map(jnp.zeros_like, own) for own, _ in state], []
        for number in reversed(range(self._task.accumulate)):
            loss, sums[-1], down = self._run(self._programs[-1].last, state[-1][0], *inputs[-1][number], sums[-1])
            losses.append(loss)
            for place in reversed(range(self._stages - 1)):
                down = jax.device_put(down, NamedSharding(self._meshes[place], ROWS))
                sums[place], down = self._run(self._programs[place].backward, state[place][0], *inputs[place][number], down, sums[place])
        return sums, losses

    def _run(self, program: Any, *given: Any) -> Any:
        """What a stage's program gives. On a CPU two at once, of several devices each, would wait for one another (docs/platform.md)."""
        return jax.block_until_ready(program(*given)) if self._waits else program(*given)

    def _alone(self, state: Tree, inputs: Inputs) -> Tree:
        """What all stages compute in a step, each by itself."""
        found = []
        for place, (own, inner) in enumerate(state):
            programs, sums = self._programs[place], jax.tree.map(jnp.zeros_like, own)
            for values, piece in inputs[place]:
                if place == len(state) - 1:
                    _, sums, _ = self._run(programs.last, own, values, piece, sums)
                else:
                    down = self._run(programs.forward, own, values, piece)
                    sums, _ = self._run(programs.backward, own, values, piece, down, sums)
            found.append(self._run(programs.update, (own, inner), sums, 0.0, 1.0))
        return found

    def _sent_within(self, state: Tree, inputs: Inputs) -> int:
        """Bytes that devices of one stage send one another in a step, by the compiled programs."""
        sent = 0
        for place, (mesh, programs, (own, inner)) in enumerate(zip(self._meshes, self._programs, state, strict=True)):
            sums, (values, piece) = jax.tree.map(jnp.zeros_like, own), inputs[place][0]
            runs: list[tuple[Any, tuple[Any, ...], int]] = [(programs.update, ((own, inner), sums, 0.0, 1.0), 1)]
            if place == self._stages - 1:
                runs.append((programs.last, (own, values, piece, sums), self._task.accumulate))
            else:
                down = self._run(programs.forward, own, values, piece)
                runs.append((programs.forward, (own, values, piece), self._task.accumulate))
                runs.append((programs.backward, (own, values, piece, down, sums), self._task.accumulate))
            sent += sum(times * bytes_sent(run.lower(*given).compile().as_text() or "", mesh.size) for run, given, times in runs)
        return sent


@dataclass(frozen=True)
class Programs:
    """A stage's: what begins its state, sends values on, sends gradients back, and steps. The last stage has the loss."""

    begin: Any
    forward: Any
    backward: Any
    last: Any
    update: Any


@lru_cache(maxsize=64)
def _programs(task: Task, first: int, end: int, mesh: Mesh) -> Programs:
    """Compiled once for all trainings of a process that are alike."""
    transform, placed = task.rule.made(), partial(_placed, task.network.shape, mesh)

    def forward(own: Tree, values: Any, piece: Batch) -> Array:
        """What the stage's layers make of values."""
        return task.network.apply(variables(own), values, piece["keys"], method=partial(_through, first=first, end=end))

    def backward(own: Tree, values: Any, piece: Batch, down: Array, sums: Tree) -> tuple[Tree, Array]:
        """The gradients with a piece's own, and what goes back to the stage before."""
        _, pull = jax.vjp(lambda own, values: forward(own, values, piece), own, values)
        gradients, back = pull(down)
        return placed(jax.tree.map(jnp.add, sums, gradients)), back if first else jnp.float32(0)

    def last(own: Tree, values: Any, piece: Batch, sums: Tree) -> tuple[Array, Tree, Array]:
        """The loss, the gradients with a piece's own, and what goes back."""

        def weighted(own: Tree, values: Any) -> tuple[Array, Array]:
            """The loss to step by, and the plain one."""
            each = losses(task.objective, forward(own, values, piece), piece["targets"])
            return (each * piece["weighs"]).sum(), (each * piece["real"]).sum()

        (_, loss), (gradients, back) = jax.value_and_grad(weighted, argnums=(0, 1), has_aux=True)(own, values)
        return loss, placed(jax.tree.map(jnp.add, sums, gradients)), back

    def update(state: Tree, gradients: Tree, squares: float, scale: float) -> Tree:
        """The state after a step by these gradients, which are so many times too great, of a whole whose squared length is known."""
        own, inner = state
        gradients = jax.tree.map(lambda array: array / scale, gradients)
        changes, inner = transform.update(clipped(gradients, task.clip, jnp.asarray(squares)), inner, own)
        return placed((optax.apply_updates(own, changes), inner))

    def begin(own: Tree) -> Tree:
        """The optimizer's state."""
        return placed(transform.init(own))

    return Programs(jax.jit(begin), jax.jit(forward), jax.jit(backward), jax.jit(last), jax.jit(update))


def _placed(shape: Shape, mesh: Mesh, state: Tree) -> Tree:
    """A stage's state, each array where it has its place."""
    return jax.lax.with_sharding_constraint(state, places(mesh, shape, state))


def _through(network: Perceptron, values: Any, keys: Array, *, first: int, end: int) -> Array:
    """A stage's layers; the first stage takes numbers and codes."""
    return network.passed(values if first else network.entered(*values), keys, first, end)


def _layer(name: str) -> int:
    """Which layer a parameter belongs to; embeddings to the first."""
    return int(name.removeprefix("layers_").partition("/")[0]) if name.startswith("layers_") else 0
