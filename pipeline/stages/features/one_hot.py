"""A column of 0 and 1 for each category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.stage import ColumnName, ColumnNames, FittedRows
from pipeline.stages.features._counted import need_categories, texts_counted
from pipeline.tables.part import Schema

Value = bool | int | str


class OneHot(FittedRows, name="one_hot", version=1):
    """Replace categories by columns of 0 and 1, Int8, in which one is 1: the categories are stated, or the most frequent ones are learned.

    A stated category has the column COLUMN_VALUE. Learned ones are COLUMN_1, the most frequent, to COLUMN_n, so that the columns are known
    before any row is read; of equally frequent ones the lesser text comes first, and NAME.fitted says which is which: column, place, value,
    rows. A row with another value, or none, has 0 in all of them; `other` adds COLUMN_other, 1 where there is another value.

    Example: {use: one_hot, from: filled, as: coded, columns: [state, purpose], most: 20, fit_where: "split = 'train'"}
    """

    columns: ColumnNames | dict[ColumnName, tuple[Value, ...]] = Field(description="Columns, or a mapping of columns to their categories.")
    most: int | None = Field(None, ge=1, le=1_000, description="How many categories of each column to learn, the most frequent ones.")
    other: bool = Field(False, description="Add a column for all other values.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if isinstance(self.columns, Mapping) == (self.most is not None):
            raise ValueError("give either categories, as in columns: {state: [CA, NY]}, or most (how many to learn)")
        if self.most is None and self.fit_where is not None:
            raise ValueError("stated categories are not learned: leave out fit_where, or give most")
        return self

    @property
    def _names(self) -> Sequence[str]:
        return list(self.columns)

    def _made(self, name: str) -> list[str]:
        """The columns that a column becomes."""
        stated = [_text(value) for value in self.columns[name]] if isinstance(self.columns, Mapping) else []
        places = [str(place) for place in range(1, (self.most or 0) + 1)]
        return [f"{name}_{end}" for end in [*stated, *places, *(["other"] if self.other else [])]]

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, hold categories, and every new column has a name of its own."""
        need_categories(schema, self._names, key="columns")
        names = [name for name in schema.columns if name not in self._names] + [made for name in self._names for made in self._made(name)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise StageError(f"there would be two columns {twice[0]!r}. Rename one before, or leave out a category.", key="columns")

    def writes(self) -> frozenset[str]:
        """The columns replaced, and those in their place."""
        return frozenset({*self._names, *(made for name in self._names for made in self._made(name))})

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Every column's values with their counts; nothing where categories are stated."""
        texts = texts_counted(rows, self._names)
        return texts if self.most else texts.head(0)

    def sums(self) -> tuple[Sequence[str], Sequence[str]]:
        """Rows of each column and value."""
        return ("column", "value"), ("rows",)

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, place, value and rows of the most frequent ones."""
        values = (
            partial.group_by("column", "value").agg(pl.col("rows").sum()).sort(["column", "rows", "value"], descending=[False, True, False])
        )
        placed = values.with_row_index("at").with_columns(pl.col("at").cast(pl.Int64))
        place = pl.col("at") - pl.col("at").min().over("column") + 1
        return placed.select("column", place.alias("place"), "value", "rows").filter(pl.col("place") <= (self.most or 0))

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with columns of 0 and 1."""
        made = [column for name in self._names for column in self._coded(name, fitted.filter(pl.col("column") == name)["value"])]
        return rows.with_columns(made).drop([name for name in self._names if name not in {column.meta.output_name() for column in made}])

    def _coded(self, name: str, learned: pl.Series) -> list[pl.Expr]:
        text = pl.col(name).cast(pl.String)
        values = [_text(value) for value in self.columns[name]] if isinstance(self.columns, Mapping) else learned.to_list()
        marks = [(text == value).fill_null(False) for value in values]
        marks += [pl.lit(False)] * ((self.most or 0) - len(values))
        if self.other:
            marks.append(text.is_not_null() & ~pl.any_horizontal(False, *marks))
        return [mark.cast(pl.Int8).alias(made) for mark, made in zip(marks, self._made(name), strict=False)]


def _text(value: Value) -> str:
    """A category as it is compared: a column as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
