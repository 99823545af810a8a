"""A network trained in one task: the rows in the order of the key, standardized, learned from batch by batch, and all predicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline.backend.devices import Backend
from pipeline.backend.neural import neural_devices
from pipeline.errors import DataError
from pipeline.kernels.metrics import log_loss, rmse
from pipeline.stages.models._learning import Learning, Trained, predictions, split_counts, with_states
from pipeline.stages.models._measures import measured
from pipeline.stages.models._network import DeepLearning
from pipeline.stages.models._network_rows import Material
from pipeline.stages.models._predictor import Predictor, check_finite
from pipeline.stages.models._training_rows import TrainingRows, in_key_order
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.rounds import Round, Rounds
from pipeline.tables.table import Fitted

if TYPE_CHECKING:
    from pipeline.neural import training
    from pipeline.neural.mesh import Task
    from pipeline.neural.perceptron import Shape

Array = Any
HISTORY = {"round": pl.Int64(), "split": pl.String(), "metric": pl.String(), "value": pl.Float64()}
MOST_EMBEDDED = 50  # numbers that a category becomes where the job does not say


@dataclass(frozen=True)
class TrainedNetwork(Trained):
    """What learning gives, and what it was like: round, split, metric, value."""

    history: Part


def read(description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
    """The published network. Raises InputError for bytes that are none."""
    from pipeline.neural.perceptron import Shape
    from pipeline.neural.predicting import NetworkPredictor
    from pipeline.neural.saved import Trained

    codes = tuple(description["features"].index(name) for name in description["categorical"])
    numbers = tuple(place for place in range(len(description["features"])) if place not in {*codes})
    shape = Shape.of(description["network"])
    return NetworkPredictor(Trained.read(content, shape, description["objective"], (numbers, codes)), backend)


def train(
    learning: Learning[DeepLearning], parts: Sequence[Part], axes: Sequence[Part], steps: Sequence[Fitted], states: Sequence[Part]
) -> TrainedNetwork:
    """Train on all parts."""
    from pipeline.neural.influence import influences
    from pipeline.neural.predicting import NetworkPredictor
    from pipeline.neural.saved import Trained as Saved

    stage, whole = learning.stage, in_key_order(learning.stage, concat_parts(parts))
    check_finite(learning.columns, whole.frame, pl.Float32())
    rows, names = TrainingRows.of(stage, whole), learning.feature_names(axes)
    rows.labels.check(stage, whole.frame[stage.target], validation=bool(stage.early_stopping_rounds))
    material = Material.of(learning, rows, names)
    shape, fitted = _fitted(learning, material)
    network = Saved(shape, stage.objective, material.inputs, material.target, fitted.parameters)
    predictor = NetworkPredictor(network, learning.backend)
    predicted = predictor.of_inputs(material.numbers, material.codes)
    at = rows.labels.of_split("train")
    influence = influences(network, (material.numbers[at], material.codes[at]), learning.backend)
    own = {"network": shape.told(), "rounds_used": fitted.epoch}
    return TrainedNetwork(
        predictions(stage, rows, predicted),
        _importance(names, influence),
        network.saved(),
        learning.description(names, whole.frame, with_states(steps, states), own),
        measured(stage, rows.labels, predicted),
        {"features": len(names), "rounds_used": fitted.epoch, "missing_values": material.missing, **split_counts(rows)},
        _history(stage, fitted, material.target[1]),
    )


def _fitted(learning: Learning[DeepLearning], material: Material) -> tuple[Shape, training.Fitted]:
    """The network's shape, and what training gave. Raises DataError where it does not hold together."""
    from pipeline.neural.mesh import MeshSteps
    from pipeline.neural.perceptron import initial
    from pipeline.neural.training import Course, Rows, fitted

    stage, shape = learning.stage, _shape(learning.stage, material)
    rows = Rows(material.batches(stage), stage.batch_size)
    seed = int(np.random.default_rng(learning.seed).integers(2**31))
    steps = MeshSteps(_task(stage, shape, rows), neural_devices(learning.backend))
    course, start = Course(stage.rounds, stage.early_stopping_rounds, seed), initial(shape, seed, material.seen)
    try:
        return shape, fitted(steps, start, rows, course, _watch(learning, shape, material), _telling(learning, material))
    except ArithmeticError as error:
        raise DataError(f"{error}: training does not hold together. Lower learning_rate, or give clip.") from error


def _shape(stage: DeepLearning, material: Material) -> Shape:
    from pipeline.neural.perceptron import Shape

    sizes = [(rows, stage.embedding or min(MOST_EMBEDDED, (rows + 1) // 2)) for rows in material.categories]
    return Shape(material.numbers.shape[1], tuple(sizes), stage.layers, len(stage.classes) or 1, stage.activation)


def _task(stage: DeepLearning, shape: Shape, rows: training.Rows) -> Task:
    """What is trained, and by which rule."""
    from pipeline.neural.mesh import Task
    from pipeline.neural.perceptron import Perceptron
    from pipeline.neural.rules import Rule

    lengths = {"steps": stage.rounds * rows.steps, "warmup": stage.warmup_rounds * rows.steps}
    rule = Rule(stage.optimizer, stage.learning_rate, stage.momentum, stage.weight_decay, stage.schedule, **lengths)
    network = Perceptron(shape, stage.dropout, stage.arithmetic)
    return Task(network, stage.objective, rule, stage.clip, stage.accumulate)


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


def _history(stage: DeepLearning, found: training.Fitted, scale: float) -> Part:
    """Round, split, metric, value."""
    curves = _curves(stage, found, scale)
    rows = [(at + 1, *of, value) for of, values in curves.items() for at, value in enumerate(values)]
    return Part(pl.DataFrame(rows, HISTORY, orient="row").sort("round", maintain_order=True))


def _importance(names: list[str], influence: Array) -> Part:
    """Features by their influence, the greatest first."""
    table = pl.DataFrame({"feature": names, "influence": influence}, schema={"feature": pl.String, "influence": pl.Float64})
    return Part(table.sort("influence", "feature", descending=[True, False]))
