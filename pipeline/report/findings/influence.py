"""The features that move a model's answer most: a network's, or a linear model's."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST_FEATURES = 20


class Influence(Finding, name="influence"):
    """A table of the features with the greatest influence."""

    place = 801
    columns = ("feature", "influence")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].select("feature", pl.col("influence").cast(pl.Float64)).drop_nulls()
        frame = rows.sort("influence", "feature", descending=[True, False]).collect()
        most = max(float(frame["influence"][0]), 1e-300) if frame.height else 1.0
        cells = [(feature, value / most, number_text(value)) for feature, value in frame.head(MOST_FEATURES).iter_rows()]
        caption = (
            f"The {len(cells)} of {frame.height:,} features that move what the model adds up most. Of a network: the mean over training "
            "rows of the gradient times the feature's distance from its mean; of a linear model: the standard deviation of what one adds."
        )
        yield Section(headline("Feature influence", output), [Grid(("feature", "", "influence"), "lbr", cells, caption)])
