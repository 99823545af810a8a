"""Columns as a job names them: one, several, and an order of rows by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import polars as pl
from pydantic import BeforeValidator, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


def one_or_more(value: Any) -> Any:
    """One name alone as a list of it."""
    return (value,) if isinstance(value, str) else value


# A column's name; a list of names (one name alone may stand without brackets).
ColumnName = Annotated[str, Field(min_length=1, title="column name")]
ColumnNames = Annotated[tuple[ColumnName, ...], Field(min_length=1), BeforeValidator(one_or_more)]


class Order(tuple[str, ...]):
    """Columns to sort by, the first one first; a minus before a name means from the greatest down."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read from and written as the list of texts that it is."""
        return core_schema.no_info_after_validator_function(cls, handler.generate_schema(ColumnNames))

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [name.removeprefix("-") for name in self]

    @property
    def descending(self) -> list[bool]:
        """Of each column, whether it goes from the greatest down."""
        return [name.startswith("-") for name in self]

    def then(self, names: Sequence[str]) -> Order:
        """This order, rows that tie in it by further columns."""
        return Order((*self, *names))

    def sort(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows in this order, nulls last; rows that tie keep the order they had."""
        return rows.sort(self.names, descending=self.descending, nulls_last=True, maintain_order=True)
