"""Functions of one step: the least, the count, and those that need all values of a key at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from pipeline.stages.relational._aggregates.asked import Asked
from pipeline.stages.relational._aggregates.function import Columns, Function, Place


class Reduced(Function):
    """One step, taken of the values, and the same or another one of several parts' results."""

    def __init__(self, step: Callable[[pl.Expr], pl.Expr], merge: Callable[[pl.Expr], pl.Expr], **facts: Any) -> None:
        self.step, self.merge = step, merge
        self.takes, self.needs = facts.get("takes", self.takes), facts.get("needs", self.needs)

    def steps(self, place: Place, asked: Asked) -> Columns:
        """That step."""
        return {"only": self.merge(place.of("only")) if place.merging else self.step(place.of("value"))}

    def finished(self, name: str, asked: Asked, columns: pl.Schema) -> Columns:
        """What the step gave."""
        return {name: pl.col(f"only:{name}")}


class AtOnce(Function):
    """A function of all values of a key."""

    splits = False

    def __init__(self, function: Callable[[pl.Expr], pl.Expr], *, numbers: bool = False) -> None:
        self.function = function
        self.needs, self.widened = ("numbers", "float") if numbers else ("", "")

    def steps(self, place: Place, asked: Asked) -> Columns:
        """The function."""
        return {"only": self.function(place.of("value"))}

    def finished(self, name: str, asked: Asked, columns: pl.Schema) -> Columns:
        """What it gave."""
        return {name: pl.col(f"only:{name}")}


class Distinct(AtOnce):
    """How many distinct values there are."""

    of_distinct = True

    def __init__(self) -> None:
        super().__init__(lambda value: value.drop_nulls().n_unique().cast(pl.Int64))


class Quantile(AtOnce):
    """The value below which a share of the values lies."""

    takes = ("of", "q")
    may_take = ("interpolation",)

    def __init__(self) -> None:
        super().__init__(lambda value: value, numbers=True)

    def steps(self, place: Place, asked: Asked) -> Columns:
        """It, exact."""
        assert asked.q is not None
        return {"only": place.of("value").quantile(asked.q, asked.interpolation)}


class Mode(AtOnce):
    """The most frequent value; the least of several."""

    of_distinct = True

    def __init__(self) -> None:
        super().__init__(lambda value: value)
        self.needs = "an order"

    def before(self, place: Place, asked: Asked) -> list[Columns]:
        """How often each row's value is there; then the values that no other one of the key beats, null for the others."""
        value = place.of("value")
        count = place.of("times").sum() if place.has("times") else value.count()
        times = pl.when(value.is_not_null()).then(place.over(count, value)).otherwise(None)
        most = place.over(place.own("often").max())
        return [{"often": times}, {"mode": pl.when(place.own("often") == most).then(value).otherwise(None)}]

    def steps(self, place: Place, asked: Asked) -> Columns:
        """The least of them."""
        return {"only": place.own("mode").min()}


def counts(value: pl.Expr) -> pl.Expr:
    """How many values there are."""
    return value.count().cast(pl.Int64)


PLAIN: dict[str, Function] = {
    "min": Reduced(pl.Expr.min, pl.Expr.min, needs="an order"),
    "max": Reduced(pl.Expr.max, pl.Expr.max, needs="an order"),
    "any": Reduced(pl.Expr.max, pl.Expr.max, needs="a condition"),
    "all": Reduced(pl.Expr.min, pl.Expr.min, needs="a condition"),
    "count": Reduced(counts, pl.Expr.sum),
    "size": Reduced(counts, pl.Expr.sum, takes=()),
    "n_unique": Distinct(),
    "median": AtOnce(pl.Expr.median, numbers=True),
    "quantile": Quantile(),
    "approx_quantile": Quantile(),
    "mode": Mode(),
}
