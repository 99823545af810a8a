"""What a portfolio may lose: value at risk and expected shortfall by level, the losses of all paths, and which positions they come from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Section, headline, number_text
from pipeline.report.svg import Panel

MEASURES = ("level", "paths", "value_at_risk", "value_at_risk_low", "value_at_risk_high", "expected_shortfall", "expected_shortfall_low")
MOST_POSITIONS = 12
SEEN = 0.999  # of the paths; the bins beyond on either side are not drawn


class PortfolioRisks(Finding, name="portfolio_risk"):
    """A table by level; where they are put out too, a histogram of losses with the measures, and the positions that add most."""

    place = 747
    columns = MEASURES

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].sort("level").collect()
        if rows.is_empty():
            return
        section = Section(headline("Portfolio risk", output), [_table(rows)])
        last = rows.row(-1, named=True)
        section.highlights.append((number_text(last["value_at_risk"]), f"is the value at risk at {100 * last['level']:g} %"))
        if (losses := _beside(output, "losses", evidence)) is not None:
            section.blocks.append(_histogram(losses, rows))
        if (parts := _beside(output, "contributions", evidence)) is not None:
            section.blocks.append(_positions(parts.filter(pl.col("level") == last["level"]), last))
        yield section


def _beside(output: str, name: str, evidence: Evidence) -> pl.DataFrame | None:
    """Another table of the stage that an output is of, where that is an output too."""
    outputs = evidence.record.get("job", {}).get("outputs", {})
    wanted = f"{outputs.get(output, {}).get('from')}.{name}"
    found = next((other for other, told in outputs.items() if told.get("from") == wanted and other in evidence.outputs), None)
    return None if found is None else evidence.outputs[found].collect()


def _table(rows: pl.DataFrame) -> Grid:
    """A line a level."""
    cells = []
    for row in rows.iter_rows(named=True):
        measures = [text for name in ("value_at_risk", "expected_shortfall") for text in (number_text(row[name]), _between(row, name))]
        cells.append([f"{100 * row['level']:g} %", *measures])
    caption = f"The loss that is not exceeded with the stated probability, and the mean loss where it is, of {rows['paths'][0]:,} paths."
    return Grid(["level", "value at risk", "95 % interval", "expected shortfall", "95 % interval"], "rrlrl", cells, caption)


def _between(row: dict[str, float], name: str) -> str:
    return f"{number_text(row[f'{name}_low'])} to {number_text(row[f'{name}_high'])}"


def _histogram(losses: pl.DataFrame, rows: pl.DataFrame) -> Figure:
    """The losses of all paths, and where the measures of the levels lie."""
    counts, edges = losses["paths"].to_numpy()[1:-1], losses["high"].to_numpy()[:-1]
    share = losses["paths"].cum_sum().to_numpy()[1:-1] / max(int(losses["paths"].sum()), 1)
    seen = (share > 1 - SEEN) & (share <= SEEN)
    most = float(rows["expected_shortfall"].to_numpy().max())
    first, last = (int(np.flatnonzero(seen)[at]) if seen.any() else at % len(counts) for at in (0, -1))
    last = max(last, min(int(np.searchsorted(edges, most)), len(counts) - 1))
    counts, edges = counts[first : last + 1], edges[first : last + 2]
    top = float(counts.max(initial=1)) * 1.06
    panel = Panel(680, 240, (float(edges[0]), float(edges[-1])), (0.0, top), left=78, right=24)
    across, heights = np.repeat(edges, 2)[1:-1], np.repeat(counts, 2)
    panel.area(across, np.zeros_like(heights), heights, "pale s0")
    panel.line(across, heights, "s0 thin")
    for at, row in enumerate(rows.iter_rows(named=True)):
        for name, style, text in (("value_at_risk", "s1", f"{100 * row['level']:g} %"), ("expected_shortfall", "s2", "")):
            panel.line((row[name], row[name]), (0, top), f"{style} thin")
            if text:
                panel.text(row[name], top * (0.94 - 0.09 * at), text, "end", (-3, 0))
    caption = f"Losses of {int(losses['paths'].sum()):,} paths; gains are negative. The lines are the levels' measures."
    legend = [("s0", "paths"), ("s1", "value at risk"), ("s2", "expected shortfall")]
    return Figure(panel.svg(caption, ("Loss", "Paths")), caption, legend, "medium")


def _positions(parts: pl.DataFrame, level: dict[str, float]) -> Grid:
    """The positions that add most to the highest level's expected shortfall, and the rest together."""
    ordered = parts.sort("expected_shortfall", "position", descending=[True, False])
    first, rest = ordered.head(MOST_POSITIONS), ordered.slice(MOST_POSITIONS)
    cells = [
        [
            str(row["position"]),
            str(row["asset"]),
            row["kind"],
            *map(number_text, (row["value"], row["value_at_risk"], row["expected_shortfall"])),
        ]
        for row in first.iter_rows(named=True)
    ]
    if rest.height:
        sums = rest.select(pl.col("value", "value_at_risk", "expected_shortfall").sum()).row(0)
        cells.append([f"{rest.height:,} others", "", "", *map(number_text, sums)])
    caption = f"What each position adds to the measures at {100 * level['level']:g} %; below 0 it makes the losses smaller."
    return Grid(["position", "asset", "kind", "value", "value at risk", "expected shortfall"], "lllrrr", cells, caption)
