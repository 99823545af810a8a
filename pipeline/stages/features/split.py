"""Split rows into training, validation and test by their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.stage import ColumnNames, Context, Outcome, Share, Stage
from pipeline.stages._keys import FRACTION, STEP, need_hashable, with_fraction
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Split(Stage, name="split", version=1):
    """Add a column `split` that says train, validation or test, by a hash of the key: the same on any machine and in any order.

    Rows with one key share a split, so a person or a loan never stands on both sides. The hash is splitmix64 of the key (text: of its
    FNV-1a hash); its upper 53 bits over 2^53 are below `train`, below `train` + `validation`, or above. A missing key counts as 0 or ''.

    Example: {use: split, from: features, as: divided, key: loan_id, train: 0.7, validation: 0.15, test: 0.15}
    """

    key: ColumnNames = Field(description="The columns that say what must not be torn apart: integers, text or booleans.")
    train: Share = Field(0.7, description="Share of the keys to train on.")
    validation: Share = Field(0.15, description="Share of the keys to stop training by; may be 0.")
    test: Share = Field(0.15, description="Share of the keys to judge the model by; may be 0.")
    seed: int | None = Field(None, ge=0, description="Another seed, another split; the job's seed where it is not given.")

    @model_validator(mode="after")
    def _sums_to_one(self) -> Self:
        total = self.train + self.validation + self.test
        if abs(total - 1) > 1e-9:
            raise ValueError(f"train, validation and test sum to {total:.6g}, and must sum to 1")
        return self

    def check_input(self, role: str, schema: Schema) -> None:
        """The keys exist, in a type that can be hashed, and `split` is not one of them."""
        need_hashable(schema, self.key, key="key")
        if "split" in schema.columns:
            raise StageError("there is a column 'split' already. Rename or drop it before.")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A fraction for every row's key, compared with the shares."""
        (rows,) = tables.values()
        start = STEP * ((context.seed if self.seed is None else self.seed) + 1)
        divided = with_fraction(rows.named(context.name), self.key, start)
        limits = (self.train, round(self.train + self.validation, 12))
        return Outcome({"": divided.map(_named, *limits, writes=frozenset({"split"}))})


def _named(rows: pl.LazyFrame, train: float, validation: float) -> pl.LazyFrame:
    value = pl.col(FRACTION)
    label = pl.when(value < train).then(pl.lit("train")).when(value < validation).then(pl.lit("validation")).otherwise(pl.lit("test"))
    return rows.with_columns(label.alias("split")).drop(FRACTION)
