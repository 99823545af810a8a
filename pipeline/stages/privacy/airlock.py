"""A table of counts that may leave a secure place: small ones masked, and others so that no total gives them away."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.kernels.suppression import is_small, masks, with_totals
from pipeline.stage import ColumnNames, Context, Outcome, Whole, need_keys
from pipeline.stages.relational._aggregates.grouped import Grouped
from pipeline.stages.relational._computed import Computed
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

KIND, COUNT, MASKED = "kind", "count", "masked"
MOST_CELLS = 20_000
MOST_SMALL = 0.5  # of a column's values may be of few rows; beyond that they are names of people, or as good as those


class Airlock(Whole, name="airlock", version=1):
    """Count rows by one or two sets of columns, with totals, and mask those below `least`, as what leaves a secure place must be.

    Cells and totals from 1 to `least` - 1 are masked (5 by default: at Genomics England counts below 5 may not leave), zeros with
    `mask_zeros`. As totals would give a masked count away, others are masked with it (complementary suppression), small ones first and
    totals last, until every small count has more than `least` possible values for whoever knows all that is shown. Nothing tells which of
    the masked ones are small.

    The table has a row a cell (`kind`: cell, row total, column total, total), its keys (null in totals), `count` (null where masked) and
    `masked`. A column more than half of whose values have fewer than `least` rows is refused: that is what ids look like. Each row of
    the input should be a person; drop_duplicates makes it so.

    What is masked here can come out by another table of the same people (of one more year, of one clinic less): give `airlock` all that
    leaves in one table, or have somebody look at all of them. The report says to that person, of every output of the job, whether it may
    leave; metrics, the report and everything else of the run are not for leaving.

    Example: {use: airlock, from: people, as: released, by: [region, sex], across: diagnosis, least: 5}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "rows_in": Count("rows counted"),
        "cells": Count("cells and totals"),
        "masked_small": Count("small ones masked", always=True),
        "masked_beside": Count("others masked with them", always=True),
    }

    by: ColumnNames = Field(description="The columns whose values make the table's rows.")
    across: ColumnNames | tuple[()] = Field((), description="The columns whose values make its columns; none for a list with one total.")
    least: int = Field(5, ge=2, description="The least count that may be shown.")
    mask_zeros: bool = Field(False, description="Mask zeros, too: where it must not be known that nobody is of a kind.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The keys, and what is said of each cell. Raises StageError for columns that do not fit."""
        columns, names = schemas["rows"].columns, [*self.by, *self.across]
        need_keys(schemas["rows"], self.by, key="by")
        need_keys(schemas["rows"], self.across, key="across")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise StageError(f"column {twice[0]!r} is there twice: state it once, in by or in across.", key="across")
        if taken := [name for name in (KIND, COUNT, MASKED) if name in names]:
            raise StageError(f"the result has a column {taken[0]!r} of its own. Rename it before.", key="by")
        keys = {name: columns[name] for name in names}
        return {"": Schema(pl.Schema({**keys, KIND: pl.String(), COUNT: pl.Int64(), MASKED: pl.Boolean()}))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Counts of all rows' keys, and one task that masks them."""
        names, submit = (*self.by, *self.across), context.session.submit
        grouped = Grouped(names, {COUNT: Computed.model_validate({"function": "size"})}, "by")
        rows = tables["rows"].named(context.name)
        given, together = rows, grouped.apply
        if rows.is_apart and len(rows.blocks) > 1:
            given, together = rows.map(grouped.partial, writes=frozenset({COUNT})), grouped.final
        counted = given.exchange(names).map(together, writes=frozenset({COUNT})).value()
        found = submit(self.masked, counted, stage=context.name)
        table, metrics, counts = (submit(itemgetter(place), found, stage=context.name) for place in range(3))
        return Outcome({"": Table.of(context.session, context.name, [table])}, metrics=metrics, counts=counts)

    def masked(self, counted: Part) -> tuple[Part, dict[str, Any], dict[str, int]]:
        """The table, and what was masked. Raises DataError where a column looks like one of ids, or where there are too many cells."""
        frame, across = counted.frame.sort([*self.by, *self.across], nulls_last=True), list(self.across)
        self._need_no_ids(frame)
        down = frame.select(self.by).unique(maintain_order=True)
        wide = frame.select(across).unique(maintain_order=True).sort(across, nulls_last=True) if across else pl.DataFrame()
        if (cells := down.height * max(wide.height, 1)) > MOST_CELLS:
            raise DataError(
                f"the table would have {cells:,} cells, and nobody can look at more than {MOST_CELLS:,}. Count by less.", key="by"
            )
        counts = np.zeros((down.height, wide.height if across else 1), np.int64)
        places = _numbered(frame, down, list(self.by)), _numbered(frame, wide, across) if across else np.zeros(frame.height, int)
        counts[places] = frame[COUNT].to_numpy()
        hidden, table = masks(counts, self.least, zeros=self.mask_zeros), with_totals(counts)
        small = is_small(table, self.least, zeros=self.mask_zeros)
        shown = np.ones(table.shape, bool) if across else np.arange(2)[None, :].repeat(len(table), 0) == 0
        rows = int(frame[COUNT].sum())
        told = {
            "cells": int(shown.sum()),
            "masked_small": int((small & shown).sum()),
            "masked_beside": int((hidden & ~small & shown).sum()),
        }
        metrics = {"least": self.least, "zeros": "masked" if self.mask_zeros else "shown", "rows": rows, **told}
        return Part(self._written(down, wide, table, hidden)), metrics, {"rows_in": rows, **told}

    def _need_no_ids(self, frame: pl.DataFrame) -> None:
        for key, names in (("by", self.by), ("across", self.across)):
            for name in names:
                sizes = frame.group_by(name).agg(pl.col(COUNT).sum())[COUNT]
                if (small := int((sizes < self.least).sum())) > MOST_SMALL * len(sizes):
                    raise DataError(
                        f"{small:,} of the {len(sizes):,} values of column {name!r} have fewer than {self.least} rows each, as ids have. "
                        "Leave it out, or make its values coarser.",
                        key=key,
                    )

    def _written(self, down: pl.DataFrame, wide: pl.DataFrame, table: Any, hidden: Any) -> pl.DataFrame:
        """A row a cell, row by row; totals after what they are of."""
        (rows, columns), last = table.shape, len(table) - 1
        places = [(row, column) for row in range(rows) for column in range(columns) if self.across or column == 0]
        kinds = [_kind(row == last, column == columns - 1, bool(self.across)) for row, column in places]
        parts = [_picked(down, [row if row < last else None for row, _ in places])]
        if self.across:
            parts.append(_picked(wide, [column if column < columns - 1 else None for _, column in places]))
        masked = [bool(hidden[place]) for place in places]
        count = pl.Series(COUNT, [None if mask else int(table[place]) for mask, place in zip(masked, places, strict=True)], pl.Int64)
        told = [pl.Series(KIND, kinds, pl.String), count, pl.Series(MASKED, masked, pl.Boolean)]
        return pl.DataFrame([*(column for part in parts for column in part.get_columns()), *told])


def _kind(of_rows: bool, of_columns: bool, two: bool) -> str:
    if not two:
        return "total" if of_rows else "cell"
    return {(False, False): "cell", (False, True): "row total", (True, False): "column total", (True, True): "total"}[of_rows, of_columns]


def _picked(keys: pl.DataFrame, places: list[int | None]) -> pl.DataFrame:
    """Rows of keys by their numbers, all null for None."""
    return keys.select(pl.all().gather(pl.Series(places, dtype=pl.UInt32)))


def _numbered(frame: pl.DataFrame, keys: pl.DataFrame, names: list[str]) -> Any:
    """The number of each row's keys."""
    return frame.join(keys.with_row_index("__number__"), on=names, how="left", nulls_equal=True, maintain_order="left")[
        "__number__"
    ].to_numpy()
