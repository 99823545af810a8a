"""What the first components are made of."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST = 10  # loadings of a component


class Loadings(Finding, name="loadings"):
    """The features that the first two components weigh most."""

    place = 644
    columns = ("component", "feature", "loading")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].select(
            pl.col("component").cast(pl.Int64, strict=False), "feature", pl.col("loading").cast(pl.Float64, strict=False)
        )
        frame = rows.drop_nulls().filter(pl.col("component") <= 2).collect()
        ordered = frame.sort(pl.col("loading").abs(), descending=True, maintain_order=True)
        tops = ordered.group_by("component", maintain_order=True).head(MOST).sort("component", maintain_order=True)
        cells = [
            (str(component), feature, abs(loading), number_text(loading))
            for component, feature, loading in tops.select("component", "feature", "loading").iter_rows()
        ]
        caption = f"The largest loadings of the first two components, {MOST} of each at most."
        yield Section(headline("Loadings", output), [Grid(("component", "feature", "", "loading"), "rlbr", cells, caption)])
