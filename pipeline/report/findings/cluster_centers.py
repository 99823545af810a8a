"""What sets clusters apart: their centers, feature by feature."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST_CLUSTERS, MOST_FEATURES = 10, 30


class ClusterCenters(Finding, name="cluster_centers"):
    """A table of centers, a row a feature and a column a cluster; the darker a cell, the higher among the clusters."""

    place = 630
    columns = ("cluster", "feature", "center")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        frame = (
            evidence.outputs[output]
            .select(pl.col("cluster").cast(pl.Int64, strict=False), "feature", pl.col("center").cast(pl.Float64, strict=False))
            .drop_nulls()
            .collect()
        )
        numbers = frame["cluster"].unique().sort()
        shown = frame.filter(pl.col("cluster").is_in(numbers.head(MOST_CLUSTERS).implode()))
        features = frame["feature"].unique(maintain_order=True)
        cells = []
        for feature in features.head(MOST_FEATURES):
            values = shown.filter(pl.col("feature") == feature).sort("cluster")["center"].to_numpy()
            low, high = float(np.min(values)), float(np.max(values))
            wide = high / 2 - low / 2
            cells.append([feature, *((number_text(value), (value / 2 - low / 2) / wide if wide > 0 else 0.0) for value in values)])
        head = ["feature", *(str(number) for number in numbers.head(MOST_CLUSTERS))]
        left = "" if len(numbers) <= MOST_CLUSTERS else f"; {MOST_CLUSTERS} of {len(numbers):,} clusters"
        left += "" if len(features) <= MOST_FEATURES else f"; {MOST_FEATURES} of {len(features):,} features"
        caption = f"Centers of the clusters{left}. The darker, the higher among them."
        yield Section(headline("Centers of clusters", output), [Grid(head, "l" + "h" * (len(head) - 1), cells, caption)])
