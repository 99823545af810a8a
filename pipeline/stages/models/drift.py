"""How far the columns of new rows have moved from those of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.kernels.drift import binned, jensen_shannon, kolmogorov_smirnov, population_stability_index, quantile_edges
from pipeline.stage import ColumnName, Context, Outcome, Whole, need_columns
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, hidden
from pipeline.tables.table import Table

MOST_VALUES = 10_000
KEPT_BITS = 44  # of a float's 52 that are left out: 8 remain, and numbers are counted to a share of 1 / 256
OUTPUT = {
    "column": pl.String(),
    "psi": pl.Float64(),
    "jensen_shannon": pl.Float64(),
    "ks": pl.Float64(),
    "missing": pl.Float64(),
    "reference_missing": pl.Float64(),
}


class _Seen(NamedTuple):
    """Of one column: each `value` with its `count` (None where they are too many), how many are missing, and the rows."""

    values: pl.DataFrame | None
    missing: int
    rows: int
    numbers: bool


class Drift(Whole, name="drift", version=1):
    """Compare every column of `rows` with the same one of `reference`, the rows that a model was trained on, say.

    A row a column, the one that moved most first. psi is the population stability index over `bins` quantiles of the reference, or over the
    values where they are no more or are text (0.1 is read as some change, 0.25 as a large one: Siddiqi 2006, Credit Risk Scorecards);
    jensen_shannon a distance from 0 to 1 over the same bins; ks the largest difference of the cumulative distributions, of numbers alone.
    What is missing is a bin of its own for the first two, and its share stands beside them. Numbers are counted to 1 part in 256, so that
    memory does not grow with the rows. A column of more than 10,000 texts, a name or key, has no figures.

    Example:
        {use: drift, from: {rows: new_loans, reference: loans}, as: moved, exclude: [loan_id]}
    """

    roles = ("rows", "reference")
    counts: ClassVar[Mapping[str, Count]] = {"columns_compared": Count("columns compared"), "columns_drifted": Count("columns that moved")}

    columns: tuple[ColumnName, ...] = Field((), description="Columns to compare; all that both tables have where none are given.")
    exclude: tuple[ColumnName, ...] = Field((), description="Columns to leave out: keys, say.")
    bins: int = Field(10, ge=2, le=1_000, description="Bins of a column of numbers.")
    warn_above: float = Field(0.25, gt=0, description="Warn of a column with a greater population stability index.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a column. Raises StageError for a column that is missing, of two kinds, or not to be compared."""
        for role in self.roles:
            need_columns(schemas[role], self.columns, role, key="columns")
        compared = self.compared(schemas["rows"], schemas["reference"])
        if not compared:
            raise StageError("the two tables have no column in common to compare", key="columns" if self.columns else "from")
        for name in compared:
            kinds = [_kind(schemas[role].columns[name]) for role in self.roles]
            if "" in kinds or kinds[0] != kinds[1]:
                types = " and ".join(str(schemas[role].columns[name]) for role in self.roles)
                raise StageError(f"column {name!r} is {types}, which cannot be compared. Cast it, or name it in exclude.", key="columns")
        return {"": Schema(pl.Schema(OUTPUT))}

    def compared(self, rows: Schema, reference: Schema) -> list[str]:
        """The columns that are compared, in order."""
        names = self.columns or [name for name in rows.columns.names() if name in reference.columns]
        return [name for name in names if name not in self.exclude]

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Values counted over the parts of both tables, and one task that compares."""
        name, submit, (rows, reference) = context.name, context.session.submit, (tables[role].named(context.name) for role in self.roles)
        assert rows.schema is not None
        assert reference.schema is not None
        columns = self.compared(rows.schema, reference.schema)
        seen = [table.map(partial(_chosen, columns)).reduce(_seen, _added, columns) for table in (rows, reference)]
        found = submit(self.concluded, columns, *seen, stage=name)
        pieces = [submit(itemgetter(place), found, stage=name) for place in range(4)]
        return Outcome({"": Table.of(context.session, name, pieces[:1])}, metrics=pieces[1], counts=pieces[2], warnings=pieces[3])

    def concluded(self, columns: Sequence[str], rows: Sequence[_Seen], reference: Sequence[_Seen]) -> tuple[Part, Any, Any, list[str]]:
        """The table, metrics, counts and warnings."""
        lines = [(name, *self._figures(*sides)) for name, *sides in zip(columns, reference, rows, strict=True)]
        table = pl.DataFrame(lines, OUTPUT, orient="row").fill_nan(None).sort("psi", "column", descending=[True, False], nulls_last=True)
        moved = table.filter(pl.col("psi") > self.warn_above)
        warnings = [
            f"column {name!r} has moved: its population stability index is {psi:.3g}, above {self.warn_above:g}. A model that learned from "
            "the reference may no longer hold for these rows."
            for name, psi in moved.select("column", "psi").iter_rows()
        ]
        counts = {"columns_compared": len(table["psi"].drop_nulls()), "columns_drifted": moved.height}
        return Part(table), {"psi_max": table["psi"].max()}, counts, warnings

    def _figures(self, reference: _Seen, rows: _Seen) -> tuple[float | None, ...]:
        """psi, Jensen and Shannon's distance, ks, and the shares of what is missing."""
        shares = (rows.missing / max(rows.rows, 1), reference.missing / max(reference.rows, 1))
        if rows.values is None or reference.values is None:
            return None, None, None, *shares
        ks = None
        if rows.numbers:
            before, now = _in_order(reference.values), _in_order(rows.values)
            edges, ks = quantile_edges(*before, self.bins), kolmogorov_smirnov(before, now)
            bins = [list(binned(*side, edges)) for side in (before, now)]
        else:
            both = reference.values.join(rows.values, on="value", how="full", coalesce=True, suffix="_now").sort("value").fill_null(0)
            bins = [both["count"].to_list(), both["count_now"].to_list()]
        if reference.missing or rows.missing:
            bins = [[*bins[0], reference.missing], [*bins[1], rows.missing]]
        return population_stability_index(*bins), jensen_shannon(*bins), ks, *shares


