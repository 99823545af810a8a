"""A whole SQL query over named tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import polars as pl
from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.errors import StageError, under
from pipeline.sql.queries.beforehand import with_made
from pipeline.sql.queries.written import Written, written
from pipeline.stage import Context, Outcome, Stage
from pipeline.tables.counts import Count
from pipeline.tables.in_turn import query_in_turn
from pipeline.tables.infinities import INFINITIES, counted, made_finite
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Sql(Stage, name="sql", version=5):
    """Run one SELECT, with joins, subqueries, WITH, UNION and all, over the tables of `from`, each by the name it has there.

    The grammar is DuckDB's, names are case-sensitive, and Polars' SQL runs it, on GPUs cuDF: correlated subqueries become joins first.
    Numbers are those of all stages: integer arithmetic has 64 bits and fails the run beyond, `/` gives a float, decimals keep all digits,
    a division by zero is null, a cast and round go to the nearest, a half to the even one. All else is as in DuckDB, but that a date
    which is cut, or moved by days, stays a date, upper and lower follow Unicode in full, and median and quantile_cont are floats; what
    was not tried against DuckDB is refused. Rows are in the order of ORDER BY, those that tie, or a query without one, in that of all
    results; a query that only picks rows of one table keeps theirs. Every result has a name. Refused are windows with an order, or that
    depend on that of the rows (the stage window has them), what changes from run to run (now(), random()), files in place of tables, and
    subqueries that read columns of the query around them otherwise than by equalities.
    regexp_replace, regexp_extract, strftime, strptime and at time zone are those of derive, worked out on columns of the tables of `from`.
    All rows of its tables come to one task, which with several CPU workers is in one of them: let stages before it make them few there.

    Example: {use: sql, from: {l: loans, p: payments}, as: late, query: "select l.region, count(*) as late from l join p on l.id = p.loan
    where p.days_late > (select avg(days_late) from p) group by l.region order by late desc"}
    """

    roles: ClassVar[tuple[str, ...]] = ("**",)
    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    query: str = Field(min_length=1, description="The query.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Plain tables only."""
        if schema.arrays:
            raise StageError(f"{role!r} has {', '.join(schema.arrays)}, and a query reads plain tables only. Select columns before.")

    def explained(self, schemas: Mapping[str, Schema]) -> str:
        """Where it runs, and what Polars is given."""
        return f"runs as one query, in one task: {self._written(schemas).text}"

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """What the query reads, whatever is wanted."""
        return self._written(schemas).reads

    def _written(self, schemas: Mapping[str, Schema]) -> Written:
        return written(self.query, {role: schema.columns for role, schema in schemas.items()}, "cpu")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One query over all rows."""
        given = [table.named(context.name) for table in tables.values()]
        return Outcome({"": query_in_turn(given, _answered, self.query, tuple(tables), context.session.backend)})


def _answered(*given: Any) -> pl.LazyFrame:
    """The query's rows, from the tables, the text, the tables' names, the backend, and nothing; infinities are null and counted."""
    *frames, text, names, backend, _ = given
    return _asked(dict(zip(names, frames, strict=True)), str(text), backend)


def _asked(frames: Mapping[str, pl.LazyFrame], text: str, backend: Backend) -> pl.LazyFrame:
    with under("query"):
        asked, made, _ = written(text, {name: frame.collect_schema() for name, frame in frames.items()}, backend)
        frames = {name: with_made(frame, made.get(name, {})) for name, frame in frames.items()}
        try:
            with pl.SQLContext(frames=frames) as context:
                rows = context.execute(asked)
            schema = rows.collect_schema()
        except pl.exceptions.PolarsError as error:
            raise StageError(f"Polars' SQL does not take it: {str(error).splitlines()[0]}") from error
    values = {name: made_finite(pl.col(name), dtype) for name, dtype in schema.items() if dtype.is_float()}
    return rows.with_columns(counted(rows, value).alias(name) for name, value in values.items()) if values else rows
