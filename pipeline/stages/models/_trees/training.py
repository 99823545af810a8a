"""Boosted trees in one task: the parts stream into one quantile matrix in the order of the key, and every row is predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from pipeline.stage import Context, Outcome
from pipeline.stages.models._learning import Given, predictions, with_states
from pipeline.stages.models._predictor import COLUMNS, check_finite
from pipeline.stages.models._training_rows import TrainingRows, in_32_bits, in_key_order
from pipeline.stages.models._trees.booster import Trees, grown
from pipeline.stages.models._trees.from_disk import stays_on_disk, train_from_disk
from pipeline.stages.models._trees.groups import by_group
from pipeline.stages.models._trees.rounded import warn_of_rounding
from pipeline.stages.models._trees.trained import TrainedTrees, answers, check_rows, finished, left_on_gpu, trees_outcome
from pipeline.tables.names import Order
from pipeline.tables.ordering import in_order
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.table import Fitted, Table


def train_here(learning: Trees, rows: Table, context: Context) -> Outcome:
    """Train in one task and give its results as tables, files, metrics and counts."""
    held = rows.hold()
    used = in_order(held.map(partial(_needed, learning)), Order([learning.stage.key])) if held.is_beyond else held
    learning = learning.kept_in(context)
    if stays_on_disk(learning, used) and rows.schema is not None:
        made = train_from_disk(learning, used, learning.stage.predictions_schema(rows.schema), context)
    else:
        made = _train_in_memory(learning, used, context)
    return replace(made, warnings=warn_of_rounding(learning.columns, held, context))


def _train_in_memory(learning: Trees, rows: Table, context: Context) -> Outcome:
    given = Given.of(rows, learning.arrays, rows.futures())
    trained = context.session.submit(_train, learning, given.parts, given.axes, given.steps, given.states, stage=learning.name)
    return trees_outcome(learning, trained, context)


def _needed(learning: Trees, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows as training needs them: without other columns, and wide features in its 32 bits."""
    stage = learning.stage
    own = dict.fromkeys([*stage.row_columns, *stage.aside_columns, *learning.columns])
    return in_32_bits(stage, learning.columns, rows.select(*own))


def _train(learning: Trees, parts: Sequence[Part], axes: Sequence[Part], steps: Sequence[Fitted], states: Sequence[Part]) -> TrainedTrees:
    """Train on all parts."""
    stage, whole = learning.stage, concat_parts(left_on_gpu(learning, parts))
    there = COLUMNS in whole.arrays
    if not there and not whole.frame[stage.key].is_sorted():  # they are copied
        whole = whole.replaced(_needed(learning, whole.frame.lazy()).collect())
    whole = by_group(stage, in_key_order(stage, whole))
    check_finite([] if there else learning.columns, whole.frame, pl.Float32())
    rows, names = TrainingRows.of(stage, whole), learning.feature_names(axes)
    check_rows(stage, rows)
    model = grown(learning, rows, names)
    asked = rows.of_split(learning.asked) if learning.asked else rows
    said = answers(learning, model.booster, asked, names)
    return finished(learning, model, asked, said, predictions(stage, asked, said.predicted), (names, with_states(steps, states)))
