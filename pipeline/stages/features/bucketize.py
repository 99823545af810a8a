"""Numbers as the numbers of the intervals that they are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError, near
from pipeline.stage import ColumnName, ColumnNames, FittedRows, need_numeric
from pipeline.stages.features._counted import NUMBERS, number, numbers_counted, quantiles
from pipeline.tables.part import Schema
from pipeline.tables.ranks import Counted

Edges = Annotated[tuple[Annotated[float, Field(allow_inf_nan=False)], ...], Field(min_length=1, max_length=1_000)]


class Bucketize(FittedRows, name="bucketize", version=1):
    """Replace numbers by the number of their bucket, Int32 from 0: between edges that are given, or between quantiles that are learned.

    An edge belongs to the bucket above it: with the edges 10 and 20 a value below 10 is in bucket 0, 10 in bucket 1, 20 in bucket 2.
    `buckets` takes quantiles that have about as many rows between them each; equal ones are one, so there may be fewer. Missing stays
    missing, and so does a column without values to learn from. The table NAME.fitted has column, place and edge.

    Example: {use: bucketize, from: filled, as: bucketed, columns: [income, age], buckets: 10, fit_where: "split = 'train'"}
    """

    columns: ColumnNames = Field(description="The columns to put into buckets: numbers.")
    buckets: int | None = Field(None, ge=2, le=1_000, description="How many buckets of about as many rows each.")
    edges: dict[ColumnName, Edges] | None = Field(None, description="Column: its edges, from low to high, in place of quantiles.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.buckets is None) == (self.edges is None):
            raise ValueError("give either buckets (how many) or edges (where)")
        for name in self.edges or {}:
            if name not in self.columns:
                raise ValueError(f"edges has {name!r}, which columns does not name.{near(name, self.columns)}")
        for name, edges in (self.edges or {}).items():
            if list(edges) != sorted(set(edges)):
                raise ValueError(f"the edges of {name!r} must rise from each to the next: {list(edges)}")
        if self.edges is not None and self.fit_where is not None:
            raise ValueError("edges are not learned: leave out fit_where, or give buckets")
        return self

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, hold numbers, and have edges."""
        need_numeric(schema, self.columns, key="columns")
        if self.edges is not None and (lacking := [name for name in self.columns if name not in self.edges]):
            raise StageError(f"column {lacking[0]!r} has no edges", key="edges")

    def writes(self) -> frozenset[str]:
        """The columns put into buckets."""
        return frozenset(self.columns)

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Every value with its count; nothing where edges are given."""
        values = numbers_counted(rows, self.columns)
        return values if self.buckets else values.head(0)

    def ranked(self) -> tuple[Sequence[Counted], Sequence[float]]:
        """The values, and where edges lie among them."""
        return ((NUMBERS,), tuple(self._shares.values())) if self.buckets else ((), ())

    @property
    def _shares(self) -> dict[str, float]:
        """The places of the edges."""
        return {str(place): place / (self.buckets or 2) for place in range(1, self.buckets or 2)}

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, place and edge, those that are equal once."""
        shares = self._shares
        found = quantiles(partial, shares).unpivot(list(shares), index="column", variable_name="place", value_name="edge")
        place = pl.col("place").replace_strict(list(shares), list(range(1, len(shares) + 1)), default=None, return_dtype=pl.Int32)
        distinct = found.with_columns(place).group_by("column", "edge").agg(pl.col("place").min())
        return distinct.select("column", "place", "edge").sort("column", "place")

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with the numbers of buckets."""
        edges = self.edges or {name: tuple(fitted.filter(pl.col("column") == name)["edge"]) for name in self.columns}
        return rows.with_columns(_bucket(name, edges[name]).alias(name) for name in self.columns)


def _bucket(name: str, edges: tuple[float, ...]) -> pl.Expr:
    value = number(name)
    zero = pl.when(value.is_not_null()).then(pl.lit(0, dtype=pl.Int32)).otherwise(None)
    if not edges:
        return zero
    return pl.sum_horizontal((value >= edge).cast(pl.Int32) for edge in edges) + zero
