"""Rules of `expect`: of keys, of the whole table, and whether one fits the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Annotated, Literal, Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.stage import ColumnName, ColumnNames, need_columns, need_keys
from pipeline.stages.relational._expected.rows import ACTION, Condition, NotNull, Range, RowRule, Rule, Values
from pipeline.stages.relational._ordered.spans import span_of
from pipeline.tables.part import Schema

Number = Annotated[int, Field(ge=0)]


class Unique(Rule):
    """No two rows have the same key; all that have one break the rule."""

    check: Literal["unique"]
    columns: ColumnNames

    @property
    def text(self) -> str:
        """What it says."""
        return f"{', '.join(self.columns)} {'is' if len(self.columns) == 1 else 'are'} unique"


class Reference(Rule):
    """Every key is one of another table's: a foreign key."""

    check: Literal["reference"]
    columns: ColumnNames | dict[ColumnName, ColumnName] = Field(description="The key; {own name: name there} where names differ.")
    table: str = Field(description="The table that has all keys, by its name in `from`.")

    @property
    def pairs(self) -> dict[str, str]:
        """Own name of each key column: its name there."""
        return dict(self.columns) if isinstance(self.columns, Mapping) else {name: name for name in self.columns}

    @property
    def text(self) -> str:
        """What it says."""
        return f"{', '.join(self.pairs)} {'is' if len(self.pairs) == 1 else 'are'} in {self.table}"


class RowCount(Rule):
    """The table has so many rows."""

    check: Literal["rows"]
    action: Literal["fail", "warn"] = Field("fail", description=ACTION)
    min: Number | None = None
    max: Number | None = None

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        return self

    @property
    def text(self) -> str:
        """What it says."""
        bounds = {"at least": self.min, "at most": self.max}
        return f"there are {' and '.join(f'{word} {rows:,}' for word, rows in bounds.items() if rows is not None)} rows"

    def holds(self, rows: int) -> bool:
        """Whether so many rows are as they should be."""
        return (self.min is None or rows >= self.min) and (self.max is None or rows <= self.max)


class Fresh(Rule):
    """The newest date or timestamp of a column is not older than so long before a stated one."""

    check: Literal["fresh"]
    action: Literal["fail", "warn"] = Field("fail", description=ACTION)
    column: ColumnName
    at: datetime | date = Field(description="The date, or timestamp, that counts as now; of a column with a zone on its clock.")
    within: str = Field(description="How much older the newest value may be: 7d, 12h.")

    @property
    def text(self) -> str:
        """What it says."""
        return f"the newest {self.column} is within {self.within} of {self.at}"

    def oldest(self, dtype: pl.DataType) -> int:
        """The oldest that the newest value may be, in the column's units. Raises StageError for a column of something else."""
        if not (dtype == pl.Date or isinstance(dtype, pl.Datetime)):
            raise StageError(f"column {self.column!r} is {dtype}, and only dates and timestamps grow old. Cast it.", key="column")
        span = span_of(self.within, self.column, dtype, key="within")
        moment = self.at if isinstance(self.at, datetime) else datetime.combine(self.at, time())
        zone = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
        if moment.tzinfo is not None:
            raise StageError(f"{moment} has an offset. Give it on the clock of the column.", key="at")
        at = pl.Series([moment]).dt.replace_time_zone(zone).cast(dtype)
        return int(at.to_physical().item()) - span


AnyRule = NotNull | Range | Values | Condition | Unique | Reference | RowCount | Fresh
OneRule = Annotated[AnyRule, Field(discriminator="check")]
Keyed = Unique | Reference
OfTable = RowCount | Fresh


def check_rule(rule: AnyRule, schemas: Mapping[str, Schema]) -> None:
    """Raise StageError where a rule does not fit the tables, of which the first one is checked."""
    rows = next(iter(schemas.values()))
    if isinstance(rule, RowRule):
        rule.condition(rows.columns)
    elif isinstance(rule, Unique):
        need_keys(rows, rule.columns, key="columns")
    elif isinstance(rule, Reference):
        others = list(schemas)[1:]
        if rule.table not in others:
            given = f"the other tables of from are {', '.join(others)}" if others else "from names no other table"
            raise StageError(f"{rule.table!r} is not there: {given}, as in from: [rows, {rule.table}].", key="table")
        need_keys(rows, rule.pairs, key="columns")
        need_columns(schemas[rule.table], rule.pairs.values(), rule.table, key="columns")
        for own, name in rule.pairs.items():
            if rows.columns[own] != (other := schemas[rule.table].columns[name]):
                raise StageError(
                    f"{own!r} is {rows.columns[own]}, and {name!r} in {rule.table} is {other}. Cast one of them.", key="columns"
                )
    elif isinstance(rule, Fresh):
        need_columns(rows, [rule.column], key="column")
        rule.oldest(rows.columns[rule.column])


def key_columns(rule: Keyed) -> Sequence[str]:
    """The checked table's columns of a key."""
    return rule.columns if isinstance(rule, Unique) else list(rule.pairs)
