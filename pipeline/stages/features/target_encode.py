"""What a target is on average for each category, in the place of the category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, ColumnNames, Context, FittedRows, Outcome, need_numeric
from pipeline.stages._keys import FRACTION, STEP, need_hashable, with_fraction
from pipeline.stages.features._counted import need_categories
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

OWN_START = 0x94D049BB133111EB  # so that folds and a split of one seed and key do not go alike
FOLD, LEARNS, TEXT, ENCODED = "__fold__", "__learns__", "__text__", "__encoded__"
DIGITS = 12


class TargetEncode(FittedRows, name="target_encode", version=1):
    """Replace categories by the mean of a target, Float64, smoothed towards the mean of all rows; out of fold where it is learned.

    A category of n rows with the sum s of the target becomes (s + smoothing * mean) / (n + smoothing) (Micci-Barreca 2001, SIGKDD Explor
    3:27-32). Rows that are learned from are divided into folds by a hash of `key`, and a row gets what the other folds say, so that it
    never sees its own target; all other rows, and `score`, get what all folds say. A value that was not learned gets the mean. A missing
    value is a category of its own; rows without a target are not learned from. Results are rounded to 12 digits, so that they do not depend
    on how rows are divided. The table NAME.fitted has column, value, fold (null: all of them), rows and encoded; without a value, the mean.
    There may be more categories than memory holds: NAME.fitted is then in several parts.

    Example: {use: target_encode, from: divided, as: encoded, columns: [city, employer], target: defaulted, key: loan_id,
      fit_where: "split = 'train'"}
    """

    order: ClassVar[tuple[str, ...]] = ("column", "is_value", "value", "fold")
    nulls_first: ClassVar[tuple[str, ...]] = ("value", "fold")
    numbered: ClassVar[str] = ""

    columns: ColumnNames = Field(description="The columns to encode: text, integers or booleans.")
    target: ColumnName = Field(description="The column to predict: numbers, or true and false.")
    key: ColumnNames = Field(description="The columns whose hash says the fold of a row: integers, text or booleans.")
    folds: int = Field(5, ge=2, le=100, description="Folds of the rows to learn from.")
    smoothing: float = Field(20.0, ge=0, description="How many rows the mean of all rows counts as.")
    seed: int | None = Field(None, ge=0, description="Another seed, other folds; the job's seed where it is not given.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist in the types that are needed, and the target is not one of those encoded."""
        need_categories(schema, self.columns, key="columns")
        need_numeric(schema, [self.target], key="target")
        if self.target in self.columns:
            raise StageError(f"column {self.target!r} is the target, and cannot be encoded by itself", key="columns")
        need_hashable(schema, self.key, key="key")

    def writes(self) -> frozenset[str]:
        """The columns encoded."""
        return frozenset(self.columns)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A fold for every row, then as every stage that learns."""
        (rows,) = tables.values()
        start = STEP * ((context.seed if self.seed is None else self.seed) + 1) + OWN_START
        return super().run({"rows": with_fraction(rows.named(context.name), self.key, start)}, context)

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows and sum of the target, by column, value and fold."""
        target = pl.col(self.target).cast(pl.Float64)
        known = rows.select(
            target.alias(self.target), self._fold(), *(pl.col(name).cast(pl.String).alias(f"{TEXT}{name}") for name in self.columns)
        )
        known = known.filter(pl.col(self.target).is_finite())
        frames = [
            known.group_by(pl.col(f"{TEXT}{name}").alias("value"), pl.col(FOLD).alias("fold"))
            .agg(pl.len().cast(pl.Int64).alias("rows"), pl.col(self.target).sum().alias("sum"))
            .select(pl.lit(name).alias("column"), "value", "fold", "rows", "sum")
            for name in self.columns
        ]
        return pl.concat(frames)

    def _fold(self) -> pl.Expr:
        return pl.sum_horizontal((pl.col(FRACTION) >= fold / self.folds).cast(pl.Int32) for fold in range(1, self.folds)).alias(FOLD)

    def sums(self) -> tuple[Sequence[str], Sequence[str]]:
        """Rows, and the target's sum, of each column and value and fold."""
        return ("column", "value", "fold"), ("rows", "sum")

    def wanted(self, rows: pl.LazyFrame, column: str) -> pl.LazyFrame:
        """Its values, each with the fold of which the others are asked, or none where all are."""
        return self._folded(rows).select(pl.col(column).cast(pl.String).alias("value"), pl.col(FOLD).alias("fold"))

    def totals(self) -> tuple[Sequence[str], Sequence[pl.Expr]]:
        """The same of each column and fold."""
        return ("column", "fold"), (pl.col("rows").sum(), pl.col("sum").sum())

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, whether it is of a value, value, fold, rows and encoded."""
        by, totals = self.totals()
        everything = self._everything(partial.group_by(by).agg(totals))
        learned = pl.concat([self._means(everything), self._values(partial, everything)])
        return learned.sort("column", "is_value", "value", "fold", nulls_last=False)

    def of_values(self, sums: pl.LazyFrame, totals: pl.LazyFrame) -> pl.LazyFrame:
        """The same of some values."""
        return self._values(sums, self._everything(totals))

    def beside(self, totals: pl.LazyFrame, found: pl.LazyFrame | None = None) -> pl.LazyFrame:
        """The means of all rows."""
        return self._means(self._everything(totals))

    def _everything(self, means: pl.LazyFrame) -> pl.LazyFrame:
        """Rows and sum of all folds (null), and of all but each."""
        whole = means.group_by("column").agg(pl.col("rows").sum().alias("all_rows"), pl.col("sum").sum().alias("all_sum"))
        left = means.join(whole, on="column", how="left").select(
            "column", "fold", (pl.col("all_rows") - pl.col("rows")).alias("all_rows"), (pl.col("all_sum") - pl.col("sum")).alias("all_sum")
        )
        return pl.concat([whole.select("column", pl.lit(None, dtype=pl.Int32).alias("fold"), "all_rows", "all_sum"), left])

    def _values(self, partial: pl.LazyFrame, everything: pl.LazyFrame) -> pl.LazyFrame:
        """What all folds say of each value, and all but each fold in which it is."""
        sums = [pl.col("rows").sum(), pl.col("sum").sum()]
        values = partial.group_by("column", "value", "fold").agg(sums)
        all_folds = values.group_by("column", "value").agg(sums).rename({"rows": "own_rows", "sum": "own_sum"})
        others = values.join(all_folds, on=["column", "value"], how="left", nulls_equal=True).select(
            "column", "value", "fold", (pl.col("own_rows") - pl.col("rows")).alias("rows"), (pl.col("own_sum") - pl.col("sum")).alias("sum")
        )
        whole_values = all_folds.select(
            "column", "value", pl.lit(None, dtype=pl.Int32).alias("fold"), pl.col("own_rows").alias("rows"), pl.col("own_sum").alias("sum")
        )
        own = pl.concat([whole_values, others]).join(everything, on=["column", "fold"], how="left", nulls_equal=True)
        return own.select("column", pl.lit(True).alias("is_value"), "value", "fold", "rows", self._smoothed())

    def _means(self, everything: pl.LazyFrame) -> pl.LazyFrame:
        """The mean of all folds, and of all but each."""
        mean = pl.when(pl.col("all_rows") > 0).then(pl.col("all_sum") / pl.col("all_rows")).otherwise(None).round_sig_figs(DIGITS)
        nothing = pl.lit(None, dtype=pl.String).alias("value")
        return everything.select(
            "column", pl.lit(False).alias("is_value"), nothing, "fold", pl.col("all_rows").alias("rows"), mean.alias("encoded")
        )

    def _smoothed(self) -> pl.Expr:
        """The smoothed mean; of no rows the mean of all."""
        mean = pl.col("all_sum") / pl.col("all_rows")
        smoothed = (pl.col("sum") + self.smoothing * mean) / (pl.col("rows") + self.smoothing)
        found = pl.when(pl.col("all_rows") == 0).then(None).when(pl.col("rows") + self.smoothing == 0).then(mean).otherwise(smoothed)
        return found.round_sig_figs(DIGITS).alias("encoded")

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with what all folds say: rows that were not learned from."""
        return self._encoded(rows.with_columns(pl.lit(None, dtype=pl.Int32).alias(FOLD)), fitted).drop(FOLD)

    def _apply_part(self, rows: pl.LazyFrame, state: Part) -> pl.LazyFrame:
        """The rows, those that were learned from with what other folds say."""
        return self._encoded(self._folded(rows), state.frame).drop(FOLD, FRACTION)

    def _folded(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with the fold of those that were learned from."""
        learns = pl.col(self.target).cast(pl.Float64).is_finite().fill_null(False)
        if self.fit_where is not None:
            schema = pl.Schema({name: dtype for name, dtype in rows.collect_schema().items() if name != FRACTION})
            learns = learns & self.fit_condition(schema).expr.fill_null(False)
        return rows.with_columns(pl.when(learns).then(self._fold()).otherwise(None).alias(FOLD))

    def _encoded(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        for name in self.columns:
            of = fitted.filter(pl.col("column") == name)
            values = of.filter("is_value").select(pl.col("value").alias(TEXT), pl.col("fold").alias(FOLD), pl.col("encoded").alias(ENCODED))
            means = of.filter(~pl.col("is_value")).select(pl.col("fold").alias(FOLD), pl.col("encoded").alias(f"{ENCODED}mean"))
            found = rows.with_columns(pl.col(name).cast(pl.String).alias(TEXT))
            found = found.join(values.lazy(), on=[TEXT, FOLD], how="left", nulls_equal=True, maintain_order="left")
            found = found.join(means.lazy(), on=FOLD, how="left", nulls_equal=True, maintain_order="left")
            rows = found.with_columns(pl.coalesce(ENCODED, f"{ENCODED}mean").alias(name)).drop(TEXT, ENCODED, f"{ENCODED}mean")
        return rows
