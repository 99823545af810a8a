"""A network fitted to rows: its shape, its rule, what is watched meanwhile, and what its steps cost over several devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline.backend.neural import neural_devices
from pipeline.errors import DataError
from pipeline.kernels.metrics import log_loss, rmse
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.rows import Material
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round, Rounds

if TYPE_CHECKING:
    from pipeline.neural import training
    from pipeline.neural.front import Picture
    from pipeline.neural.mesh import Task
    from pipeline.neural.perceptron import Shape

Array = Any
MOST_EMBEDDED = 50  # numbers that a category becomes where the job does not say
Cost = dict[str, float | None]
HISTORY = {"round": pl.Int64(), "split": pl.String(), "metric": pl.String(), "value": pl.Float64()}


def fit(learning: Learning[DeepLearning], material: Material) -> tuple[Shape, training.Fitted, Cost]:
    """The network's shape, what training gave, and what a step cost over several devices, where there are some.

    Raises DataError where training does not hold together; PlaceError where there are fewer devices.
    """
    from pipeline.neural.perceptron import initial
    from pipeline.neural.training import Course, Rows, fitted

    stage, shape = learning.stage, _shape(learning.stage, material)
    rows = Rows(material.batches(stage), stage.batch_size)
    seed = int(np.random.default_rng(learning.seed).integers(2**31))
    task, devices = _task(stage, shape, rows), neural_devices(learning.backend, stage.devices)
    steps = _steps(stage, task, devices)
    course, start = Course(stage.rounds, stage.early_stopping_rounds, seed), initial(shape, seed, material.seen(shape.codes))
    try:
        found = fitted(steps, start, rows, course, _watch(learning, shape, material), _telling(learning, material))
    except ArithmeticError as error:
        raise DataError(f"{error}: training does not hold together. Lower learning_rate, or give clip.") from error
    return shape, found, steps.cost(start, next(rows.batches(seed, 0))) if stage.parallel else {}


def _steps(stage: DeepLearning, task: Task, devices: list[Any]) -> training.Steps:
    """How it steps over these devices."""
    from pipeline.neural.mesh import MeshSteps
    from pipeline.neural.pipelined import PipelinedSteps

    if stage.parallel and stage.parallel.pipeline > 1:
        return PipelinedSteps(task, devices)
    return MeshSteps(task, devices, stage.parallel.model if stage.parallel else 1)


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


def _watch(learning: Learning[DeepLearning], shape: Shape, material: Material) -> Callable[[Any], float] | None:
    """How bad parameters are on the validation rows, as predictions show it; None where there are no such rows."""
    from pipeline.neural.predicting import NetworkPredictor
    from pipeline.neural.saved import Trained as Saved

    at, stage = material.labels.of_split("validation"), learning.stage
    if not at.any():
        return None
    numbers, codes, truth = material.numbers[at], material.codes[at], material.labels.values[at]

    def watch(parameters: Any) -> float:
        """The log loss, or the rmse."""
        network = Saved(shape, stage.objective, material.inputs, material.target, parameters)
        return _loss(stage.objective, truth, NetworkPredictor(network, learning.backend).of_inputs(numbers, codes))

    return watch


def _loss(objective: str, truth: Array, predicted: Array) -> float:
    if objective == "regression":
        return rmse(truth, predicted)
    return log_loss(truth.astype(int), np.column_stack([1 - predicted, predicted]) if objective == "binary" else predicted)


def _telling(learning: Learning[DeepLearning], material: Material) -> Callable[[training.Fitted], None]:
    """Says every round, and ends training where the run is given up."""
    rounds = Rounds(learning.name)

    def telling(found: training.Fitted) -> None:
        """Say the last round."""
        last = _curves(learning.stage, found, material.target[1], slice(-1, None))
        figures = {f"{split} {metric}": values[0] for (split, metric), values in last.items()}
        rounds.done(Round(len(found.losses), learning.stage.rounds, figures))

    return telling


def _curves(stage: DeepLearning, found: training.Fitted, scale: float, at: slice = slice(None)) -> dict[tuple[str, str], list[float]]:
    """By split and metric: of the training rows as they were learned from, and of validation rows after each round."""
    regression = stage.objective == "regression"
    metric = "rmse" if regression else "log_loss"
    train = [float(np.sqrt(2 * loss) * scale) if regression else loss for loss in found.losses[at]]
    watched = found.watched[at]
    return {("train", metric): train, **({("validation", metric): watched} if watched else {})}


def history(stage: DeepLearning, found: training.Fitted, scale: float) -> Part:
    """Round, split, metric, value."""
    curves = _curves(stage, found, scale)
    rows = [(at + 1, *of, value) for of, values in curves.items() for at, value in enumerate(values)]
    return Part(pl.DataFrame(rows, HISTORY, orient="row").sort("round", maintain_order=True))
