"""A network trained in one task: the rows in the order of the key, standardized, learned from batch by batch, and all predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from pipeline.backend.devices import Backend
from pipeline.stages.models._learning import Learning, Trained, predictions, split_counts, with_states
from pipeline.stages.models._measures import measured
from pipeline.stages.models._network.attending import history
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.fitting import Fit, fit
from pipeline.stages.models._network.rows import Material
from pipeline.stages.models._predictor import Predictor, check_finite
from pipeline.stages.models._training_rows import TrainingRows, in_key_order
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.table import Fitted

if TYPE_CHECKING:
    from pipeline.neural.training import Fitted as Found

Array = Any


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


@dataclass(frozen=True)
class Ready:
    """The rows of all parts, and what a network takes of them."""

    whole: Part
    rows: TrainingRows
    names: list[str]
    material: Material

    @staticmethod
    def of(learning: Learning[DeepLearning], parts: Sequence[Part], axes: Sequence[Part]) -> Ready:
        """In the order of the key. Raises DataError for rows that cannot be learned from."""
        stage, whole = learning.stage, in_key_order(learning.stage, concat_parts(parts))
        check_finite(learning.columns, whole.frame, pl.Float32())
        rows, names = TrainingRows.of(stage, whole), learning.feature_names(axes)
        rows.labels.check(stage, whole.frame[stage.target], validation=bool(stage.early_stopping_rounds))
        return Ready(whole, rows, names, Material.of(learning, rows, names))


@dataclass(frozen=True)
class Train:
    """The task that trains on all parts, and predicts them; what several workers `made` is not trained again."""

    learning: Learning[DeepLearning]

    def __call__(
        self, made: Fit | None, parts: Sequence[Part], axes: Sequence[Part], steps: Sequence[Fitted], states: Sequence[Part]
    ) -> TrainedNetwork:
        """All that is published."""
        from pipeline.neural.influence import influences
        from pipeline.neural.predicting import NetworkPredictor
        from pipeline.neural.saved import Trained as Saved

        learning, stage, ready = self.learning, self.learning.stage, Ready.of(self.learning, parts, axes)
        rows, names, material = ready.rows, ready.names, ready.material
        made = made or fit(learning, material)
        network, found = Saved(made.shape, stage.objective, material.inputs, material.target, made.found.parameters), made.found
        predicted = NetworkPredictor(network, learning.backend).of_inputs(material.numbers, material.codes)
        at = rows.labels.of_split("train")
        influence = influences(network, (material.numbers[at], material.codes[at]), learning.backend)
        own = {"network": made.shape.told(), "rounds_used": found.epoch}
        return TrainedNetwork(
            predictions(stage, rows, predicted),
            _importance(names, influence),
            network.saved(),
            learning.description(names, ready.whole.frame, with_states(steps, states), own),
            {**measured(stage, rows.labels, predicted), **({"parallel": made.cost} if made.cost else {})},
            {**_counts(found, names), "missing_values": material.missing, **split_counts(rows)},
            history(stage, found, material.target[1]),
        )


def step_cost(trained: TrainedNetwork) -> dict[str, Any]:
    """What run.json says of training over several devices; nothing of one."""
    return {name: trained.metrics[name] for name in ("parallel",) if name in trained.metrics}


def _counts(fitted: Found, names: list[str]) -> dict[str, int]:
    """Features and rounds; those found only where an earlier run left some."""
    found = {"rounds_found": fitted.resumed} if fitted.resumed else {}
    return {"features": len(names), "rounds_used": fitted.epoch, **found}


def _importance(names: list[str], influence: Array) -> Part:
    """Features by their influence, the greatest first."""
    table = pl.DataFrame({"feature": names, "influence": influence}, schema={"feature": pl.String, "influence": pl.Float64})
    return Part(table.sort("influence", "feature", descending=[True, False]))
