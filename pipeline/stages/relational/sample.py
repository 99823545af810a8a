"""Keep a share of the rows, chosen by their keys."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from pydantic import Field

from pipeline.stage import ColumnNames, Context, Outcome, Share, Stage
from pipeline.stages._keys import FRACTION, STEP, need_hashable, with_fraction
from pipeline.tables.part import Schema
from pipeline.tables.table import Table

OWN_START = 0xD1B54A32D192ED03  # so that a sample and a split of one seed and key do not choose alike


class Sample(Stage, name="sample", version=1):
    """Keep about a share of the rows by a hash of their keys: rows of one key all stay or all go, on any machine and in any order.

    Example: {use: sample, from: performance, as: some, fraction: 0.1, key: loan_id}
    """

    fraction: Share = Field(description="The share of the keys to keep, 0 to 1.")
    key: ColumnNames = Field(description="The columns whose values choose: integers, text or booleans.")
    seed: int | None = Field(None, ge=0, description="Another seed, another sample; the job's seed where it is not given.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The keys exist, in a type that can be hashed."""
        need_hashable(schema, self.key, key="key")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A fraction for every row's key, and a filter."""
        (rows,) = tables.values()
        start = STEP * ((context.seed if self.seed is None else self.seed) + 1) + OWN_START
        chosen = with_fraction(rows.named(context.name), self.key, start)
        return Outcome({"": chosen.map(_below, self.fraction, writes=frozenset())})


def _below(rows: pl.LazyFrame, limit: float) -> pl.LazyFrame:
    return rows.filter(pl.col(FRACTION) < limit).drop(FRACTION)