def _kind(dtype: pl.DataType) -> str:
    """What values of a type are compared as; empty where they cannot be."""
    if dtype in {pl.String, pl.Categorical, pl.Enum}:
        return "text"
    return "number" if dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean else ""


def _chosen(columns: Sequence[str], rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(*columns, *hidden(rows))


def _seen(part: Part, columns: Sequence[str]) -> list[_Seen]:
    """The values of each column of one part."""
    return [_seen_in(part.frame[name]) for name in columns]


def _seen_in(column: pl.Series) -> _Seen:
    if _kind(column.dtype) == "text":
        counts = _counted(column.drop_nulls().cast(pl.String))
        return _Seen(None if counts.height > MOST_VALUES else counts, column.null_count(), len(column), numbers=False)
    numbers = column.to_physical().cast(pl.Float64).drop_nulls().drop_nans().to_numpy()
    kept = (np.ascontiguousarray(numbers).view(np.int64) >> KEPT_BITS << KEPT_BITS).view(np.float64)
    return _Seen(_counted(pl.Series(kept)), len(column) - len(numbers), len(column), numbers=True)


def _counted(values: pl.Series) -> pl.DataFrame:
    return values.alias("value").value_counts(name="count").cast({"count": pl.Int64})


def _added(parts: Sequence[Sequence[_Seen]]) -> list[_Seen]:
    """The same of several parts together."""
    return [_both(column) for column in zip(*parts, strict=True)]


def _both(column: Sequence[_Seen]) -> _Seen:
    missing, rows = sum(one.missing for one in column), sum(one.rows for one in column)
    parts, values, numbers = [one.values for one in column if one.values is not None], None, column[0].numbers
    if len(parts) == len(column):
        values = pl.concat(parts).group_by("value").agg(pl.col("count").sum())
        values = values if numbers or values.height <= MOST_VALUES else None
    return _Seen(values, missing, rows, numbers)


def _in_order(values: pl.DataFrame) -> tuple[Any, Any]:
    """Distinct values in order, and their counts."""
    ordered = values.sort("value")
    return ordered["value"].to_numpy(), ordered["count"].cast(pl.Float64).to_numpy()
