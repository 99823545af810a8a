"""Numbers by their rank, as values of a normal distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.stage import ColumnNames, Context, FittedRows, Outcome, need_numeric
from pipeline.stages.features._counted import NUMBERS, number, numbers_counted, quantiles, shares
from pipeline.tables.part import Part, Schema
from pipeline.tables.ranks import Counted
from pipeline.tables.table import Table

Knots = NDArray[np.float64]
LEAST = 1e-7  # the share that what is below all values counts as: 5.2 deviations


class RankToNormal(FittedRows, name="rank_to_normal", version=1):
    """Replace numbers by what their rank is in a normal distribution of mean 0 and deviation 1, Float64, whatever their own looks like.

    A value's share is found on the line between `quantiles` quantiles of the rows learned from (where several are one value, in their
    middle), and is no less than 1e-7, no more than 1 - 1e-7; scikit-learn's QuantileTransformer does the same. A column of one value
    becomes 0. Missing stays missing, and so does a column without values. It works on the host, also where there are GPUs; `score` repeats
    it on a CPU alone. The table NAME.fitted has column, count and a column for each quantile.

    With `offset` c the share of the value of rank r of n is (r - c) / (n - 2c + 1), equal values at their mean rank: the rank-based inverse
    normal transformation of traits, `offset: 0.375` by Blom (regenie's --apply-rint), 0.5 as PLINK 2's --quantile-normalize. NAME.fitted
    then has column, count, value and share. A value that was not learned from lies on the line between those beside it.

    Example: {use: rank_to_normal, from: filled, as: ranked, columns: [income, debt], fit_where: "split = 'train'"}
    """

    columns: ColumnNames = Field(description="The columns to transform: numbers.")
    quantiles: int = Field(200, ge=2, le=1_000, description="How many quantiles are learned.")
    offset: float | None = Field(None, ge=0, lt=1, description="Learn every value's rank, less so much, in place of quantiles.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and hold numbers."""
        need_numeric(schema, self.columns, key="columns")

    def writes(self) -> frozenset[str]:
        """The columns transformed."""
        return frozenset(self.columns)

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Every value with its count."""
        return numbers_counted(rows, self.columns)

    def ranked(self) -> tuple[Sequence[Counted], Sequence[float]]:
        """The values, and the quantiles; all values where each has a share of its own."""
        return ((NUMBERS,), tuple(self._shares.values())) if self.offset is None else ((), ())

    @property
    def _shares(self) -> dict[str, float]:
        """The places of the quantiles."""
        return {str(place): place / (self.quantiles - 1) for place in range(self.quantiles)}

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, count and quantiles, or each value and its share."""
        if self.offset is not None:
            return shares(partial, self.offset)
        return quantiles(partial, self._shares)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """As every stage that learns, but that parts are transformed on the host and not by a query."""
        (rows,) = tables.values()
        rows = rows if rows.cheap else rows.hold()
        outcome = super().run({"rows": rows}, context)
        (state,) = outcome.tables["fitted"].futures()
        ranked = rows.named(context.name).map_parts(self._on_part, state, writes=self.writes())
        return replace(outcome, tables={**outcome.tables, "": replace(ranked, fitted=outcome.tables[""].fitted)})

    def _on_part(self, part: Part, state: Part) -> Part:
        return part.replaced(self._ranked(state.frame, part.frame))

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with the columns transformed."""
        schema = pl.Schema({**rows.collect_schema(), **dict.fromkeys(self.columns, pl.Float64())})
        return rows.map_batches(partial(RankToNormal._ranked, self, fitted), schema=schema)

    def _ranked(self, fitted: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
        knots = self._knots(fitted)
        values = frame.select(number(name).alias(name) for name in self.columns)
        return frame.with_columns(_normal(values[name], knots.get(name)) for name in self.columns)

    def _knots(self, fitted: pl.DataFrame) -> dict[str, tuple[Knots, Knots]]:
        """Values and their shares, ascending, by column."""
        if self.offset is None:
            return {name: (np.asarray(edges), np.linspace(0, 1, len(edges))) for name, _, *edges in fitted.iter_rows()}
        groups = fitted.group_by("column", maintain_order=True)
        return {str(name): (rows["value"].to_numpy(), rows["share"].to_numpy()) for (name,), rows in groups}


def _normal(values: pl.Series, knots: tuple[Knots, Knots] | None) -> pl.Series:
    """What the values' ranks are; null where they are, or without knots."""
    from scipy.special import ndtri

    if knots is None:
        return pl.Series(values.name, [None] * len(values), dtype=pl.Float64)
    (edges, shares), given = knots, values.fill_null(float("nan")).to_numpy()
    if shares[0] > 0:
        return pl.Series(values.name, ndtri(np.interp(given, edges, shares))).fill_nan(None)
    share = (np.interp(given, edges, shares) - np.interp(-given, -edges[::-1], -shares[::-1])) / 2
    ends = np.where(given == edges[0], 0.0, np.where(given == edges[-1], 1.0, share))
    share = ends if edges[0] < edges[-1] else 0.5 + np.sign(given - edges[0]) / 2
    return pl.Series(values.name, ndtri(np.clip(share, LEAST, 1 - LEAST))).fill_nan(None)
