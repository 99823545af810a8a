"""How much of the variance each component explains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline.report import plots_axes
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Section, headline

MOST = 30  # components in the figure


class ExplainedVariance(Finding, name="explained_variance"):
    """A bar a component, and a line of what they explain together."""

    place = 642
    columns = ("component", "explained_share")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        shares = (
            evidence.outputs[output]
            .select("component", pl.col("explained_share").cast(pl.Float64, strict=False))
            .sort("component")
            .collect()
        )
        values = np.nan_to_num(shares["explained_share"].fill_null(0.0).to_numpy())
        shown = min(len(values), MOST)
        caption = f"What the components explain: {values.sum():.1%} of the variance by {len(values):,} (bars: one by one, line: together)."
        caption += f" The first {shown} are shown." if shown < len(values) else ""
        yield Section(headline("Explained variance", output), [Figure(plots_axes.explained(values[:shown], caption), caption)])
