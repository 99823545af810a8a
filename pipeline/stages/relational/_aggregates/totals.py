"""Sums, means and weighted means."""

from __future__ import annotations

import polars as pl

from pipeline.stages.relational._aggregates.asked import Asked
from pipeline.stages.relational._aggregates.function import Columns, Function, Place
from pipeline.stages.relational._aggregates.plain import counts
from pipeline.stages.relational._sums import HALVES, as_float, fits, in_units, whole


class Total(Function):
    """A sum in the steps that its type needs: halves of 64-bit integers, decimals beside the same in floats (cuDF wraps them unsaid)."""

    needs = "numbers"
    widened = "sum"
    shared: tuple[str, ...] = ("sum", "about", *HALVES)

    def steps(self, place: Place, asked: Asked) -> Columns:
        """Their sums, of the values or of several parts'."""
        if place.has("high"):
            return {half: place.of(half).sum() for half in HALVES}
        part = "sum" if place.merging else "value"
        if place.has("about"):
            return {"sum": added(place.of(part)), "about": place.of("about").sum()}
        return {"sum": in_units(place.of(part), place.columns[f"{part}:{place.owner}"], added)}


class Sum(Total):
    """The sum; null where it is beyond its type."""

    def finished(self, name: str, asked: Asked, columns: pl.Schema) -> Columns:
        """Its parts put together."""
        if f"high:{name}" in columns:
            return {name: whole(pl.col(f"high:{name}"), pl.col(f"low:{name}"), columns[f"high:{name}"])}
        if f"about:{name}" in columns:
            within = fits(pl.col(f"about:{name}"), columns[f"sum:{name}"])
            return {name: pl.when(within).then(pl.col(f"sum:{name}")).otherwise(None)}
        return {name: pl.col(f"sum:{name}")}


class Mean(Total):
    """The mean, also of what sums to more than its type."""

    shared = (*Total.shared, "count")

    def steps(self, place: Place, asked: Asked) -> Columns:
        """Sum and count."""
        count = place.of("count").sum() if place.merging else counts(place.of("value"))
        return {**super().steps(place, asked), "count": count}

    def finished(self, name: str, asked: Asked, columns: pl.Schema) -> Columns:
        """Sum over count."""
        total = pl.col(f"{'about' if f'about:{name}' in columns else 'sum'}:{name}").cast(pl.Float64)
        if f"high:{name}" in columns:
            total = as_float(pl.col(f"high:{name}"), pl.col(f"low:{name}"), columns[f"high:{name}"])
        count = pl.col(f"count:{name}")
        return {name: pl.when(count > 0).then(total / count).otherwise(None)}


class WeightedMean(Function):
    """The sum of weight times value over that of the weights; null where the weights sum to 0."""

    takes = ("of", "weights")
    needs = "numbers"
    widened = "float"
    alone = True

    def steps(self, place: Place, asked: Asked) -> Columns:
        """Both sums."""
        if place.merging:
            return {step: place.of(step).sum() for step in ("weighted", "weight")}
        return {"weighted": (place.of("value") * place.of("weights")).sum(), "weight": place.of("weights").sum()}

    def finished(self, name: str, asked: Asked, columns: pl.Schema) -> Columns:
        """One over the other."""
        weight = pl.col(f"weight:{name}")
        return {name: pl.when(weight != 0).then(pl.col(f"weighted:{name}") / weight).otherwise(None)}


def added(values: pl.Expr) -> pl.Expr:
    """Their sum, as the engine has it."""
    return values.sum()


TOTALS: dict[str, Function] = {"sum": Sum(), "mean": Mean(), "weighted_mean": WeightedMean()}
