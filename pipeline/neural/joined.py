"""Training steps over the devices of several processes, which all run the same program on the same rows (jax.distributed)."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from pipeline.backend.neural import run_program
from pipeline.neural.mesh import Batch, MeshSteps, places
from pipeline.neural.perceptron import Parameters
from pipeline.neural.resuming import placed, whole

Array = Any
Tree = Any


class JoinedSteps(MeshSteps):
    """Steps of a mesh whose devices are of several processes: each puts its own share of a batch on its own devices."""

    def begun(self, parameters: Parameters) -> Tree:
        """Parameters and the optimizer's state, on the devices that have them."""
        return run_program(self._begin, jax.tree.map(placed, parameters, places(self._mesh, self._shape, parameters)))

    def parameters(self, state: Tree) -> Parameters:
        """The parameters, in the memory of every process."""
        return {name: whole(value) for name, value in state[0].items()}

    def _agreed(self, over: bool) -> bool:
        return bool(said(float(over)))

    def _shared(self, batch: Batch) -> Batch:
        cut = NamedSharding(self._mesh, PartitionSpec("data"))
        return {name: placed(array, cut) for name, array in batch.items()}


def said(value: float) -> float:
    """What the first process says, bit for bit, in all of them."""
    bits = multihost_utils.broadcast_one_to_all(np.array([value]).view(np.uint32))
    return float(np.asarray(bits).view(np.float64)[0])
