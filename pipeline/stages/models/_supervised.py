"""What every stage says that learns one column of a table from others: its target, its rows and its features, checked by the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.genome.genotypes import refuse_genotypes
from pipeline.stage import ColumnName, need_columns, need_numeric
from pipeline.stages.models._predictor import Learns
from pipeline.stages.models._unfolded.column import Unfolded
from pipeline.tables.part import Schema

if TYPE_CHECKING:
    Objective = str  # a subclass may know more of them than these
else:
    Objective = Literal["regression", "binary", "multiclass"]


class Supervised(Learns):
    """Learns `target` on the rows of split `train` and predicts every row. Which method learns is the subclass's."""

    roles = ("rows",)
    precision: ClassVar[pl.DataType] = pl.Float32()
    """Of the features as the model takes them, and of its predictions."""
    remedy: ClassVar[str] = "Use categorify for it, or name it in exclude."
    """For a feature that is no number."""

    target: ColumnName = Field(description="Column to predict; 0 and 1 for a binary objective.")
    key: ColumnName = Field(description="Column that names a row; it is not a feature, and its order is the order of training.")
    objective: Objective = Field(description="What the target is.")
    classes: tuple[str | int, ...] = Field((), description="Values of a multi-class target, in the order of the prediction columns.")
    split: ColumnName | None = Field("split", description="Column of train, validation and test; null to train on all rows.")
    features: tuple[ColumnName, ...] = Field((), description="Feature columns; all but target, key and split where none are given.")
    exclude: tuple[ColumnName, ...] = Field((), description="Columns that are no features.")
    categorical: tuple[ColumnName, ...] = Field((), description="Features that are codes of categories (see categorify).")
    rounds: int = Field(200, ge=1, le=100_000, description="Most rounds: trees, steps of a solver, or epochs.")
    early_stopping_rounds: int | None = Field(
        None, ge=1, description="Stop after so many rounds without a better validation metric, and keep the best round's model."
    )
    class_weight: Literal["none", "balanced"] = Field("none", description="balanced: every class weighs the same in training.")
    weight: ColumnName | None = Field(
        None, description="Column of row weights, 0 or more, in training and in metrics: a row of weight 2 counts as two; no feature."
    )

    @property
    def class_names(self) -> list[str]:
        """Values of a multi-class target as text; empty for other objectives."""
        return [str(value) for value in self.classes]

    @property
    def row_columns(self) -> list[str]:
        """Key, split and target: what predictions keep of a row."""
        return [name for name in (self.key, self.split, self.target) if name]

    @property
    def unfolded(self) -> Mapping[str, Unfolded]:
        """Features that are several numbers each, and how."""
        return {}

    @property
    def prediction_columns(self) -> list[str]:
        """Names of the columns with predictions: one a class where there are several."""
        return [f"prediction_{value}" for value in self.classes] or ["prediction"]

    @property
    def aside_columns(self) -> list[str]:
        """Columns that say how rows are learned from, and are no features."""
        return [self.weight] if self.weight else []

    def feature_columns(self, schema: Schema) -> list[str]:
        """Columns of the frame that are features, in order."""
        outside = {*self.row_columns, *self.exclude, *self.aside_columns}
        return [name for name in (self.features or schema.columns.names()) if name not in outside]

    def check_columns(self, schema: Schema) -> None:
        """Raise StageError where a column that a parameter names is missing."""
        single = {"target": self.target, "key": self.key, "split": self.split}
        several = {"features": self.features, "exclude": self.exclude, "categorical": self.categorical}
        for key, names in {**{key: [name] if name else [] for key, name in single.items()}, **several}.items():
            need_columns(schema, names, key=key)

    def check_features(self, schema: Schema) -> None:
        """Raise StageError where there is no feature, or for one that is no number, or that is named and cannot be one."""
        features, key = self.feature_columns(schema), "features" if self.features else ""
        for name in features:
            if name not in self.unfolded and not is_number(schema.columns[name]):
                raise StageError(f"feature {name!r} is {schema.columns[name]}: a model takes numbers. {self.remedy}", key=key)
        for name in self.categorical:
            dtype = schema.columns[name]
            if name not in features or not (dtype.is_integer() or dtype == pl.Boolean):
                raise StageError(
                    f"categorical names {name!r} ({dtype}), and takes features that hold whole numbers (see categorify)", key="categorical"
                )
        for name in self.features:
            if name in self.row_columns or self.features.count(name) > 1:
                raise StageError(f"features names {name!r}, which is the target, the key or the split, or is named twice", key="features")
        refuse_genotypes(schema)
        if not self.feature_columns(schema) and not schema.arrays:
            raise StageError("there is no feature column left: the table has only key, target, split and excluded columns")

    def check_weight(self, schema: Schema) -> None:
        """Raise StageError where the weights are no column of numbers, or one that is something else already."""
        if not self.weight:
            return
        need_numeric(schema, [self.weight], key="weight")
        if self.weight in (*self.row_columns, *self.features):
            raise StageError(
                f"{self.weight!r} is the key, the target, the split or a feature already. Give a column of its own.", key="weight"
            )

    def check_stopping(self) -> None:
        """Raise StageError where early stopping has no rows to watch."""
        if self.early_stopping_rounds and not self.split:
            raise StageError("early_stopping_rounds needs a split column with validation rows", key="early_stopping_rounds")

    def check_split(self, schema: Schema) -> None:
        """Raise StageError where the split is no text."""
        if self.split and schema.columns[self.split] != pl.String:
            dtype = schema.columns[self.split]
            raise StageError(f"split {self.split!r} is {dtype}: it must say train, validation or test (see split)", key="split")

    def check_target(self, dtype: pl.DataType) -> None:
        """Raise StageError where the objective does not fit the target, or the classes the objective."""
        if self.objective != "multiclass" and not is_number(dtype):
            raise StageError(f"target {self.target!r} is {dtype}; a {self.objective} objective needs numbers", key="target")
        if self.objective == "multiclass" and dtype.is_float():
            raise StageError(f"target {self.target!r} is {dtype}; classes are text or whole numbers. Cast it.", key="target")
        if (self.objective == "multiclass") != bool(self.classes):
            raise StageError("the values of a multi-class target, at least 3, and of no other; 'binary' has 0 and 1", key="classes")
        if self.classes and len({*self.class_names}) < max(3, len(self.classes)):
            raise StageError(f"{list(self.classes)} must be three values or more, each once", key="classes")
        if self.class_weight == "balanced" and self.objective not in ("binary", "multiclass"):
            raise StageError(f"balanced is for classes, and a {self.objective} has none. Leave it out.", key="class_weight")

    def predictions_schema(self, schema: Schema) -> Schema:
        """Schema of the predictions. Raises StageError where one of their columns is there already."""
        kept = {name: schema.columns[name] for name in self.row_columns}
        if taken := [name for name in self.prediction_columns if name in kept]:
            raise StageError(f"column {taken[0]!r} has the name of a column of the predictions. Rename it before.")
        return Schema(pl.Schema({**kept, **dict.fromkeys(self.prediction_columns, self.precision)}))


def is_number(dtype: pl.DataType) -> bool:
    """Whether values of a type can be features or a numeric target."""
    return dtype.is_numeric() or dtype == pl.Boolean
