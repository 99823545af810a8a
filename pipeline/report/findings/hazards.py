"""Proportional hazards: what each feature multiplies the hazard by, and how a row of mean features survives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Set

import numpy as np
import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text, p_text
from pipeline.report.plots_forest import Effect, forest
from pipeline.report.svg import Panel

RATIOS = ("feature", "coefficient", "standard_error", "scale", "hazard_ratio", "hazard_ratio_lower", "hazard_ratio_upper", "p_value")
SURVIVAL = ("time", "cumulative_hazard", "survival")
MOST_FEATURES, MOST_STRATA = 30, 7
WITHIN = 1.959964  # standard errors of a 95 % interval


class Hazards(Finding, name="hazards"):
    """A figure and a table of hazard ratios, and the baseline survival by stratum."""

    place = 730

    def applies(self, columns: Set[str]) -> bool:
        """Whether it has hazard ratios, or a baseline."""
        return columns >= {*RATIOS} or columns >= {*SURVIVAL}

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output]
        yield _ratios(output, rows) if evidence.columns[output] >= {*RATIOS} else _survival(output, rows)


def _ratios(output: str, rows: pl.LazyFrame) -> Section:
    section, numbers = Section(headline("Hazard ratios", output)), [pl.col(name).cast(pl.Float64) for name in RATIOS[1:]]
    every = rows.select(pl.col("feature").cast(pl.String), *numbers).collect()
    every = every.drop_nulls(["coefficient", "standard_error", "scale"])
    top = every.sort("p_value", "feature", nulls_last=True).head(MOST_FEATURES)
    if top.height == 0:
        section.blocks.append(Note("There is no feature."))
        return section
    caption = (
        f"Logarithms of what one standard deviation of a feature multiplies the hazard by: {top.height} of {every.height:,} features, the "
        "smallest p-values first; lines are 95 % intervals, grey where they reach 0."
    )
    half = WITHIN * pl.col("standard_error") * pl.col("scale")
    value = pl.col("coefficient") * pl.col("scale")
    effects = [Effect(*row) for row in top.select("feature", value, low=value - half, high=value + half).iter_rows()]
    section.blocks.append(
        Figure(forest(effects, "Logarithm of the hazard ratio", f"{caption} Ratios are in the table."), caption, size="medium")
    )
    cells = [_cells(**row) for row in top.iter_rows(named=True)]
    head = ("feature", "hazard ratio", "95 % interval", "p", "standard deviation")
    section.blocks.append(Grid(head, "lrrrr", cells, "Hazard ratios are of one unit of a feature."))
    return section


def _cells(feature: str, scale: float, hazard_ratio: float, p_value: float | None, **ends: float) -> list[str]:
    reach = f"{number_text(ends['hazard_ratio_lower'])} to {number_text(ends['hazard_ratio_upper'])}"
    strength = None if p_value is None else -math.log10(p_value) if p_value > 0 else math.inf
    return [feature, number_text(hazard_ratio), reach, p_text(strength), number_text(scale)]


def _survival(output: str, rows: pl.LazyFrame) -> Section:
    section, schema = Section(headline("Baseline survival", output)), rows.collect_schema()
    others = [name for name in schema.names() if name not in SURVIVAL]
    stratum = pl.col(others[0]).cast(pl.String).fill_null("none") if others else pl.lit("")
    frame = rows.select(stratum.alias("__stratum__"), pl.col("time", "survival").cast(pl.Float64)).drop_nulls().sort("time").collect()
    if frame.height == 0:
        section.blocks.append(Note("There is no time of an event."))
        return section
    names = sorted(frame["__stratum__"].unique())
    panel = Panel(500, 300, (0.0, max(float(np.max(frame["time"].to_numpy())), 1e-12)), (0.0, 1.03), left=56)
    legend = []
    for number, name in enumerate(names[:MOST_STRATA]):
        times, shares = frame.filter(pl.col("__stratum__") == name).select("time", "survival").to_numpy().T
        panel.line(np.repeat(np.append(0.0, times), 2)[1:], np.repeat(np.append(1.0, shares), 2)[:-1], f"s{number}")
        legend.append(
            (f"s{number}", f"{others[0]} {name}: {shares[-1]:.3f} after {number_text(float(times[-1]))}" if others else "survival")
        )
    more = f" The first {MOST_STRATA} of {len(names)} strata." if len(names) > MOST_STRATA else ""
    caption = f"Survival of a row of mean features, by the baseline hazard; {frame.height:,} times of events.{more}"
    section.blocks.append(Figure(panel.svg(caption, ("Time", "Survival")), caption, legend, "medium"))
    return section
