"""The trials of a search: the best of them, and how their metric goes with the parameters."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Section, headline, number_text
from pipeline.report.plots_trials import best_so_far, by_parameter, by_rounds

MOST_TRIALS, MOST_PARAMETERS = 10, 6
OWN = ("trial", "rounds", "metric", "value", "state", "best")


class Trials(Finding, name="trials"):
    """A table of the best trials, the metric trial by trial, and the metric against each parameter that was tried."""

    place = 740
    columns = ("trial", "metric", "value", "state", "best")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].sort("trial", maintain_order=True).collect()
        ended = rows.filter(pl.col("state") == "measured")
        if ended.is_empty():
            return
        metric, best = str(ended["metric"][0]), float(ended["best"].to_list()[-1])
        greater = not (ended["value"] > best).any()
        parameters = [name for name in rows.columns if name not in OWN]
        section = Section(headline("Search", output), [_table(rows, metric, parameters, greater=greater)])
        if ended.height > 1:
            caption, styles = f"{metric} of each trial, and of the best one so far.", (("s0", "trial"), ("s1", "best so far"))
            section.blocks.append(Figure(best_so_far(ended, metric), caption, styles))
        if "rounds" in rows.columns and rows["rounds"].n_unique() > 1:
            section.blocks.append(Figure(by_rounds(rows, metric), f"{metric} of each trial as it got more rounds."))
        section.blocks += list(_parameters(rows, parameters, metric, ended.filter(pl.col("value") == best)["trial"].to_list()[0]))
        section.highlights.append((number_text(best), f"best {metric} of {rows['trial'].n_unique():,} trials"))
        yield section


def _table(rows: pl.DataFrame, metric: str, parameters: list[str], *, greater: bool) -> Grid:
    """The best trials, a row each: those that got the most rounds come first, as their values are compared."""
    steps = [name for name in ("rounds",) if name in rows.columns]
    last = rows.sort(*steps, "trial").unique("trial", keep="last", maintain_order=True) if steps else rows
    order = last.sort(*steps, "value", "trial", descending=[*[True] * len(steps), greater, False], nulls_last=True)
    top = order.head(MOST_TRIALS).select("trial", *parameters, *steps, "value")
    cells = [[number_text(value) for value in row] for row in top.iter_rows()]
    caption = f"The {top.height} best of {last.height:,} trials." if last.height > top.height else "The trials, the best first."
    return Grid(("trial", *parameters, *steps, metric), "r" * top.width, cells, caption)


def _parameters(rows: pl.DataFrame, names: list[str], metric: str, best: int) -> Iterator[Figure]:
    """The metric against each parameter, of trials with as many rounds as most of them got; the `best` trial is marked."""
    rows, after = rows.filter(pl.col("value").is_not_null()), ""
    if "rounds" in rows.columns:
        most = rows["rounds"].value_counts().sort("count", "rounds", descending=True)["rounds"][0]
        rows, after = rows.filter(pl.col("rounds") == most), f", after {most:,} rounds"
    for name in [name for name in names if rows[name].n_unique() > 1][:MOST_PARAMETERS]:
        yield Figure(by_parameter(rows, name, metric, best), f"{metric} by {name}{after}; the best trial is marked.")
