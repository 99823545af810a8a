"""The rows of a query, or those of a range of one of its columns, as a task reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import polars as pl

from pipeline.errors import DataError
from pipeline.format import CostlySource
from pipeline.formats._finite import with_finite
from pipeline.formats._sql.columns import SqlColumn
from pipeline.formats._sql.database import Database, column
from pipeline.tables.part import Part

INFINITE = "infinite values of this row"
BATCH_ROWS = "adbc.sqlite.query.batch_rows"


@dataclass(frozen=True)
class SqlSource(CostlySource):
    """A query of these columns; of its rows those that `where` is true for.

    `snapshot` is PostgreSQL's name of the moment that all tasks see.
    """

    database: Database
    rows: str
    columns: tuple[SqlColumn, ...]
    snapshot: str = ""
    where: str = ""

    def load(self) -> Part:
        """The rows; NaN and infinities are null from here on, and those of them that were infinite are counted."""
        with self.database.asked("the rows cannot be read", DataError), self.database.cursor(snapshot=self.snapshot) as cursor:
            frame = self._fetched(cursor)
        infinite = int(frame[INFINITE].sum()) if INFINITE in frame.columns else 0
        frame = frame.select(self._typed(found) for found in self.columns)
        infinite += sum(int(frame[name].is_infinite().sum()) for name, dtype in frame.schema.items() if dtype.is_float())
        return Part(with_finite(frame.lazy(), frame.schema).collect(), counts={"infinities": infinite} if infinite else {})

    def _fetched(self, cursor: Any) -> pl.DataFrame:
        if self.database.kind == "sqlite":  # whose driver takes a column's type from the first batch of rows
            cursor.execute(f"select count(*) from ({self.rows}) as q{self._where}")
            cursor.adbc_statement.set_options(**{BATCH_ROWS: max(1, cursor.fetchone()[0])})
        wanted = [f"{found.select} as {column(found.name)}" for found in self.columns]
        infinite = " + ".join(f"coalesce(({found.infinite})::int, 0)" for found in self.columns if found.infinite)
        wanted += [f"{infinite} as {column(INFINITE)}"] if infinite else []
        cursor.execute(f"select {', '.join(wanted)} from ({self.rows}) as q{self._where}")
        frame = pl.from_arrow(cursor.fetch_arrow_table())
        assert isinstance(frame, pl.DataFrame)
        return frame

    @property
    def _where(self) -> str:
        return f" where {self.where}" if self.where else ""

    def _typed(self, found: SqlColumn) -> pl.Expr:
        """The column as the plan has it; SQLite's dates are texts."""
        value = pl.col(found.name)
        if self.database.kind == "sqlite" and found.dtype == pl.Date():
            return value.cast(pl.String).str.to_date("%Y-%m-%d")
        if self.database.kind == "sqlite" and found.dtype == pl.Datetime("us"):
            return value.cast(pl.String).str.replace("T", " ", literal=True).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us")
        return value.cast(found.dtype)

    def explain(self) -> None:
        """Nothing more than what reading says."""


def ranges(source: SqlSource, name: str, parts: int, bounds: tuple[int, int] | None) -> list[SqlSource]:
    """So many sources by ranges of a column of whole numbers of these bounds; rows where it is missing are in the first."""
    sql = column(name)
    if bounds is None or parts == 1:
        return [source]
    low, high = bounds
    edges = sorted({low + (high + 1 - low) * number // parts for number in range(1, parts)} - {low})
    if not edges:
        return [source]
    middle = [f"{sql} >= {first} and {sql} < {last}" for first, last in pairwise(edges)]
    conditions = [f"({sql} < {edges[0]} or {sql} is null)", *middle, f"{sql} >= {edges[-1]}"]
    return [replace(source, where=condition) for condition in conditions]
