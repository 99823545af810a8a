"""How a network steps, over the devices and in the way that its stage says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.neural import neural_devices
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.deep_learning import DeepLearning, Parallel
from pipeline.stages.models._network.rows import Material
from pipeline.tables.rounds import go_on

if TYPE_CHECKING:
    from pipeline.neural import training
    from pipeline.neural.asynchronous import Lesson, Server
    from pipeline.neural.mesh import Task
    from pipeline.neural.perceptron import Shape

MOST_EMBEDDED = 50  # numbers that a category becomes where the job does not say


@contextmanager
def stepping(learning: Learning[DeepLearning], material: Material, server: Server | None) -> Iterator[tuple[training.Steps, training.Rows]]:
    """Steps, and the rows to step over. Learners, here or at a `server` elsewhere, have ended with the block."""
    from pipeline.neural.asynchronous import driven, learners_here
    from pipeline.neural.parameter_server import ParameterServer

    over, lesson = learning.stage.parallel, lesson_of(learning, material)
    if over is None or over.asynchronous == 1:
        devices = neural_devices(learning.backend, learning.stage.devices)
        yield _over_devices(lesson.task, devices, over or Parallel()), lesson.rows
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


def lesson_of(learning: Learning[DeepLearning], material: Material) -> Lesson:
    """What learners learn of these rows."""
    from pipeline.neural.asynchronous import Lesson

    stage, rows = learning.stage, rows_of(learning.stage, material)
    task = task_of(stage, shape_of(stage, material), rows)
    return Lesson(task, rows, course_of(learning).seed, stage.devices, learning.backend)


def course_of(learning: Learning[DeepLearning]) -> training.Course:
    """For how long, and from which seed."""
    from pipeline.neural.training import Course

    seed = int(np.random.default_rng(learning.seed).integers(2**31))
    return Course(learning.stage.rounds, learning.stage.early_stopping_rounds, seed)


def rows_of(stage: DeepLearning, material: Material) -> training.Rows:
    """The rows to learn from."""
    from pipeline.neural.training import Rows

    return Rows(material.batches(stage), stage.batch_size)


def shape_of(stage: DeepLearning, material: Material) -> Shape:
    """Of a network on these rows."""
    from pipeline.neural.perceptron import Shape

    sizes = [(rows, stage.embedding or min(MOST_EMBEDDED, (rows + 1) // 2)) for rows in material.categories]
    return Shape(material.numbers.shape[1], tuple(sizes), stage.layers, len(stage.classes) or 1, stage.activation)


def task_of(stage: DeepLearning, shape: Shape, rows: training.Rows) -> Task:
    """What is trained, and by which rule."""
    from pipeline.neural.compressed import Compression
    from pipeline.neural.mesh import Task
    from pipeline.neural.perceptron import Perceptron
    from pipeline.neural.rules import Rule

    lengths = {"steps": stage.rounds * rows.steps, "warmup": stage.warmup_rounds * rows.steps}
    rule = Rule(stage.optimizer, stage.learning_rate, stage.momentum, stage.weight_decay, stage.schedule, **lengths)
    network = Perceptron(shape, stage.dropout, stage.arithmetic)
    over = stage.parallel
    compression = Compression(over.compress, over.share) if over and over.compress != "none" else None
    return Task(network, stage.objective, rule, stage.clip, stage.accumulate, compression)
