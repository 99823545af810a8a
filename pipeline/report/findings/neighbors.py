"""How far the nearest rows are."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.drawn import drawn
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST = 20


class Neighbors(Finding, name="neighbors"):
    """Quartiles of the distances, by rank."""

    place = 650
    columns = ("rank", "neighbor", "distance")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        value = pl.col("distance").cast(pl.Float64, strict=False)
        quartiles = [value.quantile(share, "linear").alias(str(share)) for share in (0.25, 0.5, 0.75)]
        found = evidence.outputs[output]
        seldom, sizes = (
            drawn(found, ["rank", "distance"]),
            found.group_by("rank").agg(pl.len().alias("queries")).collect(engine="streaming"),
        )
        spread = seldom.rows.group_by("rank").agg(quartiles).collect()
        rows = sizes.join(spread, on="rank", how="left", nulls_equal=True).sort("rank").head(MOST)
        cells = [(str(rank), f"{queries:,}", *map(number_text, more)) for rank, queries, *more in rows.iter_rows()]
        head = ("rank", "queries", "lower quartile", "median distance", "upper quartile")
        yield Section(headline("Neighbors", output), [Grid(head, "rrrrr", cells, f"Distances of the nearest rows, by rank.{seldom.said}")])
