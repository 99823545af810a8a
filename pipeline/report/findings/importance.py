"""The features that helped a model most."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST_FEATURES = 20
MORE = {"mean_abs_shap": "mean |SHAP|"}
"""Columns that an output may have beside, and what the page calls them."""


class Importance(Finding, name="importance"):
    """A table of the features with the greatest gain."""

    place = 800
    columns = ("feature", "gain")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output]
        more = [name for name in MORE if name in evidence.columns[output]]
        ordered = (
            rows.select("feature", pl.col("gain", *more).cast(pl.Float64)).drop_nulls().sort("gain", "feature", descending=[True, False])
        )
        top, total = ordered.head(MOST_FEATURES).collect(), ordered.select(pl.len()).collect().item()
        most = max(float(top["gain"][0]), 1e-300) if top.height else 1.0
        cells = [(feature, gain / most, number_text(gain), *map(number_text, others)) for feature, gain, *others in top.iter_rows()]
        caption = f"The {top.height} of {total:,} features with the greatest mean gain a split."
        head, align = ("feature", "", "gain", *(MORE[name] for name in more)), "lbr" + "r" * len(more)
        yield Section(headline("Feature importance", output), [Grid(head, align, cells, caption)])
