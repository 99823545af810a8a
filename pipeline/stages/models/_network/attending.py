"""What goes on around the training of a network: validation rows are looked at, rounds are told, and where it stands is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline.kernels.metrics import log_loss, rmse
from pipeline.results.checkpoints import Keeping
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.rows import Material
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round, Rounds

if TYPE_CHECKING:
    from pipeline.neural.perceptron import Shape
    from pipeline.neural.training import Fitted

Array = Any
Tree = Any
Watch = Callable[[Any], float | None]
HISTORY = {"round": pl.Int64(), "split": pl.String(), "metric": pl.String(), "value": pl.Float64()}


class Attending:
    """Of a training in this task: says every round, and ends training where the run is given up."""

    def __init__(self, learning: Learning[DeepLearning], watch: Watch, scale: float) -> None:
        from pipeline.neural.resuming import Keeper

        self._stage, self._scale = learning.stage, scale
        self._rounds, self._keeper = Rounds(learning.name), Keeper(Keeping(learning.checkpoint))
        self.watch = watch

    def resumed(self, state: Tree, found: Fitted) -> tuple[Tree, Fitted]:
        """Where an earlier run stood, if there was one."""
        return self._keeper.resumed(state, found)

    def done(self, state: Tree, found: Fitted) -> None:
        """Say the last round, and keep it."""
        self._rounds.done(last_round(self._stage, found, self._scale))
        self._keeper.keep(state, found)


def watching(learning: Learning[DeepLearning], shape: Shape, material: Material) -> Watch:
    """How bad parameters are on the validation rows, as predictions show it: the log loss, or the rmse; None where there are no rows."""
    from pipeline.neural.predicting import NetworkPredictor, rows_to_watch
    from pipeline.neural.saved import Trained as Saved

    at, stage = material.labels.of_split("validation"), learning.stage
    numbers, codes, truth = material.numbers[at], material.codes[at], material.labels.values[at]
    weights = None if material.weights is None else material.weights[at]
    at_once = rows_to_watch(shape, len(truth))

    def watch(parameters: Any) -> float | None:
        """The log loss, or the rmse."""
        if not len(truth):
            return None
        network = Saved(shape, stage.objective, material.inputs, material.target, parameters)
        return _loss(stage.objective, truth, NetworkPredictor(network, learning.backend, at_once).of_inputs(numbers, codes), weights)

    return watch


def _loss(objective: str, truth: Array, predicted: Array, weights: Array | None) -> float:
    if objective == "regression":
        return rmse(truth, predicted, weights)
    return log_loss(truth.astype(int), predicted, weights)


def last_round(stage: DeepLearning, found: Fitted, scale: float) -> Round:
    """The last round with its figures."""
    last = _curves(stage, found, scale, slice(-1, None))
    return Round(len(found.losses), stage.rounds, {f"{split} {metric}": values[0] for (split, metric), values in last.items()})


def _curves(stage: DeepLearning, found: Fitted, scale: float, at: slice = slice(None)) -> dict[tuple[str, str], list[float]]:
    """By split and metric: of the training rows as they were learned from, and of validation rows after each round."""
    regression = stage.objective == "regression"
    metric = "rmse" if regression else "log_loss"
    train = [float(np.sqrt(2 * loss) * scale) if regression else loss for loss in found.losses[at]]
    watched = found.watched[at]
    return {("train", metric): train, **({("validation", metric): watched} if watched else {})}


def history(stage: DeepLearning, found: Fitted, scale: float) -> Part:
    """Round, split, metric, value."""
    curves = _curves(stage, found, scale)
    rows = [(at + 1, *of, value) for of, values in curves.items() for at, value in enumerate(values)]
    return Part(pl.DataFrame(rows, HISTORY, orient="row").sort("round", maintain_order=True))
