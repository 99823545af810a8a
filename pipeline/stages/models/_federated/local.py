"""Training at a site: some epochs on its own rows, from the model that all sites share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline.backend.devices import Backend
from pipeline.backend.neural import neural_devices, run_single
from pipeline.errors import DataError
from pipeline.stages.models._federated.privacy import Course, Privacy, check_delta, noise_of, spent
from pipeline.stages.models._federated.shared_model import LOSS, ROWS, SharedModel
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round, Rounds

if TYPE_CHECKING:
    from pipeline.neural.perceptron import Parameters
    from pipeline.neural.training import Fitted
    from pipeline.neural.training import Steps as TrainingSteps

Array = Any


@dataclass(frozen=True)
class Steps:
    """How a site steps: epochs, rows of a batch (None: all of them), and the rule."""

    epochs: int
    batch_size: int | None
    optimizer: str
    learning_rate: float
    momentum: float
    weight_decay: float
    clip: float | None
    dropout: float
    privacy: Privacy | None = None


@dataclass(frozen=True)
class Update:
    """What came out: by name the row's number 1, the loss and how far each array of parameters moved; of so many rows.

    `privacy` is what the site says of it, where it adds noise: the loss, which has none, is then 0.
    """

    sent: dict[str, Array]
    rows: int
    losses: list[float]
    privacy: dict[str, Any] | None = None


def targets_of(frame: pl.DataFrame, model: SharedModel) -> Array:
    """The target of each row as the network is trained for it, float64 [rows], NaN where there is none. Raises DataError for a value
    that cannot be learned."""
    told = model.description
    target = frame[told["target"]]
    if told["classes"]:
        numbers = {name: float(place) for place, name in enumerate(told["classes"])}
        odd = sorted({*target.drop_nulls().cast(pl.String).unique().to_list()} - {*numbers})
        if odd:
            raise DataError(f"{target.name!r} has the value {odd[0]!r}, which is none of the model's classes: {', '.join(numbers)}")
        target = target.cast(pl.String).replace_strict(numbers, default=None, return_dtype=pl.Float64)
    values: Array = target.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    if np.isinf(values).any():
        raise DataError(f"{target.name!r} has infinite values (a division by zero?). Make them null, and they are left out.")
    if told["objective"] == "binary" and not {*np.unique(values[~np.isnan(values)])} <= {0.0, 1.0}:
        raise DataError(f"{target.name!r} is not binary; 0 and 1 are needed")
    mean, scale = model.network().target
    return (values - mean) / scale


def arrays_of(features: Array, targets: Array, model: SharedModel) -> dict[str, Array]:
    """The rows to learn from, as a network takes them: those that have a target."""
    known = ~np.isnan(targets)
    numbers, codes = model.network().inputs.taken(features[known])
    values = targets[known].astype(np.float32)
    return {"numbers": numbers, "codes": codes, "targets": values, "weighs": np.ones(len(values), np.float32)}


def updated(name: str, model: SharedModel, arrays: dict[str, Array], steps: Steps, seed: int, backend: Backend) -> Update:
    """Train. Raises DataError where training does not hold together."""
    from pipeline.neural.mesh import MeshSteps, Task
    from pipeline.neural.perceptron import Perceptron
    from pipeline.neural.private import DrawnRows, Noise, PrivateSteps
    from pipeline.neural.rules import Rule
    from pipeline.neural.training import Course as Epochs
    from pipeline.neural.training import Rows, fitted

    network, count = model.network(), len(arrays["targets"])
    batch, devices = min(steps.batch_size or count, count), neural_devices(backend)
    rows, privacy, said = Rows(arrays, batch), steps.privacy, None
    rule = Rule(steps.optimizer, steps.learning_rate, steps.momentum, steps.weight_decay, "constant", steps.epochs * rows.steps, 0)
    task = Task(Perceptron(network.shape, steps.dropout), network.objective, rule, steps.clip)
    stepping: TrainingSteps = MeshSteps(task, devices)
    if privacy:
        check_delta(privacy, count)
        course = Course(steps.epochs * rows.steps, batch / count)
        multiplier = noise_of(privacy, course)
        said = spent(privacy, multiplier, course, model.round + 1)
        rows, stepping = DrawnRows(arrays, batch), PrivateSteps(task, devices[0], Noise(privacy.clip, multiplier), batch)
    try:
        found = fitted(stepping, network.parameters, rows, Epochs(steps.epochs, None, seed), Telling(name, steps.epochs))
    except ArithmeticError as error:
        raise DataError(f"{error}: training does not hold together. Lower learning_rate, or give clip.") from error
    loss = 0.0 if privacy else loss_of(network, arrays, backend)
    sent = {ROWS: np.ones(1), LOSS: np.array([loss]), **moved(found.parameters, network.parameters)}
    return Update(sent, count, found.losses, said)


class Telling:
    """Around a site's training: says every epoch, and ends it where the run is given up."""

    def __init__(self, name: str, epochs: int) -> None:
        self._rounds, self._epochs = Rounds(name), epochs

    def resumed(self, state: Any, found: Fitted) -> tuple[Any, Fitted]:
        """From the start: a round is short."""
        return state, found

    def watch(self, parameters: Parameters) -> None:
        """A site has no other rows to look at."""

    def done(self, state: Any, found: Fitted) -> None:
        """Say the last epoch."""
        self._rounds.done(Round(len(found.losses), self._epochs, {LOSS: found.losses[-1]}))


def moved(now: dict[str, Array], before: dict[str, Array]) -> dict[str, Array]:
    """How far each array of parameters has come, in the order of their names."""
    return {name: now[name].astype(np.float64) - before[name].astype(np.float64) for name in sorted(before)}


def loss_of(network: Any, arrays: dict[str, Array], backend: Backend) -> float:
    """The mean loss of rows by a network, as it is trained for."""
    from pipeline.neural.objectives import losses
    from pipeline.neural.perceptron import Perceptron, variables
    from pipeline.neural.predicting import batched

    def given(parameters: Any, numbers: Array, codes: Array) -> Array:
        """What the network gives of some rows."""
        return Perceptron(network.shape).apply(variables(parameters), numbers, codes)

    pieces = np.concatenate([*batched(given, network.parameters, (arrays["numbers"], arrays["codes"]), backend)])
    each = run_single(partial(losses, network.objective), pieces, arrays["targets"])
    return float(np.asarray(each, np.float64).mean())


def rows_of(part: Part, split: str | None, target: str) -> Part:
    """The rows that train: those of split `train` that have a target."""
    known = pl.col(target).is_not_null()
    at = part.frame.select(known & (pl.col(split) == "train") if split else known).to_series().fill_null(value=False)
    places = at.arg_true().to_numpy()
    return Part(part.frame[places], {name: array[places] for name, array in part.arrays.items()})
