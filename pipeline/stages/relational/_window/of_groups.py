"""Windows over whole groups that are more than a task may hold: what comes of each is an aggregate, put beside its rows where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from pipeline.stages.relational._computed import Computed
from pipeline.stages.relational._window.columns import Column, columns_of
from pipeline.stages.relational._window.functions import UNORDERED, Windowed
from pipeline.tables.budget import row_bytes
from pipeline.tables.infinities import counted, made_finite
from pipeline.tables.pairs import for_two, large_keys
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

FOUND = "__found__"


@dataclass(frozen=True)
class OfGroups:
    """What is computed of whole groups, whose rows stay as they came; `keys` are those of large groups, none where all rows are one."""

    by: tuple[str, ...]
    compute: Mapping[str, Windowed]
    keys: pl.DataFrame

    @staticmethod
    def of(by: tuple[str, ...], compute: Mapping[str, Windowed], rows: Table) -> tuple[Table, OfGroups | None]:
        """A table, to be read again, and what there is of such groups. Waits for their keys to be counted."""
        if not rows.is_beyond or rows.schema is None or any(windowed.function not in UNORDERED for windowed in compute.values()):
            return rows, None
        schema, rows = rows.schema, for_two(rows)
        keys = large_keys(rows, by, row_bytes(schema)) if by else pl.DataFrame()
        return rows, OfGroups(by, compute, keys) if keys.height or not by else None

    def others(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows of all other groups."""
        return rows.join(self.keys.lazy(), on=self.by, how="anti", nulls_equal=True, maintain_order="left")

    @property
    def asked(self) -> dict[str, Computed]:
        """What an aggregate is asked of them: of a share the sum."""
        return {
            name: Computed(function="sum" if one.function == "share" else one.function, of=one.of, q=one.quantile)
            for name, one in self.compute.items()
        }

    def own(self, rows: Table) -> Table:
        """The rows of these groups, in the parts that they are in."""
        return replace(rows.map(self._own, writes=frozenset()), schema=rows.schema) if self.by else rows

    def values(self, rows: Table) -> Table:
        """Of those rows the keys and the values, by the words of the job, whose infinities are missing and were counted already."""
        own = self.own(rows)
        assert own.schema is not None
        schema = own.schema.columns
        read = {one.of: one.value(schema).expr for one in self.compute.values() if one.of is not None and one.of not in self.by}
        dtypes = schema.to_frame().lazy().select(expr.alias(name) for name, expr in read.items()).collect_schema()
        found = own.map(_named, self.by, read, writes=None)
        return replace(found, schema=Schema(pl.Schema({**{name: schema[name] for name in self.by}, **dtypes})))

    def table(self, rows: Table, found: Any) -> Table:
        """The rows of these groups with the results, which are `found` by the keys: a part, or a future of one."""
        return self.own(rows).map(self._beside, found, writes=frozenset(self.compute))

    def _own(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.join(self.keys.lazy(), on=self.by, how="semi", nulls_equal=True, maintain_order="left")

    def _beside(self, rows: pl.LazyFrame, found: Part) -> pl.LazyFrame:
        values, columns = columns_of(rows.collect_schema(), self.compute)
        valued = rows.with_columns(value.expr.alias(name) for name, value in values.items())  # infinite ones the aggregate has counted
        return with_whole(valued.with_columns(pl.lit(None).alias(column.result) for column in columns), self.by, columns, found)


def _named(rows: pl.LazyFrame, by: Sequence[str], values: Mapping[str, pl.Expr]) -> pl.LazyFrame:
    return rows.select(*by, *(expr.alias(name) for name, expr in values.items()))


def with_whole(rows: pl.LazyFrame, by: Sequence[str], columns: Sequence[Column], found: Part) -> pl.LazyFrame:
    """Rows with their values and results, these of groups that were `found` in the place of their own."""
    said = {column: pl.col(column.aside("whole")) for column in columns}
    named = found.frame.lazy().select(
        *by, pl.lit(value=True).alias(FOUND), *(pl.col(column.name).alias(whole.meta.output_name()) for column, whole in said.items())
    )
    if by:
        joined = rows.join(named, on=list(by), how="left", nulls_equal=True, maintain_order="left")
    else:
        joined = rows.join(named, how="cross", maintain_order="left_right")
    results = []
    for column, whole in said.items():
        result = whole
        if column.windowed.function == "share":
            share = pl.when(whole != 0).then(pl.col(column.value) / whole).otherwise(None)
            result = counted(joined, made_finite(share, pl.Float64()))
        results.append(pl.when(pl.col(FOUND).is_not_null()).then(result).otherwise(pl.col(column.result)).alias(column.result))
    return joined.with_columns(results)
