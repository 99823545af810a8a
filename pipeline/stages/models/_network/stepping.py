"""How a network steps, over the devices and in the way that its stage says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from pipeline.backend.neural import neural_devices
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.deep_learning import DeepLearning, Parallel
from pipeline.tables.rounds import go_on

if TYPE_CHECKING:
    from pipeline.neural import training
    from pipeline.neural.asynchronous import Lesson, Server
    from pipeline.neural.mesh import Task


@contextmanager
def stepping(learning: Learning[DeepLearning], lesson: Lesson, server: Server | None) -> Iterator[tuple[training.Steps, training.Rows]]:
    """Steps, and the rows to step over. Learners, here or at a `server` elsewhere, have ended with the block."""
    from pipeline.neural.asynchronous import driven, learners_here
    from pipeline.neural.parameter_server import ParameterServer

    over = learning.stage.parallel or Parallel()
    if over.asynchronous == 1:
        yield _over_devices(lesson.task, neural_devices(learning.backend, over.devices), over), lesson.rows
        return
    with ExitStack() as learners:
        if server is None:
            server = ParameterServer(over.asynchronous, over.staleness)
            learners.enter_context(learners_here(server, lesson))
        yield learners.enter_context(driven(server, lesson, learning.stage.rounds, lambda: go_on(learning.name)))


def _over_devices(task: Task, devices: list[Any], over: Parallel) -> training.Steps:
    """Steps over these devices."""
    from pipeline.neural.mesh import MeshSteps
    from pipeline.neural.pipelined import PipelinedSteps

    return PipelinedSteps(task, devices, over.data, over.model) if over.pipeline > 1 else MeshSteps(task, devices, over.model)
