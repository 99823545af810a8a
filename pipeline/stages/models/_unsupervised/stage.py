"""What every stage says that learns from rows of numbers without a target: its key and its features, checked by the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.genome.genotypes import refuse_genotypes
from pipeline.stage import ColumnName, Whole, need_columns
from pipeline.stages._keys import need_hashable
from pipeline.stages.models._predictor import Learns
from pipeline.tables.part import Schema


class NumberRows(Whole):
    """Takes rows as points: their features are the coordinates."""

    key: ColumnName = Field(description="Column that names a row, once; whole numbers, text or booleans. It is not a feature.")
    features: tuple[ColumnName, ...] = Field((), description="Feature columns; all but key and split where none are given.")
    exclude: tuple[ColumnName, ...] = Field((), description="Columns that are no features.")
    missing: Literal["refuse", "mean"] = Field(
        "refuse", description="mean: a missing value counts as its feature's mean; refuse: an error."
    )

    @property
    def row_columns(self) -> list[str]:
        """What is kept of a row."""
        return [self.key]

    def feature_columns(self, schema: Schema) -> list[str]:
        """Columns of the frame that are features, in order."""
        outside = {*self.row_columns, *self.exclude}
        return [name for name in (self.features or schema.columns.names()) if name not in outside]

    def check_rows(self, schema: Schema, role: str = "") -> None:
        """Raise StageError for a column that is missing, a key that is none, or a feature that is no number."""
        need_hashable(schema, [self.key], key="key")
        need_columns(schema, self.features, role, key="features")
        need_columns(schema, self.exclude, role, key="exclude")
        features = self.feature_columns(schema)
        for name in features:
            dtype = schema.columns[name]
            if not (dtype.is_numeric() or dtype == pl.Boolean):
                text = f"feature {name!r} is {dtype}: a point takes numbers. Name the columns to use in features, or this one in exclude."
                raise StageError(text, key="features" if self.features else "")
        for name in self.features:
            if name not in features or self.features.count(name) > 1:
                raise StageError(
                    f"features names {name!r}, which is the key or the split, is in exclude, or is named twice", key="features"
                )
        refuse_genotypes(schema)
        if not features and not schema.arrays:
            raise StageError("there is no feature column left: the table has only key, split and excluded columns")

    def kept_schema(self, schema: Schema, made: Mapping[str, pl.DataType]) -> Schema:
        """What is kept of a row, and the columns that are made. Raises StageError where one of these is there already."""
        kept = {name: schema.columns[name] for name in self.row_columns}
        if taken := [name for name in made if name in kept]:
            raise StageError(f"column {taken[0]!r} has the name of a column of the answer. Rename it before.")
        return Schema(pl.Schema({**kept, **made}))


class Unsupervised(NumberRows, Learns):
    """Learns from the rows of split `train`, or from all, and says something of every row."""

    roles = ("rows",)
    suffix = "npz"

    split: ColumnName | None = Field(
        None, description="Column of train, validation and test: train alone is learned from; all rows without."
    )

    @property
    def row_columns(self) -> list[str]:
        """Key and split."""
        return [name for name in (self.key, self.split) if name]

    def check_rows(self, schema: Schema, role: str = "") -> None:
        """Raise StageError for the split, too, where it is no text."""
        if self.split:
            need_columns(schema, [self.split], key="split")
            if schema.columns[self.split] != pl.String:
                dtype = schema.columns[self.split]
                raise StageError(f"split {self.split!r} is {dtype}: it must say train, validation or test (see split)", key="split")
        super().check_rows(schema, role)
