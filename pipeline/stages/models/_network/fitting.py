"""A network fitted to rows: its shape, its rule, what is watched meanwhile, and what its steps cost over several devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.kernels.metrics import log_loss, rmse
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.rows import Material
from pipeline.stages.models._network.stepping import course_of, shape_of, stepping
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round, Rounds

if TYPE_CHECKING:
    from pipeline.neural import training
    from pipeline.neural.asynchronous import Server
    from pipeline.neural.perceptron import Shape

Array = Any
Cost = dict[str, float | None]
HISTORY = {"round": pl.Int64(), "split": pl.String(), "metric": pl.String(), "value": pl.Float64()}


def fit(learning: Learning[DeepLearning], material: Material, server: Server | None = None) -> tuple[Shape, training.Fitted, Cost]:
    """The network's shape, what training gave, and what a step cost over several devices, where there are some.

    `server` has learners elsewhere; without one they are threads of this process. Raises DataError where training does not hold together;
    PlaceError where there are fewer devices; RunError where a learner failed.
    """
    from pipeline.neural.perceptron import initial
    from pipeline.neural.training import fitted

    stage, shape, course = learning.stage, shape_of(learning.stage, material), course_of(learning)
    start, watch = initial(shape, course.seed, material.seen), _watch(learning, shape, material)
    with stepping(learning, material, server) as (steps, batches):
        try:
            found = fitted(steps, start, batches, course, watch, _telling(learning, material))
        except ArithmeticError as error:
            raise DataError(f"{error}: training does not hold together. Lower learning_rate, or give clip.") from error
        return shape, found, steps.cost(start, next(batches.batches(course.seed, 0))) if stage.parallel else {}


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
