"""Proportional hazards: what each feature multiplies the hazard by, and how a row of mean features survives."""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np
import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text
from pipeline.report.svg import Panel

RATIOS = ("feature", "coefficient", "hazard_ratio", "hazard_ratio_lower", "hazard_ratio_upper", "p_value")
SURVIVAL = ("time", "cumulative_hazard", "survival")
MOST_FEATURES, MOST_STRATA = 30, 7
WIDE, ROW, LEFT = 500, 22, 150
FARTHEST = 1e6  # a hazard ratio beyond which the axis does not go


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
    top = every.sort("p_value", "feature", nulls_last=True).head(MOST_FEATURES)
    if top.height == 0:
        section.blocks.append(Note("There is no feature."))
        return section
    caption = f"What a step of 1 of a feature multiplies the hazard by, with its 95 % interval: {top.height} of {every.height:,} features."
    section.blocks.append(Figure(_forest(top, caption), caption, size="medium"))
    cells = [
        (feature, number_text(value), number_text(ratio), f"{number_text(low)} to {number_text(high)}", number_text(p))
        for feature, value, ratio, low, high, p in top.iter_rows()
    ]
    head = ("feature", "coefficient", "hazard ratio", "95 % interval", "p-value")
    section.blocks.append(Grid(head, "lrrrr", cells, "The features of the smallest p-values (Wald)."))
    return section


def _forest(top: pl.DataFrame, about: str) -> str:
    """A line a feature on a logarithmic axis, 1 in its middle."""
    ends = np.log(top.select("hazard_ratio_lower", "hazard_ratio", "hazard_ratio_upper").to_numpy().clip(1 / FARTHEST, FARTHEST))
    most = 1.1 * max(float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0)), 0.05)
    names = [(top.height - 1.0 - number, _short(name)) for number, name in enumerate(top["feature"])]
    panel = Panel(WIDE, 52 + ROW * top.height, (-most, most), (-0.5, top.height - 0.5), left=LEFT, y_ticks=names)
    panel.line((0, 0), panel.y_range, "reference")
    for (at, _), (low, middle, high) in zip(names, ends, strict=True):
        if np.isfinite([low, middle, high]).all():
            panel.line((low, high), (at, at), "s0")
            panel.dots(np.array([middle]), np.array([at]), "huge s0")
    steps = [value for value in (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100) if abs(np.log(value)) <= most]
    ticks = [(float(np.log(value)), f"{value:g}") for value in steps] if len(steps) > 1 else _near_one(most)
    return panel.svg(about, ("Hazard ratio", ""), ticks)


def _short(name: str) -> str:
    """A name as long as there is room for."""
    return name if len(name) <= LEFT // 7 else f"{name[: LEFT // 7 - 1]}…"


def _near_one(most: float) -> list[tuple[float, str]]:
    """Ticks of a narrow axis: 1, and a place on each side."""
    far = float(f"{np.expm1(most / 2):.1g}")
    return [(float(np.log1p(-far)), f"{1 - far:.6g}"), (0.0, "1"), (float(np.log1p(far)), f"{1 + far:.6g}")]


def _survival(output: str, rows: pl.LazyFrame) -> Section:
    section, schema = Section(headline("Baseline survival", output)), rows.collect_schema()
    others = [name for name in schema.names() if name not in SURVIVAL]
    stratum = pl.col(others[0]).cast(pl.String).fill_null("none") if others else pl.lit("")
    frame = rows.select(stratum.alias("__stratum__"), pl.col("time", "survival").cast(pl.Float64)).drop_nulls().sort("time").collect()
    if frame.height == 0:
        section.blocks.append(Note("There is no time of an event."))
        return section
    names = sorted(frame["__stratum__"].unique())
    panel = Panel(WIDE, 300, (0.0, max(float(np.max(frame["time"].to_numpy())), 1e-12)), (0.0, 1.03), left=56)
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
