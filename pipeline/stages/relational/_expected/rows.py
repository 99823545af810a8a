"""Rules of `expect` that a row alone shows, as SQL."""

from __future__ import annotations

from typing import Literal, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.sql.expression import Sql, Value, check_condition
from pipeline.stage import ColumnName, ColumnNames, need_columns
from pipeline.tables.part import Schema

Action = Literal["fail", "warn", "quarantine"]
Constant = bool | int | float | str
ACTION = "What a row that breaks it does: fail the run, a warning, or it is quarantined."


class Rule(BaseModel):
    """What all rules have. A rule of rows is a condition, or is of keys; the others are of the whole table."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    action: Action = Field("fail", description=ACTION)

    @property
    def text(self) -> str:
        """What it says, in words, for whoever reads that it was broken."""
        raise NotImplementedError(f"{type(self).__name__} has no text")


class RowRule(Rule):
    """A rule that a row alone shows: broken where its condition is false, not where it is unknown (null)."""

    def sql(self, schema: pl.Schema) -> str:
        """The condition. Raises StageError where columns are missing."""
        raise NotImplementedError(f"{type(self).__name__} has no sql")

    def condition(self, schema: pl.Schema) -> Value:
        """The same, checked. Raises ExpressionError where it does not fit the columns."""
        return check_condition(self.sql(schema), schema)

    @property
    def text(self) -> str:
        """What it says."""
        raise NotImplementedError(f"{type(self).__name__} has no text")


class NotNull(RowRule):
    """No column is missing."""

    check: Literal["not_null"]
    columns: ColumnNames = Field(description="Columns, or the columns of a key.")

    @property
    def text(self) -> str:
        """What it says."""
        return f"{', '.join(self.columns)} {'is' if len(self.columns) == 1 else 'are'} not null"

    def sql(self, schema: pl.Schema) -> str:
        """The condition."""
        need_columns(Schema(schema), self.columns, key="columns")
        return " and ".join(f"{_quoted(name)} is not null" for name in self.columns)


class Range(RowRule):
    """A column's values are within bounds, which belong to the range."""

    check: Literal["range"]
    column: ColumnName = Field(description="A column.")
    min: Constant | None = Field(None, description="The least value allowed, or number of rows; a date or timestamp as text.")
    max: Constant | None = Field(None, description="The greatest.")

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        return self

    @property
    def _bounds(self) -> dict[str, Constant]:
        return {sign: value for sign, value in ((">=", self.min), ("<=", self.max)) if value is not None}

    @property
    def text(self) -> str:
        """What it says."""
        return " and ".join(f"{self.column} {sign} {value}" for sign, value in self._bounds.items())

    def sql(self, schema: pl.Schema) -> str:
        """The condition."""
        need_columns(Schema(schema), [self.column], key="column")
        side = _operand(self.column, schema)
        return " and ".join(f"{side} {sign} {_literal(value, schema[self.column])}" for sign, value in self._bounds.items())


class Values(RowRule):
    """A column has no values but these."""

    check: Literal["values"]
    column: ColumnName
    values: tuple[Constant, ...] = Field(min_length=1, description="The values allowed.")

    @property
    def text(self) -> str:
        """What it says."""
        return f"{self.column} is one of {', '.join(map(str, self.values))}"

    def sql(self, schema: pl.Schema) -> str:
        """The condition."""
        need_columns(Schema(schema), [self.column], key="column")
        listed = ", ".join(_literal(value, schema[self.column]) for value in self.values)
        return f"{_operand(self.column, schema)} in ({listed})"


class Condition(RowRule):
    """An SQL condition on the columns of a row."""

    check: Literal["condition"]
    where: Sql = Field(min_length=1, description="SQL: what is true of a good row, and false of one that breaks the rule.")

    @property
    def text(self) -> str:
        """What it says."""
        return self.where

    def sql(self, schema: pl.Schema) -> str:
        """The condition."""
        return self.where


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _operand(name: str, schema: pl.Schema) -> str:
    """A column as it is compared: one with a zone on its clock."""
    dtype = schema[name]
    zoned = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    return f"cast({_quoted(name)} as timestamp)" if zoned else _quoted(name)


def _literal(value: Constant, dtype: pl.DataType) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    text = "'" + value.replace("'", "''") + "'"
    return f"date {text}" if dtype == pl.Date else f"timestamp {text}" if isinstance(dtype, pl.Datetime) else text
