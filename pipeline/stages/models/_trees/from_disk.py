"""Boosted trees of rows beyond memory, which stay on disk: one task trains, and parts are predicted one by one.

XGBoost is read the features as often as it asks. What is in memory of all rows is what training makes of them, their labels and weights,
and what is predicted of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import polars as pl

from pipeline.stage import Context, Outcome
from pipeline.stages.models._learning import predictions, with_states
from pipeline.stages.models._training_rows import Labels, TrainingRows, check_once
from pipeline.stages.models._trees.booster import Curves, Grown, Trees, grown, loaded
from pipeline.stages.models._trees.trained import Answers, TrainedTrees, answers, check_rows, checked, finished, trees_outcome
from pipeline.stages.models._weights import check_weights
from pipeline.tables.budget import Size, row_bytes
from pipeline.tables.laid import Laid, Stack
from pipeline.tables.learned import states_of
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Fitted, Table


class Model(NamedTuple):
    """A booster's bytes, and what `Grown` has beside it."""

    content: bytes
    curves: Curves
    external: int
    found: int


def stays_on_disk(learning: Trees, rows: Table) -> bool:
    """Whether features of these rows are read from disk: rows of a group stand together, in another order; SHAP values are of all rows."""
    stage = learning.stage
    return rows.is_beyond and not (stage.group or stage.explain or learning.asked or learning.unfolded)


def train_from_disk(learning: Trees, rows: Table, gives: Schema, context: Context) -> Outcome:
    """Train on rows that are in the order of the key, and give the results as tables, files, metrics and counts: `gives` predictions."""
    session, name = context.session, learning.name
    laid = rows.map_parts(partial(checked, learning)).hold()
    model = session.submit(_trained, learning, [block.source for block in laid.blocks], stage=name)
    said = laid.map_parts(partial(_predicted, learning), model).hold()
    steps, states = [replace(fitted, state=None) for fitted in rows.fitted], states_of(rows)
    told = session.submit(_finished, learning, model, [block.source for block in said.blocks], steps, states, stage=name)
    made = trees_outcome(learning, told, context)
    assert rows.size is not None
    predicted = replace(said.map(_selected, gives.columns.names()), size=Size(rows.size.rows, row_bytes(gives)))
    return replace(made, tables={**made.tables, "": predicted})


def _trained(learning: Trees, parts: Sequence[Laid]) -> Model:
    stage, rows = learning.stage, _beside_features(learning, parts)
    check_rows(stage, rows)
    model = grown(learning, rows, list(learning.columns))
    return Model(bytes(model.booster.save_raw(stage.suffix)), model.curves, model.external, model.found)


def _beside_features(learning: Trees, parts: Sequence[Laid]) -> TrainingRows:
    """The rows, of which labels, target and weights are in memory. Raises DataError for a key that comes twice, and for a wrong weight."""
    stage, facts, labels, last = learning.stage, list[pl.DataFrame](), list[Labels](), list[pl.Series]()
    for part in parts:
        frame = part.read([*dict.fromkeys([*stage.row_columns, *stage.aside_columns])]).frame
        keys = pl.concat([*last, frame[stage.key]])
        check_once(stage, keys)
        last = [keys.tail(1)]
        facts.append(frame.select(stage.target, *stage.aside_columns))
        labels.append(Labels.of(stage, frame))
        check_weights(stage, frame, labels[-1])
    return TrainingRows(Part(pl.concat(facts)), Labels.of_all(labels), Stack(parts, learning.columns))


def _predicted(learning: Trees, part: Part, model: Model) -> Part:
    """What is known of a part's rows beside their features, and predicted of them."""
    stage, rows = learning.stage, TrainingRows.of(learning.stage, part)
    table = predictions(stage, rows, answers(learning, loaded(model.content), rows, list(learning.columns)).predicted)
    return Part(table.frame.hstack(part.frame.select(*stage.aside_columns, *stage.categorical)))


def _finished(learning: Trees, model: Model, parts: Sequence[Laid], steps: Sequence[Fitted], states: Sequence[Part]) -> TrainedTrees:
    stage, told, labels = learning.stage, list[pl.DataFrame](), list[Labels]()
    columns = [*stage.aside_columns, *stage.categorical, *stage.prediction_columns]
    known = [name for name in stage.row_columns if name != stage.key]
    for part in parts:
        frame = part.read([*dict.fromkeys([*known, *columns])]).frame
        told.append(frame.select(columns))
        labels.append(Labels.of(stage, frame))
    rows = TrainingRows(Part(pl.concat(told)), Labels.of_all(labels))
    predicted = rows.part.frame.select(stage.prediction_columns).to_numpy()
    said = Answers(predicted[:, 0] if predicted.shape[1] == 1 else predicted)
    booster = Grown(loaded(model.content), model.curves, model.external, model.found)
    nothing = Part(pl.DataFrame())  # predictions are there already
    return finished(learning, booster, rows, said, nothing, (list(learning.columns), with_states(steps, states)))


def _selected(rows: pl.LazyFrame, columns: Sequence[str]) -> pl.LazyFrame:
    return rows.select(columns)
