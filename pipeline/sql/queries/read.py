"""The columns that a query reads of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from pipeline.sql.expression import value_of
from pipeline.sql.queries.beforehand import Made

if TYPE_CHECKING:
    from sqlglot import exp


def read_columns(query: exp.Query, made: Made, schemas: Mapping[str, pl.Schema]) -> dict[str, frozenset[str]]:
    """Of each table of `from` the columns that a query reads, whose columns all stand under their tables; `made` says of what those are
    that were put into it."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    found: dict[str, set[str]] = {name: set() for name in schemas}
    for scope in traverse_scope(query):
        for column in scope.columns:
            source = scope.sources.get(column.table)
            if isinstance(source, exp.Table) and source.name in schemas:
                expression = made.get(source.name, {}).get(column.name)
                schema = schemas[source.name]
                found[source.name].update({column.name} if expression is None else value_of(expression, schema).roots)
    return {name: frozenset(columns) for name, columns in found.items()}
