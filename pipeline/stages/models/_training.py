"""Boosted trees in one task: the parts stream into one quantile matrix in the order of the key, and every row is predicted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline.backend.boosting import import_xgboost
from pipeline.stage import Context, Outcome
from pipeline.stages.models._booster import Trees, check_finite, grown, importance, native, predict
from pipeline.stages.models._learning import Given, Trained, described, outcome, predictions, split_counts, with_states
from pipeline.stages.models._measures import measured
from pipeline.stages.models._rounded import warn_of_rounding
from pipeline.stages.models._training_rows import TrainingRows, in_key_order
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.table import Fitted, Table

SUFFIX = "ubj"


def train_here(learning: Trees, rows: Table, context: Context) -> Outcome:
    """Train in one task and give its results as tables, files, metrics and counts."""
    given = Given.of(rows, learning.arrays, rows.futures())
    trained = context.session.submit(_train, learning, given.parts, given.axes, given.steps, given.states, stage=learning.name)
    warnings = warn_of_rounding(learning.columns, given.parts, context)
    return replace(outcome(learning.name, SUFFIX, trained, context), warnings=warnings)


def _train(learning: Trees, parts: Sequence[Part], axes: Sequence[Part], steps: Sequence[Fitted], states: Sequence[Part]) -> Trained:
    """Train on all parts."""
    stage, whole = learning.stage, in_key_order(learning.stage, concat_parts(parts))
    check_finite(learning.columns, whole.frame)
    rows, names = TrainingRows.of(stage, whole), learning.feature_names(axes)
    rows.labels.check(stage, whole.frame[stage.target], validation=bool(stage.early_stopping_rounds))
    booster, external = grown(learning, rows, names)
    trained = finished(learning, booster, rows, predict(learning, booster, rows), (names, with_states(steps, states)))
    return replace(trained, counts={**trained.counts, "external_rows": whole.frame.height}) if external else trained


def finished(learning: Trees, booster: Any, rows: TrainingRows, predicted: Any, about: tuple[list[str], Sequence[Fitted]]) -> Trained:
    """Everything that is published of a trained model; `about` are the features' names and the stages before."""
    (names, fitted), stage, trees = about, learning.stage, booster.num_boosted_rounds()
    text = {
        "model": f"{learning.name}.{SUFFIX}", "objective": stage.objective, "target": stage.target, "key": stage.key,
        "classes": stage.class_names, "features": names, "types": dict(zip(learning.columns, learning.types, strict=True)),
        "arrays": list(learning.arrays), "categorical": list(stage.categorical), "trees_used": trees,
        "codes": {name: rows.part.frame[name].max() for name in stage.categorical},
        "xgboost": import_xgboost(lean=learning.lean).__version__, "parameters": native(learning), "fitted": described(fitted),
    }  # fmt: skip
    return Trained(
        predictions(stage, rows, predicted),
        importance(booster, names),
        bytes(booster.save_raw(SUFFIX)),
        (json.dumps(text, indent=1, default=str) + "\n").encode(),
        measured(stage, rows.labels, predicted),
        {"features": len(names), "trees_used": trees, **split_counts(rows)},
    )
