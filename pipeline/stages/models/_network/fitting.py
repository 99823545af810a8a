"""A network fitted to rows: its shape, its rule, and what its steps cost over several devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import DataError
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.attending import Attending, watching
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.rows import Material
from pipeline.stages.models._network.stepping import stepping

if TYPE_CHECKING:
    from pipeline.neural import training
    from pipeline.neural.asynchronous import Lesson, Server
    from pipeline.neural.augmenting import Augmenting
    from pipeline.neural.front import Picture
    from pipeline.neural.mesh import Task
    from pipeline.neural.perceptron import Parameters, Shape

MOST_EMBEDDED = 50  # numbers that a category becomes where the job does not say
Cost = dict[str, float | None]


@dataclass(frozen=True)
class Fit:
    """What training gave: the network's shape, its parameters and history, and what a step cost over several devices, if there are."""

    shape: Shape
    found: training.Fitted
    cost: Cost


@dataclass(frozen=True)
class Exercise:
    """All that a training needs beside devices: the network and its rule, how parameters begin, the rows, and for how long."""

    shape: Shape
    task: Task
    start: Parameters
    rows: training.Rows
    course: training.Course

    @staticmethod
    def of(learning: Learning[DeepLearning], material: Material) -> Exercise:
        """For these rows."""
        from pipeline.neural.perceptron import initial
        from pipeline.neural.training import Course, Rows

        stage, shape = learning.stage, _shape(learning.stage, material)
        rows, seed = (
            Rows(material.batches(stage), stage.batch_size, _augmenting(stage)),
            int(np.random.default_rng(learning.seed).integers(2**31)),
        )
        course = Course(stage.rounds, stage.early_stopping_rounds, seed)
        return Exercise(shape, _task(stage, shape, rows), initial(shape, seed, material.seen(shape.codes)), rows, course)

    def lesson(self, learning: Learning[DeepLearning]) -> Lesson:
        """What learners, or devices, learn."""
        from pipeline.neural.asynchronous import Lesson

        return Lesson(self.task, self.rows, self.course.seed, learning.stage.devices, learning.backend)

    def done(self, steps: training.Steps, around: training.Around, *, costed: bool) -> Fit:
        """Train. Raises DataError where training does not hold together."""
        from pipeline.neural.training import fitted

        try:
            found = fitted(steps, self.start, self.rows, self.course, around)
        except ArithmeticError as error:
            raise DataError(f"{error}: training does not hold together. Lower learning_rate, or give clip.") from error
        return Fit(self.shape, found, steps.cost(self.start, next(self.rows.batches(self.course.seed, 0))) if costed else {})


def fit(learning: Learning[DeepLearning], material: Material, server: Server | None = None) -> Fit:
    """What training gives: on the devices of this process, or by learners of a `server`.

    Raises DataError where training does not hold together; PlaceError where there are fewer devices; RunError where a learner failed.
    """
    exercise = Exercise.of(learning, material)
    around = Attending(learning, watching(learning, exercise.shape, material), material.target[1])
    with stepping(learning, exercise.lesson(learning), server) as (steps, rows):
        return replace(exercise, rows=rows).done(steps, around, costed=learning.stage.parallel is not None)


def _shape(stage: DeepLearning, material: Material) -> Shape:
    from pipeline.neural.perceptron import Shape

    categories = [int(codes.max(initial=0)) + 1 for codes in material.codes.T[: len(stage.categorical)]]  # and a missing one
    sizes = [(rows, stage.embedding or min(MOST_EMBEDDED, (rows + 1) // 2)) for rows in categories]
    texts = [(stage.ngrams.buckets + 1, stage.ngrams.width, stage.ngrams.size)] * len(stage.text)
    outputs = len(stage.classes) or 1
    return Shape(material.numbers.shape[1], tuple(sizes), stage.layers, outputs, stage.activation, tuple(texts), _picture(stage))


def _picture(stage: DeepLearning) -> Picture | None:
    from pipeline.neural.front import Picture

    if stage.image is None:
        return None
    convolutions = tuple((one.filters, one.size, one.pool) for one in stage.convolutions)
    return Picture(stage.image.height, stage.image.width, stage.image.channels, convolutions)


def _augmenting(stage: DeepLearning) -> Augmenting | None:
    from pipeline.neural.augmenting import Augmenting

    if stage.augment is None or stage.image is None:
        return None
    return Augmenting(stage.image.height, stage.image.width, stage.image.channels, **stage.augment.model_dump())


def _task(stage: DeepLearning, shape: Shape, rows: training.Rows) -> Task:
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
