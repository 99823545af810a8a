"""Gradient boosted trees: trained in one task that streams the parts, or over several workers by xgboost.dask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.backend.boosting import import_xgboost, need_xgboost
from pipeline.errors import StageError
from pipeline.stage import ColumnName, Context, Outcome, Whole, need_columns
from pipeline.stages.models._task import Task
from pipeline.stages.models._training import train_here
from pipeline.stages.models._training_dask import train_over_workers
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema
from pipeline.tables.table import Table

FORBIDDEN = ("[", "]", "<")  # in a feature's name, by XGBoost


class Xgboost(Whole, name="xgboost", version=1):
    """Train boosted trees on the rows of split `train`, stop early on `validation`, and predict every row.

    Gives predictions (key, split, target and `prediction`: a value, or the probability of a binary target; one column prediction_CLASS a
    class for several), NAME.importance, the model as models/NAME.ubj with models/NAME.json beside it (features in order, classes, and the
    fitted state of the stages before, which scoring needs), and metrics per split. With early stopping the model ends with its best
    round. Null is missing; rows with no target are predicted only.
    Training does not depend on how the rows are divided: one task takes them in the order of the key.

    Example:
        {use: xgboost, from: features, as: risk, target: disease, key: sample_id, objective: binary, early_stopping_rounds: 20}
    """

    roles = ("rows",)
    counts: ClassVar[Mapping[str, Count]] = {"features": Count("features"), "trees_used": Count("trees used"), "rows_*": Count("rows, *")}

    target: ColumnName = Field(description="Column to predict; 0 and 1 for a binary objective.")
    key: ColumnName = Field(description="Column that names a row; it is not a feature, and its order is the order of training.")
    objective: Literal["regression", "binary", "multiclass"] = Field(description="What the target is.")
    classes: tuple[str | int, ...] = Field((), description="Values of a multi-class target, in the order of the prediction columns.")
    split: ColumnName | None = Field("split", description="Column of train, validation and test; null to train on all rows.")
    features: tuple[ColumnName, ...] = Field((), description="Feature columns; all but target, key and split where none are given.")
    exclude: tuple[ColumnName, ...] = Field((), description="Columns that are no features.")
    categorical: tuple[ColumnName, ...] = Field((), description="Features that are codes of categories (see categorify).")
    rounds: int = Field(200, ge=1, le=100_000, description="Most trees.")
    early_stopping_rounds: int | None = Field(None, ge=1, description="Stop after so many rounds without a better validation metric.")
    max_depth: int = Field(6, ge=1, le=30, description="Depth of a tree.")
    learning_rate: float = Field(0.1, gt=0, le=1, description="Shrinkage of each tree.")
    subsample: float = Field(1.0, gt=0, le=1, description="Share of rows a tree sees.")
    colsample: float = Field(1.0, gt=0, le=1, description="Share of features a tree sees.")
    min_child_weight: float = Field(1.0, ge=0, description="Least weight of a leaf.")
    reg_lambda: float = Field(1.0, ge=0, description="L2 penalty on leaf values.")
    max_bin: int = Field(256, ge=2, le=65_536, description="Most bins a feature is cut into.")
    class_weight: Literal["none", "balanced"] = Field("none", description="balanced: every class weighs the same in training.")
    workers: Literal["one", "all"] = Field(
        "one", description="one: a task of its own, the same model everywhere; all: rows too many for one."
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Predictions and importance.

        Raises StageError for a feature, target, split or classes that cannot be used; PlaceError where xgboost is not installed.
        """
        schema = schemas["rows"]
        need_xgboost(several_workers=self.workers == "all")
        single = {"target": self.target, "key": self.key, "split": self.split}
        for key, name in single.items():
            need_columns(schema, [name] if name else [], key=key)
        for key, names in {"features": self.features, "exclude": self.exclude, "categorical": self.categorical}.items():
            need_columns(schema, names, key=key)
        self._check_features(schema)
        if self.split and schema.columns[self.split] != pl.String:
            raise StageError(
                f"split {self.split!r} is {schema.columns[self.split]}: it must say train, validation or test (see split)", key="split"
            )
        if self.early_stopping_rounds and not self.split:
            raise StageError("early_stopping_rounds needs a split column with validation rows", key="early_stopping_rounds")
        self._check_target(schema.columns[self.target])
        return self._schemas(schema)

    def _check_features(self, schema: Schema) -> None:
        features = self.feature_columns(schema)
        for name in features:
            if not _is_number(schema.columns[name]):
                raise StageError(
                    f"feature {name!r} is {schema.columns[name]}: XGBoost takes numbers. Use categorify for it, or name it in exclude.",
                    key="features" if self.features else "",
                )
            if any(sign in name for sign in FORBIDDEN):
                raise StageError(
                    f"feature {name!r}: XGBoost takes no name with {' '.join(FORBIDDEN)}. Rename it.",
                    key="features" if self.features else "",
                )
        for name in self.features:
            if name in (self.target, self.key, self.split) or self.features.count(name) > 1:
                raise StageError(f"features names {name!r}, which is the target, the key or the split, or is named twice", key="features")
        for name in self.categorical:
            dtype = schema.columns[name]
            if name not in features or not (dtype.is_integer() or dtype == pl.Boolean):
                raise StageError(
                    f"categorical names {name!r} ({dtype}), and takes features that hold whole numbers (see categorify)", key="categorical"
                )
        if "calls" in schema.arrays:
            raise StageError("the table has packed genotype calls, which are no features. Use genotype_features to make dosages of them.")
        if not features and not schema.arrays:
            raise StageError("there is no feature column left: the table has only key, target, split and excluded columns")

    def _check_target(self, dtype: pl.DataType) -> None:
        if self.objective != "multiclass" and not _is_number(dtype):
            raise StageError(f"target {self.target!r} is {dtype}; a {self.objective} objective needs numbers", key="target")
        if self.objective == "multiclass" and dtype.is_float():
            raise StageError(f"target {self.target!r} is {dtype}; classes are text or whole numbers. Cast it.", key="target")
        if (self.objective == "multiclass") != bool(self.classes):
            raise StageError("the values of a multi-class target, at least 3, and of no other; 'binary' has 0 and 1", key="classes")
        if self.classes and len({*map(str, self.classes)}) < max(3, len(self.classes)):
            raise StageError(f"{list(self.classes)} must be three values or more, each once", key="classes")
        if self.class_weight == "balanced" and self.objective == "regression":
            raise StageError("balanced is for classes, and a regression has none. Leave it out.", key="class_weight")

    def _schemas(self, schema: Schema) -> dict[str, Schema]:
        names = [f"prediction_{value}" for value in self.classes] or ["prediction"]
        kept = {name: schema.columns[name] for name in (self.key, self.split, self.target) if name}
        if taken := [name for name in names if name in kept]:
            raise StageError(f"column {taken[0]!r} has the name of a column of the predictions. Rename it before.")
        importance = {"feature": pl.String(), "gain": pl.Float64(), "weight": pl.Float64(), "cover": pl.Float64()}
        return {"": Schema(pl.Schema({**kept, **dict.fromkeys(names, pl.Float32())})), "importance": Schema(pl.Schema(importance))}

    def prepare(self, *, lean: bool = False) -> None:
        """Import XGBoost."""
        import_xgboost(lean=lean)

    def feature_columns(self, schema: Schema) -> list[str]:
        """Columns of the frame that are features, in order."""
        outside = {self.target, self.key, self.split, *self.exclude}
        return [name for name in (self.features or schema.columns.names()) if name not in outside]

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One training task; or xgboost.dask, where that is asked for and there are several workers and parts."""
        rows = tables["rows"].named(context.name)
        assert rows.schema is not None
        columns = tuple(self.feature_columns(rows.schema))
        arrays, session = tuple(rows.schema.arrays), context.session
        task = Task(
            context.name, self.model_dump(mode="json"), columns, arrays, context.seed, session.backend, session.threads, session.lean
        )
        axes = [rows.axes[array].value() for array in arrays]
        states = [state.state for state in rows.fitted]
        fitted = [{"stage": state.stage, "use": state.use, "parameters": dict(state.parameters)} for state in rows.fitted]
        spread = self.workers == "all" and session.workers > 1 and len(rows.blocks) > 1
        train = train_over_workers if spread else train_here
        return train(task, rows, axes, list(zip(fitted, states, strict=True)), context)


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.Boolean
