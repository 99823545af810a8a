"""The folds of a cross-validation: how far a model's metrics go apart from one to the next."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Section, headline, number_text
from pipeline.report.plots_trials import by_fold

MOST_FOLDS, MOST_METRICS = 20, 3


class Folds(Finding, name="folds"):
    """A table of the metrics fold by fold, with their mean and standard deviation, and a figure of each."""

    place = 745
    columns = ("fold", "rows", "metric", "value")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].collect()
        if rows.is_empty():
            return
        metrics = [str(name) for name in rows["metric"].unique(maintain_order=True)]
        wide = rows.pivot("metric", index=["fold", "rows"], values="value", sort_columns=False).sort("fold")
        cells = [[number_text(value) for value in row] for row in wide.head(MOST_FOLDS).iter_rows()]
        known = {name: wide[name] if wide[name].null_count() == 0 else pl.Series([None], dtype=pl.Float64) for name in metrics}
        cells.append(["mean", "", *(number_text(known[name].mean()) for name in metrics)])
        cells.append(["standard deviation", "", *(number_text(known[name].std()) for name in metrics)])
        caption = (
            f"The first {MOST_FOLDS} of {wide.height:,} folds."
            if wide.height > MOST_FOLDS
            else "Each fold is predicted by a model that has not seen it."
        )
        section = Section(
            headline("Cross-validation", output), [Grid(("fold", "rows", *metrics), "lr" + "r" * len(metrics), cells, caption)]
        )
        for name in [name for name in metrics if wide[name].count()][:MOST_METRICS]:
            section.blocks.append(Figure(by_fold(wide.drop_nulls(name), name), f"{name} of each fold, and the mean."))
        text = f"mean {metrics[0]} of {wide.height} folds, standard deviation {number_text(known[metrics[0]].std())}"
        section.highlights.append((number_text(known[metrics[0]].mean()), text))
        yield section
