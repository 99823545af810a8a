"""SHAP values of boosted trees: what each feature adds to a row's margin (Lundberg & Lee 2017; exact for trees: Lundberg et al. 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.boosting import import_xgboost
from pipeline.errors import StageError
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._training_rows import TrainingRows
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.tables.part import Part, Schema

BIAS = "bias"
MEAN = "mean_abs_shap"


def shap_schema(stage: BoostedTrees, schema: Schema) -> Schema:
    """Of NAME.shap: key, the model's output where it has several, a column a feature, and bias. Raises StageError where it cannot be."""
    if schema.arrays:
        raise StageError(
            f"SHAP values are of features that are columns, and the table has {', '.join(schema.arrays)} beside them. Leave explain out.",
            key="explain",
        )
    features = stage.feature_columns(schema)
    taken = {BIAS, *stage.output_column} & {stage.key, *features} | {stage.key} & {*features}
    if taken:
        raise StageError(f"column {min(taken)!r} has the name of a column of the SHAP values. Rename it before.", key="explain")
    made = {stage.key: schema.columns[stage.key], **stage.output_column, **dict.fromkeys([*features, BIAS], pl.Float32())}
    return Schema(pl.Schema(made))


def contributions(learning: Learning[BoostedTrees], booster: Any, rows: TrainingRows, names: list[str]) -> np.ndarray[Any, Any]:
    """SHAP values of all rows, float32 [rows, outputs x (features + 1)], the bias last; of an output they sum to its margin."""
    xgb, stage = import_xgboost(lean=learning.lean), learning.stage
    about = {"feature_names": names, "feature_types": stage.feature_types(names), "enable_categorical": True, "nthread": learning.threads}

    def of(piece: Part) -> Any:
        """Those of some rows."""
        found = booster.predict(xgb.DMatrix(learning.matrix(piece), **about), pred_contribs=True)
        return found.reshape(len(found), len(stage.prediction_columns) * (len(names) + 1))

    return np.concatenate([of(piece) for piece in rows.pieces()])


def shap_table(stage: BoostedTrees, keys: pl.Series, values: np.ndarray[Any, Any], names: list[str]) -> Part:
    """NAME.shap of rows with these keys; the rows of one output after those of another."""
    blocks = np.split(values, len(stage.prediction_columns), axis=1)
    frames = [
        pl.DataFrame({keys.name: keys}).with_columns(
            *(pl.lit(output, dtype).alias(name) for name, dtype in stage.output_column.items()),
            *(pl.Series(name, np.ascontiguousarray(block[:, at])) for at, name in enumerate([*names, BIAS])),
        )
        for output, block in zip(stage.outputs_of_model, blocks, strict=True)
    ]
    return Part(pl.concat(frames))


def mean_contributions(values: np.ndarray[Any, Any], features: int) -> np.ndarray[Any, Any]:
    """Mean of |SHAP| over all rows and outputs, float64 [features]."""
    means: np.ndarray[Any, Any] = np.abs(values.reshape(len(values), -1, features + 1)[:, :, :features]).mean(axis=(0, 1), dtype=np.float64)
    return means
