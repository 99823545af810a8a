"""Lists: all values of a key in order, and how many lie in each bin. No engine's query makes both alike, so they end on the host."""

from __future__ import annotations

import polars as pl

from pipeline.stages.relational._aggregates.asked import Asked
from pipeline.stages.relational._aggregates.function import Columns, Function, Place

ROW = "__list__"


class Listed(Function):
    """All values of a key, in order."""

    may_take = ("order_by",)
    needs = "an order"
    splits = False
    alone = True

    def steps(self, place: Place, asked: Asked) -> Columns:
        """The values with nulls as they come, and what orders them."""
        return {part: place.of(part).implode() for part in ("value", "order") if place.has(part)}

    def finished(self, name: str, asked: Asked, columns: pl.Schema) -> Columns:
        """Both as they are."""
        return {f"{part}:{name}": pl.col(f"{part}:{name}") for part in ("value", "order") if f"{part}:{name}" in columns}

    def settled(self, rows: pl.DataFrame, name: str, asked: Asked) -> pl.Series:
        """The values without nulls, by what orders them (missing last), those that tie by themselves."""
        value = f"value:{name}"
        if asked.order_by is None:
            return rows[value].list.drop_nulls().list.sort().alias(name)
        rows = rows.select(value, f"order:{name}").with_row_index(ROW)
        each = rows.explode(value, f"order:{name}", empty_as_null=False).drop_nulls(value)
        ordered = each.sort(ROW, f"order:{name}", value, nulls_last=True).group_by(ROW, maintain_order=True).agg(value)
        empty = pl.lit([], dtype=rows.schema[value])
        return rows.select(ROW).join(ordered, on=ROW, how="left").select(pl.col(value).fill_null(empty).alias(name)).to_series()


class Histogram(Function):
    """How many values lie below the first edge, from each to the next (as NumPy's digitize has it), and from the last on."""

    takes = ("of", "edges")
    needs = "numbers"
    widened = "float"

    def steps(self, place: Place, asked: Asked) -> Columns:
        """A sum a bin."""
        assert asked.edges is not None
        bins = range(len(asked.edges) + 1)
        if place.merging:
            return {f"bin_{number}": place.of(f"bin_{number}").sum() for number in bins}
        value, edges = place.of("value"), asked.edges
        within = {0: value < edges[0], len(edges): value >= edges[-1]}
        between = {number: (value >= edges[number - 1]) & (value < edges[number]) for number in bins if number not in within}
        return {f"bin_{number}": {**within, **between}[number].sum().cast(pl.Int64) for number in bins}

    def finished(self, name: str, asked: Asked, columns: pl.Schema) -> Columns:
        """The bins."""
        return {column: pl.col(column) for column in columns if column.startswith("bin_") and column.partition(":")[2] == name}

    def settled(self, rows: pl.DataFrame, name: str, asked: Asked) -> pl.Series:
        """One list."""
        assert asked.edges is not None
        bins = [f"bin_{number}:{name}" for number in range(len(asked.edges) + 1)]
        return rows.select(pl.concat_list(bins).alias(name)).to_series()


LISTED: dict[str, Function] = {"list": Listed(), "histogram": Histogram()}
