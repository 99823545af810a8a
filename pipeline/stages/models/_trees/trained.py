"""What trained trees give, however they were trained: rows that are checked first, and everything that is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from pipeline.backend.arrays import array_module
from pipeline.backend.boosting import import_xgboost
from pipeline.backend.frames import DeviceFrame
from pipeline.stage import Context, Outcome
from pipeline.stages.models._learning import Trained, outcome, split_counts
from pipeline.stages.models._predictor import COLUMNS, check_finite
from pipeline.stages.models._training_rows import TrainingRows
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._trees.booster import Grown, Trees, history, importance, native, predict
from pipeline.stages.models._trees.explained import MEAN, contributions, mean_contributions, shap_table
from pipeline.stages.models._trees.groups import check_groups
from pipeline.stages.models._trees.measures import trees_measured
from pipeline.stages.models._weights import check_some_weight, check_weights, row_weights
from pipeline.tables.part import Part
from pipeline.tables.table import Fitted, Table


@dataclass(frozen=True)
class Answers:
    """What a model says of rows: predictions [rows] or [rows, outputs], and the SHAP values where they are asked for."""

    predicted: Any
    shap: Any = None


@dataclass(frozen=True)
class TrainedTrees(Trained):
    """What trees give beside what every model does: more tables, by the names behind NAME."""

    tables: Mapping[str, Part]


def trees_outcome(learning: Trees, trained: Any, context: Context) -> Outcome:
    """The tables, files, metrics and counts of a `TrainedTrees` that is still to come."""
    made, session = outcome(learning, trained, context), context.session
    pieces = {name: session.submit(partial(_table, name), trained, stage=learning.name) for name in learning.stage.more_tables}
    tables = {name: Table.of(session, learning.name, [piece]) for name, piece in pieces.items()}
    return replace(made, tables={**made.tables, **tables})


def _table(name: str, trained: TrainedTrees) -> Part:
    return trained.tables[name]


def check_rows(stage: BoostedTrees, rows: TrainingRows) -> None:
    """Raise DataError where the rows' targets cannot be learned, and for wrong groups and weights."""
    frame = rows.part.frame
    rows.labels.check(stage, frame[stage.target], validation=bool(stage.early_stopping_rounds))
    check_groups(stage, frame, rows.labels)
    check_weights(stage, frame, rows.labels)
    check_some_weight(stage, row_weights(stage, frame), rows.labels)


def left_on_gpu(learning: Trees, parts: Sequence[Part]) -> Sequence[Part]:
    """The parts, whose features stay on the GPU, as an array, where all of them lie there: the host sees the other columns alone."""
    stage, there = learning.stage, [part.held for part in parts if isinstance(part.held, DeviceFrame)]
    if len(there) < len(parts) or learning.unfolded or not learning.columns:
        return parts
    seen = list(dict.fromkeys([*stage.row_columns, *stage.aside_columns, *stage.categorical]))
    found = []
    for part, frame in zip(parts, there, strict=True):
        features = frame.matrix(learning.columns)
        if bool(array_module(features).isinf(features).any()):
            check_finite(learning.columns, part.frame, pl.Float32())
        found.append(Part(part.seen(seen), {**part.arrays, COLUMNS: features}))
    return found


def checked(learning: Trees, part: Part) -> Part:
    """The part, its features an array where it lies on a GPU. Raises DataError for a feature that 32 bits do not hold."""
    (there,) = left_on_gpu(learning, [part])
    check_finite([] if COLUMNS in there.arrays else learning.columns, there.frame, pl.Float32())
    return there


def answers(learning: Trees, booster: Any, rows: TrainingRows, names: list[str]) -> Answers:
    """What a model says of rows."""
    shap = contributions(learning, booster, rows, names) if learning.stage.explain else None
    return Answers(predict(learning, booster, rows), shap)


def finished(
    learning: Trees, model: Grown, rows: TrainingRows, said: Answers, table: Part, about: tuple[list[str], Sequence[Fitted]]
) -> TrainedTrees:
    """Everything that is published of a trained model: `table` has predictions, `about` are the features' names and the stages before."""
    (names, fitted), stage, booster = about, learning.stage, model.booster
    trees = booster.num_boosted_rounds()
    told = {name: value for name, value in native(learning).items() if name != "nthread"}  # of where it ran, not of the model
    own = {"trees_used": trees, "xgboost": import_xgboost(lean=learning.lean).__version__, "parameters": told}
    counts = {"features": len(names), "trees_used": trees, **split_counts(rows)}
    more_counts = {"external_rows": model.external, "rounds_found": model.found}
    tables, more = {"history": history(model.curves)}, {}
    if said.shap is not None:
        tables["shap"] = shap_table(stage, rows.part.frame[stage.key], said.shap, names)
        more[MEAN] = mean_contributions(said.shap, len(names))
    return TrainedTrees(
        table,
        importance(booster, names, more),
        bytes(booster.save_raw(stage.suffix)),
        learning.description(names, rows.part.frame, fitted, own),
        trees_measured(stage, rows, said.predicted),
        {**counts, **{name: count for name, count in more_counts.items() if count}},
        tables,
    )
