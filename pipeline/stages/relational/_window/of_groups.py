"""Windows over whole groups that are more than a task may hold: what comes of each is an aggregate, put beside its rows where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from pipeline.stages.relational._computed import Computed
from pipeline.stages.relational._window.columns import columns_of
from pipeline.stages.relational._window.functions import UNORDERED, Windowed
from pipeline.tables.budget import row_bytes
from pipeline.tables.infinities import counted, made_finite
from pipeline.tables.pairs import for_two, large_keys
from pipeline.tables.part import Part
from pipeline.tables.table import Table


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

    def table(self, rows: Table, found: Any) -> Table:
        """Those rows with the results, which are `found` by the keys: a part, or a future of one."""
        return rows.map(self._beside, found, writes=frozenset(self.compute))

    def _own(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.join(self.keys.lazy(), on=self.by, how="semi", nulls_equal=True, maintain_order="left")

    def _beside(self, rows: pl.LazyFrame, found: Part) -> pl.LazyFrame:
        values, columns = columns_of(rows.collect_schema(), self.compute)
        valued = rows.with_columns(counted(rows, value).alias(name) for name, value in values.items())
        results = found.frame.lazy().rename({column.name: column.result for column in columns})
        if self.by:
            beside = valued.join(results, on=self.by, how="left", nulls_equal=True, maintain_order="left")
        else:
            beside = valued.join(results, how="cross", maintain_order="left_right")
        shares = []
        for column in columns:
            if column.windowed.function == "share":
                total = pl.col(column.result)
                share = made_finite(pl.when(total != 0).then(pl.col(column.value) / total).otherwise(None), pl.Float64())
                shares.append(counted(beside, share).alias(column.result))
        return beside.with_columns(shares)
