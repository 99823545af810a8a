"""What a function of an aggregate is: how its values are prepared, added up over parts, and made the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pipeline.stages.relational._aggregates.asked import Asked

Columns = Mapping[str, pl.Expr]


@dataclass(frozen=True)
class Place:
    """One result on its way: its name, the result whose values it reads, the keys, and the columns of the rows that it reads.

    Columns are named PART:NAME. Where steps of parts are merged, the rows are those steps and each result reads its own.
    """

    name: str
    values: str
    by: Sequence[str]
    columns: pl.Schema
    merging: bool

    @property
    def owner(self) -> str:
        """The result whose columns it reads."""
        return self.name if self.merging else self.values

    def has(self, part: str) -> bool:
        """Whether the rows have such a column."""
        return f"{part}:{self.owner}" in self.columns

    def of(self, part: str) -> pl.Expr:
        """A column of the rows."""
        return pl.col(f"{part}:{self.owner}")

    def own(self, part: str) -> pl.Expr:
        """A column that `before` has made for this result alone."""
        return pl.col(f"{part}:{self.name}")

    def over(self, value: pl.Expr, *more: pl.Expr) -> pl.Expr:
        """A sum, say, over the rows of a key, beside each of them; of no keys over all rows."""
        keys = [*(pl.col(name) for name in self.by), *more]
        return value.over(*keys) if keys else value


class Function:
    """A function. It is a class of its own where it has steps of its own, and one object a name."""

    takes: tuple[str, ...] = ("of",)  # in the order of the short form
    may_take: tuple[str, ...] = ()  # and what may be left out
    needs: str = ""  # what its values must be: numbers, a condition, an order
    widened: str = ""  # what its values are cast to: `sum`, which holds their sum, or `float`
    splits = True  # whether it can be had from what parts of a key's rows give
    of_distinct = False  # whether, where it does not split, each value once with the `times` that it is there is enough
    alone = False  # whether it shares no column of values with others
    shared: tuple[str, ...] = ()  # steps of the values that all functions which have them take alike

    def before(self, place: Place, asked: Asked) -> Sequence[Columns]:
        """Columns over the rows of a key, round after round, that the steps read: part to expression."""
        return []

    def steps(self, place: Place, asked: Asked) -> Columns:
        """What is taken of a key's rows, or of what parts have taken: part to expression."""
        raise NotImplementedError(f"{type(self).__name__} has no steps")

    def finished(self, name: str, asked: Asked, columns: pl.Schema) -> Columns:
        """The result from the steps' columns, or what `settled` makes it of: name of a column to expression."""
        raise NotImplementedError(f"{type(self).__name__} has no finished")

    @property
    def settles(self) -> bool:
        """Whether it has a last step on the host, of what no engine's query says."""
        return type(self).settled is not Function.settled

    def settled(self, rows: pl.DataFrame, name: str, asked: Asked) -> pl.Series:
        """The result from the finished columns, one row a key, on the host."""
        raise NotImplementedError(f"{type(self).__name__} has no settled")
