"""Values of a column become columns."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import polars as pl
from pydantic import BeforeValidator, Field

from pipeline.errors import DataError, StageError
from pipeline.stage import ColumnName, Context, Outcome, Stage, need_columns, need_keys
from pipeline.stages.relational._aggregates.grouped import Grouped
from pipeline.stages.relational._computed import Computed, written_out
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES
from pipeline.tables.names import one_or_more
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

Seen = bool | int | str | None
UNSEEN, EXAMPLE = "__unseen__", "__example__"


class Pivot(Stage, name="pivot", version=1):
    """One row a key, with a column for each of the stated values of another column: what `aggregate` computes of the rows that have it.

    The values are stated because a plan knows all columns before a row is read. A column is named like its value, and VALUE_NAME where
    several things are computed. A row whose value is not stated fails the run, or (`unseen: count`) is left out and counted.

    Example: {use: pivot, from: sales, as: by_quarter, by: shop, on: quarter, values: [Q1, Q2, Q3, Q4], compute: {total: sum(amount)}}
    """

    counts: ClassVar[Mapping[str, Count]] = {**INFINITIES, "unseen": Count("rows of values that have no column", always=True)}

    by: Annotated[tuple[ColumnName, ...], BeforeValidator(one_or_more)] = Field(
        description="The columns that make a key; [] where all rows make one."
    )
    on: ColumnName = Field(description="The column whose values become columns: text, whole numbers, conditions or dates.")
    values: tuple[Seen, ...] = Field(min_length=1, description="Those values, dates as '2026-01-31', null where it is missing.")
    compute: dict[ColumnName, Annotated[Computed, BeforeValidator(written_out)]] = Field(
        min_length=1, description="Name: what stands in a cell, as `aggregate` has it."
    )
    unseen: Literal["fail", "count"] = Field("fail", description="Rows of other values: fail the run, or leave them out and count them.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Columns exist, the values fit their column, no two results have one name."""
        need_keys(schema, self.by, key="by")
        need_columns(schema, [self.on], key="on")
        self._grouped(schema.columns).valued(schema.columns.to_frame().lazy())

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """An aggregate with a condition a cell, and beside it the rows that no cell has."""
        (rows,) = tables.values()
        assert rows.schema is not None
        schema = rows.schema.columns
        grouped = self._grouped(schema)
        rows, together = rows.named(context.name), grouped.apply
        if rows.is_apart and len(rows.blocks) > 1:
            rows, together = rows.map(grouped.partial, writes=frozenset(grouped.compute)), grouped.final
        found = rows.exchange(self.by).map(together, writes=frozenset(grouped.compute), whole="groups")
        return Outcome({"": found.map_parts(self._checked, grouped, grouped.wide_sums(schema), writes=frozenset(grouped.compute))})

    def _grouped(self, schema: pl.Schema) -> Grouped:
        column, dtype = _quoted(self.on), schema[self.on]
        said = {value: _literal(value, self.on, dtype) for value in self.values}
        compute: dict[str, Computed] = {}
        for value, literal in said.items():
            for name, cell in zip(self._names(value), self.compute.values(), strict=True):
                condition = f"{column} is null" if value is None else f"{column} = {literal}"
                where = condition if cell.where is None else f"({cell.where}) and ({condition})"
                compute[name] = cell.model_copy(update={"where": where})
        names = Counter([*self.by, *(name for value in self.values for name in self._names(value))])
        if twice := [name for name, count in names.items() if count > 1]:
            raise StageError(
                f"the result would have two columns {twice[0]!r}. State each value once, and name keys otherwise.", key="values"
            )
        if "" in compute:
            raise StageError("the empty text cannot name a column. Replace it before, in a derive.", key="values")
        known = ", ".join(literal for value, literal in said.items() if value is not None)
        among = f"{column} in ({known})" if known else "false"
        other = f"coalesce(not ({among}), false)" + ("" if None in self.values else f" or {column} is null")
        compute[UNSEEN] = Computed.model_validate({"function": "size", "where": other})
        compute[EXAMPLE] = Computed.model_validate({"function": "min", "of": column, "where": other})
        return Grouped(self.by, compute)

    def _names(self, value: Seen) -> list[str]:
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return [text] if len(self.compute) == 1 else [f"{text}_{name}" for name in self.compute]

    def _checked(self, part: Part, grouped: Grouped, sums: list[str]) -> Part:
        """The part without what tells of unseen values; raises DataError where there are some that shall fail."""
        part = grouped.settled(part, sums)
        unseen = int(part.frame[UNSEEN].sum())
        if unseen and self.unseen == "fail":
            row = part.frame.filter(pl.col(UNSEEN) > 0).row(0, named=True)
            value = "null" if row[EXAMPLE] is None else repr(row[EXAMPLE])
            raise DataError(
                f"column {self.on!r} has the value {value}, for which no column is stated ({unseen:,} rows at least have such values). "
                "Add it to values, or take unseen: count.",
                key="values",
            )
        return replace(part, held=part.frame.drop(UNSEEN, EXAMPLE), counts={"unseen": unseen})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Seen, name: str, dtype: pl.DataType) -> str:
    """A value in SQL. Raises StageError where it is none of the column's type."""
    fits = {pl.Boolean: isinstance(value, bool), pl.String: isinstance(value, str), pl.Date: _is_date(value)}
    if value is None:
        return "null"
    if dtype.is_integer() and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not fits.get(dtype.base_type(), False):
        raise StageError(f"{value!r} is no value of column {name!r}, which is {dtype}.", key="values")
    text = "'" + str(value).replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else f"date {text}" if dtype == pl.Date else text


def _is_date(value: Seen) -> bool:
    try:
        return isinstance(value, str) and bool(dt.date.fromisoformat(value))
    except ValueError:
        return False
