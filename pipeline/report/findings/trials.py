"""The trials of a search: the best of them, and how their metric goes with the parameters."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Section, headline, number_text
from pipeline.report.plots_trials import best_so_far, by_parameter

MOST_TRIALS, MOST_PARAMETERS = 10, 6
OWN = ("trial", "rounds", "metric", "value", "state", "best")


class Trials(Finding, name="trials"):
    """A table of the best trials, the metric trial by trial, and the metric against each parameter that was tried."""

    place = 790
    columns = ("trial", "metric", "value", "state", "best")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].sort("trial").collect()
        ended = rows.filter(pl.col("state") == "measured")
        if ended.is_empty():
            return
        metric, best = str(ended["metric"][0]), float(ended["best"][-1])
        greater = not (ended["value"] > best).any()
        order = ended.sort("value", "trial", descending=[greater, False])
        parameters = [name for name in rows.columns if name not in OWN]
        section = Section(headline("Search", output), [_table(order, metric, parameters, rows.height)])
        section.blocks.append(
            Figure(
                best_so_far(ended, metric), f"{metric} of each trial, and of the best one so far.", (("s0", "trial"), ("s1", "best so far"))
            )
        )
        for name in [name for name in parameters if ended[name].n_unique() > 1][:MOST_PARAMETERS]:
            section.blocks.append(Figure(by_parameter(ended, name, metric), f"{metric} by {name}."))
        section.highlights.append((number_text(best), f"best {metric} of {rows['trial'].n_unique():,} trials"))
        yield section


def _table(order: pl.DataFrame, metric: str, parameters: list[str], rows: int) -> Grid:
    """The best trials, a row each."""
    top = order.head(MOST_TRIALS).select("trial", *parameters, "value")
    cells = [[number_text(value) for value in row] for row in top.iter_rows()]
    caption = f"The {top.height} best of {rows:,} rows of trials." if rows > top.height else "The trials, the best first."
    return Grid(("trial", *parameters, metric), "r" * (len(parameters) + 2), cells, caption)
