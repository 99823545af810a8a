"""Means and medians of groups, for fill_missing: by the values of each group with their counts. Not a stage."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

BY, FILL = "by:", "__fill__"
DIGITS = 12


def group_counts(rows: pl.LazyFrame, by: Sequence[str], name: str) -> pl.LazyFrame:
    """The values of a column with their counts, group by group."""
    keys = [pl.col(key).alias(f"{BY}{key}") for key in by]
    values = rows.select(*keys, pl.col(name).cast(pl.Float64).alias(f"of:{name}")).drop_nulls(f"of:{name}")
    return values.group_by([f"{BY}{key}" for key in by] + [f"of:{name}"]).agg(pl.len().cast(pl.Int64).alias(f"rows:{name}"))


def group_figures(partial: pl.LazyFrame, by: Sequence[str], name: str, *, median: bool) -> pl.LazyFrame:
    """A row a group: its keys, and the mean (of 12 digits) or the median of the column under its name."""
    keys, value, count = [f"{BY}{key}" for key in by], f"of:{name}", f"rows:{name}"
    known = partial.select(*keys, value, count).drop_nulls(value).group_by(*keys, value).agg(pl.col(count).sum()).sort(*keys, value)
    if not median:
        known = known.with_columns(pl.col(count).sum().over(keys).alias("whole"))
        known = known.with_columns((pl.col(value) * (pl.col(count) / pl.col("whole"))).alias("share"))
        return known.group_by(keys).agg(pl.col("share").sum().alias(name)).with_columns(pl.col(name).round_sig_figs(DIGITS)).sort(keys)
    placed = known.with_columns(pl.col(count).cum_sum().over(keys).alias("reached"), pl.col(count).sum().over(keys).alias("whole"))
    low, high = (pl.when(pl.col("reached") >= at).then(pl.col(value)).otherwise(None).min() for at in _middle())
    middle = placed.group_by(keys).agg(low.alias("low"), high.alias("high"))
    return middle.select(*keys, (pl.col("low") / 2 + pl.col("high") / 2).alias(name)).sort(keys)


def _middle() -> tuple[pl.Expr, pl.Expr]:
    whole = pl.col("whole")
    return (whole + 1) // 2, whole // 2 + 1


def with_group_fill(rows: pl.LazyFrame, by: Sequence[str], name: str, groups: pl.DataFrame) -> pl.LazyFrame:
    """The rows with a column FILL beside them: what their group has for the column, null where it has nothing."""
    there = groups.filter(pl.col(name).is_not_null()).select(*(pl.col(f"{BY}{key}").alias(key) for key in by), pl.col(name).alias(FILL))
    return rows.join(there.lazy(), on=list(by), how="left", nulls_equal=True, maintain_order="left")
