"""Boosted trees in one task: the parts stream into one quantile matrix in the order of the key, and every row is predicted."""

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
from pipeline.stages.models._learning import Given, Trained, outcome, predictions, split_counts, with_states
from pipeline.stages.models._predictor import COLUMNS, check_finite
from pipeline.stages.models._training_rows import TrainingRows, in_32_bits, in_key_order
from pipeline.stages.models._trees.booster import Grown, Trees, grown, history, importance, native, predict
from pipeline.stages.models._trees.explained import MEAN, contributions, mean_contributions, shap_table
from pipeline.stages.models._trees.groups import by_group, check_groups
from pipeline.stages.models._trees.measures import trees_measured
from pipeline.stages.models._trees.rounded import warn_of_rounding
from pipeline.stages.models._weights import check_some_weight, check_weights, row_weights
from pipeline.tables.laid import Laid, Stack
from pipeline.tables.names import Order
from pipeline.tables.ordering import in_order
from pipeline.tables.part import Part, concat_parts
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


def train_here(learning: Trees, rows: Table, context: Context) -> Outcome:
    """Train in one task and give its results as tables, files, metrics and counts. Features beyond memory stay on disk."""
    held, stage = rows.hold(), learning.stage
    used = in_order(held.map(partial(_needed, learning)), Order([stage.key])) if held.is_beyond else held
    stays = used.is_beyond and not (stage.group or learning.asked or learning.unfolded)  # rows of a group stand together, in another order
    used = used.map_parts(partial(_checked, learning)).hold() if stays else used
    parts = [block.source for block in used.blocks] if stays else used.futures()
    learning, given = learning.kept_in(context), Given.of(used, learning.arrays, parts)
    trained = context.session.submit(_train, learning, given.parts, given.axes, given.steps, given.states, stage=learning.name)
    warnings = warn_of_rounding(learning.columns, held, context)
    return replace(trees_outcome(learning, trained, context), warnings=warnings)


def _needed(learning: Trees, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows as training needs them: without other columns, and wide features in its 32 bits."""
    stage = learning.stage
    own = dict.fromkeys([*stage.row_columns, *stage.aside_columns, *learning.columns])
    return in_32_bits(stage, learning.columns, rows.select(*own))


def _checked(learning: Trees, part: Part) -> Part:
    """The part. Raises DataError for a feature that 32 bits do not hold."""
    check_finite(learning.columns, part.frame, pl.Float32())
    return part


def _train(
    learning: Trees, parts: Sequence[Part | Laid], axes: Sequence[Part], steps: Sequence[Fitted], states: Sequence[Part]
) -> TrainedTrees:
    """Train on all parts; those on disk are in the order of the key."""
    stage, names = learning.stage, learning.feature_names(axes)
    rows = _on_disk(learning, [part for part in parts if isinstance(part, Laid)]) or _in_memory(
        learning, [part.read() if isinstance(part, Laid) else part for part in parts]
    )
    rows.labels.check(stage, rows.part.frame[stage.target], validation=bool(stage.early_stopping_rounds))
    check_groups(stage, rows.part.frame, rows.labels)
    check_weights(stage, rows.part.frame, rows.labels)
    check_some_weight(stage, row_weights(stage, rows.part.frame), rows.labels)
    model = grown(learning, rows, names)
    asked = rows.of_split(learning.asked) if learning.asked else rows
    trained = finished(learning, model, asked, answers(learning, model.booster, asked, names), (names, with_states(steps, states)))
    more = {"external_rows": rows.part.rows if model.external else 0, "rounds_found": model.found}
    return replace(trained, counts={**trained.counts, **{name: count for name, count in more.items() if count}})


def _on_disk(learning: Trees, parts: Sequence[Laid]) -> TrainingRows | None:
    """Rows whose features stay on disk; None where there are no parts there, or not in the order of the key (of keys that are missing)."""
    stage, stack = learning.stage, Stack(parts)
    known = dict.fromkeys([*stage.row_columns, *stage.aside_columns, *stage.categorical])
    facts = Part(stack.only([*known])[: stack.rows]) if parts else None
    if facts is None or not facts.frame[stage.key].is_sorted():
        return None
    return replace(TrainingRows.of(stage, in_key_order(stage, facts)), stack=stack)


def _in_memory(learning: Trees, parts: Sequence[Part]) -> TrainingRows:
    """The rows of parts that are there."""
    stage, whole = learning.stage, concat_parts(left_on_gpu(learning, parts))
    there = COLUMNS in whole.arrays
    if not there and not whole.frame[stage.key].is_sorted():  # they are copied
        whole = whole.replaced(_needed(learning, whole.frame.lazy()).collect())
    whole = by_group(stage, in_key_order(stage, whole))
    check_finite([] if there else learning.columns, whole.frame, pl.Float32())
    return TrainingRows.of(stage, whole)


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


def answers(learning: Trees, booster: Any, rows: TrainingRows, names: list[str]) -> Answers:
    """What a model says of rows."""
    shap = contributions(learning, booster, rows, names) if learning.stage.explain else None
    return Answers(predict(learning, booster, rows), shap)


def finished(learning: Trees, model: Grown, rows: TrainingRows, said: Answers, about: tuple[list[str], Sequence[Fitted]]) -> TrainedTrees:
    """Everything that is published of a trained model; `about` are the features' names and the stages before."""
    (names, fitted), stage, booster = about, learning.stage, model.booster
    trees = booster.num_boosted_rounds()
    told = {name: value for name, value in native(learning).items() if name != "nthread"}  # of where it ran, not of the model
    own = {"trees_used": trees, "xgboost": import_xgboost(lean=learning.lean).__version__, "parameters": told}
    tables, more = {"history": history(model.curves)}, {}
    if said.shap is not None:
        tables["shap"] = shap_table(stage, rows.part.frame[stage.key], said.shap, names)
        more[MEAN] = mean_contributions(said.shap, len(names))
    return TrainedTrees(
        predictions(stage, rows, said.predicted),
        importance(booster, names, more),
        bytes(booster.save_raw(stage.suffix)),
        learning.description(names, rows.part.frame, fitted, own),
        trees_measured(stage, rows, said.predicted),
        {"features": len(names), "trees_used": trees, **split_counts(rows)},
        tables,
    )
