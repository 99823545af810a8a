"""The value of a key's first or last row."""

from __future__ import annotations

import polars as pl

from pipeline.stages.relational._aggregates.asked import Asked
from pipeline.stages.relational._aggregates.function import Columns, Function, Place


class Picked(Function):
    """The value of the row with the least or the greatest value of a column; rows without a value do not count."""

    takes = ("of", "order_by")
    may_take = ("ties",)
    alone = True

    def __init__(self, *, last: bool) -> None:
        self.last = last

    def _end(self, order: pl.Expr) -> pl.Expr:
        return order.max() if self.last else order.min()

    def before(self, place: Place, asked: Asked) -> list[Columns]:
        """Where rows may tie: the values of a key's first or last rows alone, null for its others."""
        if asked.ties == "none":
            return []
        order = place.of("order")
        best = place.over(self._end(order))
        return [{"value": pl.when(order == best).then(place.of("value")).otherwise(None)}]

    def steps(self, place: Place, asked: Asked) -> Columns:
        """The value, and its order for what other parts have."""
        value, order = place.of("value"), place.of("order")
        picked = value.max() if asked.ties == "greatest" else value.max_by(order) if self.last else value.min_by(order)
        return {"value": picked, "order": self._end(order)}

    def finished(self, name: str, asked: Asked, columns: pl.Schema) -> Columns:
        """The value."""
        return {name: pl.col(f"value:{name}")}


FIRST, LAST = Picked(last=False), Picked(last=True)
PICKED: dict[str, Function] = {"first": FIRST, "last": LAST, "arg_min": FIRST, "arg_max": LAST}
