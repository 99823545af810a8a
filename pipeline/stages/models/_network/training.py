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
from pipeline.stages.models._network.layout import Layout
from pipeline.stages.models._network.rows import Material
from pipeline.stages.models._network.shown import shown
from pipeline.stages.models._predictor import Predictor, check_finite
from pipeline.stages.models._training_rows import TrainingRows, in_key_order
from pipeline.stages.models._unfolded.columns import told
from pipeline.stages.models._weights import check_some_weight, check_weights, row_weights
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.table import Fitted

if TYPE_CHECKING:
    from pipeline.neural.asynchronous import Server
    from pipeline.neural.training import Fitted as Found

Array = Any


@dataclass(frozen=True)
class TrainedNetwork(Trained):
    """What learning gives, what it was like (round, split, metric, value), and what more there is to show, by table."""

    history: Part
    shown: Mapping[str, Part]


def read(description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
    """The published network. Raises InputError for bytes that are none."""
    from pipeline.neural.perceptron import Shape
    from pipeline.neural.predicting import NetworkPredictor
    from pipeline.neural.saved import Trained

    layout, shape = Layout.told(description), Shape.of(description["network"])
    return NetworkPredictor(Trained.read(content, shape, description["objective"], (layout.numbers, layout.codes)), backend)


@dataclass(frozen=True)
class Gathered:
    """All rows in the order of their key, as they are and as a network takes them, and the names of their features."""

    rows: TrainingRows
    names: list[str]
    material: Material


def gathered(learning: Learning[DeepLearning], parts: Sequence[Part], axes: Sequence[Part]) -> Gathered:
    """Of all parts. Raises DataError for rows that cannot be learned from."""
    stage, whole = learning.stage, in_key_order(learning.stage, concat_parts(parts))
    check_finite([name for name in learning.columns if name not in learning.unfolded], whole.frame, pl.Float32())
    rows, names = TrainingRows.of(stage, whole), learning.feature_names(axes)
    rows.labels.check(stage, whole.frame[stage.target], validation=bool(stage.early_stopping_rounds))
    check_weights(stage, whole.frame, rows.labels)
    check_some_weight(stage, row_weights(stage, whole.frame), rows.labels)
    return Gathered(rows, names, Material.of(learning, rows, names))


def train(
    learning: Learning[DeepLearning],
    made: Fit | None,
    parts: Sequence[Part],
    axes: Sequence[Part],
    steps: Sequence[Fitted],
    states: Sequence[Part],
) -> TrainedNetwork:
    """Train on all parts, and predict them; what several workers `made` is not trained again."""
    return trained(learning, gathered(learning, parts, axes), with_states(steps, states), made=made)


def trained(
    learning: Learning[DeepLearning], given: Gathered, steps: Sequence[Fitted], server: Server | None = None, made: Fit | None = None
) -> TrainedNetwork:
    """Train on rows that were gathered, by the learners of a server where there is one; what is `made` is not trained again."""
    from pipeline.neural.influence import influences
    from pipeline.neural.predicting import NetworkPredictor
    from pipeline.neural.saved import Trained as Saved

    stage, rows, names, material = learning.stage, given.rows, given.names, given.material
    made = made or fit(learning, material, server)
    network, fitted = Saved(made.shape, stage.objective, material.inputs, material.target, made.found.parameters), made.found
    predictor = NetworkPredictor(network, learning.backend)
    predicted = predictor.of_inputs(material.numbers, material.codes)
    at = material.labels.of_split("train")
    influence = influences(network, (material.numbers[at], material.codes[at]), learning.backend)
    own = {
        "network": made.shape.told(),
        "unfolded": told(learning.unfolded),
        "rounds_used": fitted.epoch,
        "reproducible": stage.reproducible,
    }
    return TrainedNetwork(
        predictions(stage, rows, predicted),
        _importance(material.layout.names, influence),
        network.saved(),
        learning.description(names, rows.part.frame, steps, {**own, "reproducible": stage.reproducible}),
        {**measured(stage, rows.labels, predicted, material.weights), **({"parallel": made.cost} if made.cost else {})},
        {**_counts(stage, fitted, names), "missing_values": material.missing, **split_counts(rows)},
        history(stage, fitted, material.target[1]),
        shown(learning, network, material, rows, predicted),
    )


def step_cost(trained: TrainedNetwork) -> dict[str, Any]:
    """What run.json says of training over several devices; nothing of one."""
    return {name: trained.metrics[name] for name in ("parallel",) if name in trained.metrics}


def _counts(stage: DeepLearning, fitted: Found, names: list[str]) -> dict[str, int]:
    """Features and rounds; those found only where an earlier run left some, and skipped steps where there can be some."""
    found = {"rounds_found": fitted.resumed} if fitted.resumed else {}
    found |= {"skipped_steps": fitted.skipped} if stage.arithmetic == "float16" else {}
    return {"features": len(names), "rounds_used": fitted.epoch, **found}


def _importance(names: Sequence[str], influence: Array) -> Part:
    """Features by their influence, the greatest first."""
    table = pl.DataFrame({"feature": list(names), "influence": influence}, schema={"feature": pl.String, "influence": pl.Float64})
    return Part(table.sort("influence", "feature", descending=[True, False]))
