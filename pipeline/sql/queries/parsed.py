"""One SQL query as a tree: what tables and columns it reads, and what it may not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from pipeline.errors import ExpressionError, near
from pipeline.sql.queries.answered import check_answers

if TYPE_CHECKING:
    from sqlglot import exp

# DuckDB's grammar, which is the widest; names are taken as they are written.
DIALECT = "duckdb, normalization_strategy=case_sensitive"
FICKLE = {"now", "random", "uuid", "gen_random_uuid", "today", "getdate", "current_date", "current_timestamp", "current_time"}


def parsed(text: str, schemas: Mapping[str, pl.Schema]) -> exp.Query:
    """The query with every column under its table, every `*` written out and types on what has one.

    Raises ExpressionError for what is no query, names what is not there, or would give other rows in another run.
    """
    from sqlglot import exp
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.annotate_types import annotate_types
    from sqlglot.optimizer.qualify import qualify

    query = _one_query(text)
    _need_tables(query, schemas)
    _refuse(query)
    types: dict[str, object] = {name: {column: type_of(dtype) for column, dtype in schema.items()} for name, schema in schemas.items()}
    try:
        query = qualify(query, schema=types, dialect=DIALECT)
        _name_outputs(query)
        found = annotate_types(query, schema=types, dialect=DIALECT)
    except SqlglotError as error:
        raise ExpressionError(_explained(str(error), schemas)) from error
    assert isinstance(found, exp.Query)
    return found


def _one_query(text: str) -> exp.Query:
    """The tree of a text that is one SELECT, with whatever goes with it. Raises ExpressionError, with line and column, for any other."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError

    try:
        statements = [found for found in sqlglot.parse(text, read=DIALECT) if found is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        place = f"line {first['line']}, column {first['col']}: " if first.get("line") else ""
        at = f", at {first['highlight']!r}" if first.get("highlight") else ""
        raise ExpressionError(f"{place}{first.get('description', error)}{at}") from error
    except SqlglotError as error:
        raise ExpressionError(str(error)) from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise ExpressionError("one SELECT (or WITH ... SELECT) is needed: a query reads tables and gives one; it changes nothing")
    return statements[0]


def _need_tables(query: exp.Query, schemas: Mapping[str, pl.Schema]) -> None:
    from sqlglot import exp

    own = {cte.alias for cte in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            raise ExpressionError(f"{table.sql(DIALECT)} is no table of `from`. Give the file as an input of the job and name that")
        if (table.name not in schemas and table.name not in own) or table.db:
            known = [*schemas, *own]
            raise ExpressionError(f"no table {table.sql(DIALECT)!r} in `from`.{near(table.name, known)} It has: {', '.join(schemas)}")
    if twice := sorted(own & set(schemas)):
        raise ExpressionError(f"WITH names {twice[0]!r}, which is a table of `from`. Give it another name")


def _refuse(query: exp.Query) -> None:
    """Raise ExpressionError for what would give other rows in another run, or what Polars answers otherwise than SQL says."""
    from sqlglot import exp

    fickle = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.Rand, exp.TableSample)
    for node in query.find_all(exp.Func, exp.TableSample):
        name = node.name if isinstance(node, exp.Anonymous) else node.key
        if isinstance(node, fickle) or name.lower() in FICKLE:
            raise ExpressionError(f"{node.sql(DIALECT)} gives another answer every time. Write a date, or use the stage sample")
    for node in query.find_all(exp.GroupConcat, exp.ArrayAgg, exp.First, exp.Last, exp.AnyValue):
        raise ExpressionError(f"{node.sql(DIALECT)} depends on the order in which rows come. Use the stage aggregate: list, first or last")
    for where in query.find_all(exp.Where):
        for part in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
            computed = part.find(exp.Cast, exp.Func) and not part.find(exp.And, exp.Or)
            if computed and not part.find(exp.Column, exp.Query):  # of these Polars' streaming engine counts no rows
                raise ExpressionError(f"{part.sql(DIALECT)} is the same for every row. Leave it out, or write true or false")
    check_answers(query, DIALECT)


def _name_outputs(query: exp.Query) -> None:
    """Raise ExpressionError for a result without a name of its own, or two of one name."""
    names: list[str] = []
    for output in query.selects:
        if output.alias_or_name.startswith("_col_"):
            raise ExpressionError(f"a result has no name: {output.unalias().sql(DIALECT)}. Name it: ... as NAME")
        if output.alias_or_name in names:
            raise ExpressionError(f"two results are named {output.alias_or_name!r}. Give one of them another: ... as NAME")
        names.append(output.alias_or_name)


def _explained(problem: str, schemas: Mapping[str, pl.Schema]) -> str:
    """What sqlglot says of a name, with the nearest that is there."""
    columns = sorted({column for schema in schemas.values() for column in schema})
    found = re.search(r"[Cc]olumn:? '?([^'.]+)'?", problem.replace('"', "'"))
    if found is None:
        return problem
    name = found[1].strip()
    if name in columns:
        return f"column {name!r} is in several tables, or not in that one: write of which it is, as in t.{name}. {problem}"
    return f"no column {name!r}.{near(name, columns)}"


def type_of(dtype: pl.DataType) -> str:
    """The SQL name of a type, as DuckDB has it; UNKNOWN where arithmetic never meets it."""
    if isinstance(dtype, pl.Decimal):
        return f"DECIMAL({dtype.precision},{dtype.scale})"
    if isinstance(dtype, pl.Datetime):
        return "TIMESTAMPTZ" if dtype.time_zone else "TIMESTAMP"
    return TYPES.get(str(dtype).split("(")[0], "UNKNOWN")


TYPES = {
    "Boolean": "BOOLEAN",
    "Int8": "TINYINT",
    "Int16": "SMALLINT",
    "Int32": "INT",
    "Int64": "BIGINT",
    "UInt8": "UTINYINT",
    "UInt16": "USMALLINT",
    "UInt32": "UINT",
    "UInt64": "UBIGINT",
    "Float32": "FLOAT",
    "Float64": "DOUBLE",
    "String": "VARCHAR",
    "Categorical": "VARCHAR",
    "Enum": "VARCHAR",
    "Binary": "BLOB",
    "Date": "DATE",
    "Time": "TIME",
    "Duration": "INTERVAL",
}
