"""How often each category is there, in the place of the category."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from pydantic import Field

from pipeline.stages.features._counted import CategoryCounts


class CountEncode(CategoryCounts, name="count_encode", version=1):
    """Replace categories by the number of rows that have them, Int64, or by their share, Float64; a value not learned has 0.

    Missing stays missing, and a share is one of the rows that have a value. The table NAME.fitted has column, value and rows. There may be
    more categories than memory holds: it is then in several parts.

    Example: {use: count_encode, from: filled, as: counted, columns: [city, employer], fit_where: "split = 'train'"}
    """

    share: bool = Field(False, description="The share of the rows in place of their number.")

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """The same over all parts."""
        return partial.group_by("column", "value").agg(pl.col("rows").sum()).sort("column", "value")

    def totals(self) -> tuple[Sequence[str], Sequence[pl.Expr]]:
        """Rows of each column."""
        return ("column",), (pl.col("rows").sum(),)

    def of_values(self, sums: pl.LazyFrame, totals: pl.LazyFrame) -> pl.LazyFrame:
        """The sums as they are."""
        return sums

    def beside(self, totals: pl.LazyFrame, found: pl.LazyFrame | None = None) -> pl.LazyFrame:
        """Nothing; to apply them, the rows of all values that were not found, of which a share is."""
        rest = totals.select("column", pl.lit(None, dtype=pl.String).alias("value"), "rows")
        if found is None:
            return rest.head(0)
        own = found.group_by("column").agg(pl.col("rows").sum().alias("own"))
        left = pl.col("rows") - pl.col("own").fill_null(0)
        return rest.join(own, on="column", how="left").select("column", "value", left.alias("rows"))

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with counts."""
        return rows.with_columns(self._encoded(name, fitted.filter(pl.col("column") == name)) for name in self.columns)

    def _encoded(self, name: str, learned: pl.DataFrame) -> pl.Expr:
        dtype = pl.Float64() if self.share else pl.Int64()
        counts = learned["rows"].cast(dtype) / (learned["rows"].sum() or 1) if self.share else learned["rows"]
        found = pl.col(name).cast(pl.String).replace_strict(learned["value"], counts, default=pl.lit(0, dtype=dtype), return_dtype=dtype)
        return pl.when(pl.col(name).is_not_null()).then(found).otherwise(None).alias(name)
