"""What models share, by one that is no XGBoost: it predicts the weighted mean of the training rows' target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError
from pipeline.stage import Context, Outcome
from pipeline.stages.models._learning import Given, Learning, Trained, described, outcome, predictions, split_counts, with_states
from pipeline.stages.models._measures import class_weights, measured
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._training_rows import Labels, TrainingRows, in_key_order
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Fitted, Table
from pipeline.testing.stages import SEED, cut, even_sizes

ROWS = pl.DataFrame(
    {
        "id": ["d", "b", "a", "c", "e", "f"],
        "x": [1.0, 2.0, 3.0, 4.0, 5.0, None],
        "y": [1, 0, 0, 1, 0, None],
        "split": ["test", "train", "train", "train", "validation", "train"],
    }
)


class Mean(Supervised):
    """The mean of the target."""

    suffix = "txt"

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One task."""
        rows = tables["rows"].named(context.name)
        assert rows.schema is not None
        columns, arrays = tuple(self.feature_columns(rows.schema)), tuple(rows.schema.arrays)
        types = tuple(str(rows.schema.columns[name]) for name in columns)
        learning = Learning(context.name, self, columns, types, arrays, context.seed, context.session.backend, context.session.threads)
        given = Given.of(rows, arrays, rows.futures())
        trained = context.session.submit(learned, learning, given.parts, given.axes, given.steps, given.states, stage=context.name)
        return outcome(learning, trained, context)


def learned(
    learning: Learning[Mean], parts: Sequence[Part], axes: Sequence[Part], steps: Sequence[Fitted], states: Sequence[Part]
) -> Trained:
    rows = TrainingRows.of(learning.stage, in_key_order(learning.stage, concat_parts(parts)))
    values = np.concatenate([rows.labels.values[places] for places, _ in rows.chosen("train")])
    weights = class_weights(learning.stage, rows.labels)(values)
    predicted = np.full(rows.part.frame.height, np.average(values, weights=weights), np.float32)
    return Trained(
        predictions(learning.stage, rows, predicted),
        Part(pl.DataFrame({"feature": learning.feature_names(axes)})),
        str(predicted[0]).encode(),
        str(described(with_states(steps, states))).encode(),
        measured(learning.stage, rows.labels, predicted),
        split_counts(rows),
    )


def mean(**more: Any) -> Mean:
    return Mean.model_validate({"target": "y", "key": "id", "objective": "binary", **more})


def run(stage: Mean, session: Session, sizes: Sequence[int]) -> dict[str, Any]:
    """All that the stage gave, taken from the workers where it ran on them."""
    table = Table.of(session, "rows", cut(ROWS, sizes), schema=Schema(ROWS.schema))
    table = replace(table, fitted=(Fitted("before", "mean", stage, session.submit(Part, pl.DataFrame({"a": [1]}), stage="before")),))
    outcome = stage.run({"rows": table}, Context("model", SEED, session))

    def had(value: Any) -> Any:
        return value.result(60) if session.is_future(value) else value

    return {
        "rows": concat_parts([had(part) for part in outcome.tables[""].futures()]).frame,
        "model": had(outcome.files["model.txt"]),
        "description": had(outcome.files["model.json"]),
        "metrics": had(outcome.metrics),
        "counts": had(outcome.counts),
    }


@pytest.mark.parametrize("sizes", [[6], even_sizes(6, 3), [0, 5, 0, 1]])
def test_another_model__has_splits_labels_weights_and_metrics_from_what_models_share(sizes: list[int]) -> None:
    found = run(mean(), Session(), sizes)
    assert found["rows"].equals(ROWS.sort("id").select("id", "split", "y", prediction=pl.lit(1 / 3, pl.Float32)))
    assert found["counts"] == {"rows_train": 4, "rows_validation": 1, "rows_test": 1}
    assert found["metrics"]["train"] == pytest.approx({"auc": 0.5, "log_loss": 0.636514, "accuracy": 2 / 3})
    assert found["metrics"]["test"]["auc"] is None
    assert run(mean(class_weight="balanced"), Session(), sizes)["model"] == b"0.5"


def test_another_model__takes_lists_of_futures_on_workers(workers: ClusterSession) -> None:
    here, there = run(mean(), Session(), [6]), run(mean(), workers, even_sizes(6, 3))
    assert here.pop("rows").equals(there.pop("rows"))
    assert there == here
    assert b"'state': {'a': [1]}" in there["description"]


def test_labels__know_numbers_classes_and_splits() -> None:
    several = mean(objective="multiclass", classes=("lo", 2, "hi"), split=None)
    labels = Labels.of(several, pl.DataFrame({"y": ["hi", "2", None, "odd"]}))
    np.testing.assert_array_equal(labels.values, [2, 1, np.nan, np.nan])
    assert labels.splits.tolist() == [0, 0, 0, 0]
    odd = Labels.of(mean(), pl.DataFrame({"y": [True, None, False], "split": ["holdout", "train", "train"]}))
    assert odd.splits.tolist() == [-1, 0, 0]
    assert odd.of_split("train").tolist() == [False, False, True]


@pytest.mark.parametrize("validation", [True, False])
def test_labels__early_stopping_alone_needs_validation_rows(validation: bool) -> None:
    rows = ROWS.filter(pl.col("split") == "train")
    labels = Labels.of(mean(), rows)
    if not validation:
        labels.check(mean(), rows["y"], validation=False)
        return
    with pytest.raises(DataError, match="early stopping needs validation rows with a 'y', and there are none"):
        labels.check(mean(), rows["y"], validation=True)
