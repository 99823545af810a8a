"""The figure of one locus: its variants by their linkage with the strongest, and the genes below. Frames in, SVG text out."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pipeline.report.plots_scan import STRENGTH_LABEL
from pipeline.report.scan_data import CHROMOSOME, GENOME_WIDE_STRENGTH, POSITION
from pipeline.report.svg import Panel, Range, span_of, ticks

R2_STYLES = (("s0", "0.0 to 0.2"), ("s4", "0.2 to 0.4"), ("s2", "0.4 to 0.6"), ("s3", "0.6 to 0.8"), ("s1", "0.8 to 1.0"))
"""Styles of r² by fifths; the upper end of each is in the next but for the last."""

UNKNOWN_R2 = "s6"
WIDTH, HEIGHT = 500, 300
LANE, MOST_LANES, LETTER = 24, 8, 7.3
"""Pixels that a row of genes is high, the most rows, and pixels that a letter of a gene's name, mostly capitals, is wide."""
MARGIN, RIGHT = 12, 46
"""Pixels at the right of a figure, and of one with rates of recombination."""


def span_bp(points: pl.DataFrame) -> Range:
    """The stretch of the chromosome that a locus is drawn over: its points with a margin, at least 2,000 base pairs."""
    places = points[POSITION].to_numpy().astype(float)
    low, high = float(places.min()), float(places.max())
    margin = max(0.04 * (high - low), 1_000.0)
    return low - margin, high + margin


def r2_bins(points: pl.DataFrame) -> pl.Series:
    """The fifth of r² that each point is in, 0 to 4; null where r2 is null or no number."""
    r2 = pl.col("r2").cast(pl.Float64, strict=False).fill_nan(None)
    return points.select((r2.clip(0, 1) * 5 + 1e-9).floor().clip(0, 4).cast(pl.Int64).alias("bin"))["bin"]


def regional(points: pl.DataFrame, lead: dict[str, Any], rates: pl.DataFrame | None, about: str) -> str:
    """-log10 p along one locus, from points with base_pair_location, strength and r2 with the lead, which stands in a ring under its name.

    `lead` has base_pair_location, strength, variant_id and chromosome. An infinite strength stands at the upper edge. `rates` of
    recombination (see `recombination_rates`), where there are any, are a line behind the points, with their axis at the right.
    """
    highest = max(GENOME_WIDE_STRENGTH, span_of([*points["strength"], lead["strength"]], 0)[1])
    panel = Panel(WIDTH, HEIGHT, span_bp(points), (0.0, highest * 1.18), right=MARGIN if rates is None else RIGHT)
    if rates is not None:
        _recombination(panel, rates)
    bins = r2_bins(points)
    for number, style in [(None, UNKNOWN_R2), *((n, style) for n, (style, _) in enumerate(R2_STYLES))]:
        dots = points.filter(bins.eq_missing(pl.lit(number, pl.Int64)))
        panel.dots(dots[POSITION], dots["strength"].clip(0, highest), f"large {style}")
    panel.rule(GENOME_WIDE_STRENGTH, "threshold")
    place, strength, name = lead[POSITION], min(lead["strength"], highest), lead["variant_id"] or "unnamed"
    panel.dots([place], [strength], "huge s5")
    panel.spot(place, strength, f"{name}, {lead['chromosome']}:{place:,}")
    half, middle = LETTER / 2 * len(name), panel.across(place) / 2
    anchor = "start" if middle - half < panel.left else "end" if middle + half > WIDTH - panel.right else "middle"
    panel.text(place, strength, name, anchor, (0, 9))
    marks = [(value * 1e6, text) for value, text in ticks((panel.x_range[0] / 1e6, panel.x_range[1] / 1e6))]
    return panel.svg(about, (f"Position on chromosome {lead['chromosome']} (Mb)", STRENGTH_LABEL), marks)


def recombination_rates(genetic_map: pl.LazyFrame, chromosome: str, span: Range) -> pl.DataFrame | None:
    """Centimorgans per million bases between neighbours of a map, `start`, `end` and `rate`; None where it has no two places there.

    The map has chromosome, base_pair_location and centimorgan; it may be the variants of a table whose file gave them.
    """
    of_it = pl.col(CHROMOSOME).str.strip_prefix("chr") == chromosome.removeprefix("chr")
    here = genetic_map.filter(of_it).select(pl.col(POSITION).cast(pl.Int64), pl.col("centimorgan").cast(pl.Float64))
    places = here.drop_nulls().group_by(POSITION).agg(pl.col("centimorgan").max()).sort(POSITION).collect(engine="streaming")
    start, end = (pl.col(POSITION), pl.col(POSITION).shift(-1))
    rate = (pl.col("centimorgan").shift(-1) - pl.col("centimorgan")) / (end - start) * 1e6
    rates = places.select(start.alias("start"), end.alias("end"), rate.alias("rate")).drop_nulls()
    rates = rates.filter(pl.col("end") >= span[0], pl.col("start") <= span[1])
    return rates if rates.height and rates["rate"].max() else None


def _recombination(panel: Panel, rates: pl.DataFrame) -> None:
    """The line of rates, a step between neighbours of the map, and its axis."""
    highest = float(max(rates["rate"].to_list())) * 1.15
    low, high = panel.x_range
    places = rates.select(pl.col("start", "end").clip(low, high)).to_numpy().ravel()
    heights = np.repeat(np.maximum(rates["rate"].to_numpy(), 0.0), 2)
    panel.line(places, heights * (panel.y_range[1] / highest), "thin s4")
    for value, text in ticks((0.0, highest), 4):
        panel.text(high, value * panel.y_range[1] / highest, text, "start", (6, -4))
    panel.text(high, panel.y_range[1], "cM/Mb", "start", (4, -4))


def gene_track(genes: pl.DataFrame, span: Range, about: str, *, margin: int = MARGIN) -> tuple[str, int]:
    """Genes as lines with their names and directions, none over another; and how many found no room in `MOST_LANES` rows.

    `genes` has start, end, gene_name and strand (+, - or null), sorted by start. The x axis is that of `regional`, `margin` its right one.
    """
    frame = Panel(WIDTH, LANE, span, (0.0, 1.0), right=margin, top=0, bottom=0)
    lanes, placed = list[float](), list[tuple[int, dict[str, Any], str, float]]()
    for gene in genes.iter_rows(named=True):
        name = {"+": f"{gene['gene_name']} →", "-": f"← {gene['gene_name']}"}.get(gene["strand"], str(gene["gene_name"]))
        first, last = (min(max(frame.across(gene[end]) / 2, frame.left), WIDTH - frame.right) for end in ("start", "end"))
        half = LETTER / 2 * len(name)
        centre = max(half, min((first + last) / 2, WIDTH - half))
        left, right = min(first, centre - half), max(last, centre + half)
        lane = next((number for number, end in enumerate(lanes) if left > end + 4), len(lanes))
        if lane < MOST_LANES:
            lanes[lane : lane + 1] = [right]
            placed.append((lane, gene, name, centre))
    panel = Panel(WIDTH, LANE * max(len(lanes), 1), span, (float(max(len(lanes), 1)), 0.0), right=margin, top=0, bottom=0)
    for lane, gene, name, centre in placed:
        start, end = max(gene["start"], span[0]), min(gene["end"], span[1])
        panel.line((start, end), (lane + 0.8, lane + 0.8), "gene")
        panel.text(span[0], lane + 0.8, name, "middle", (centre - panel.left, 6))
    return panel.bare(about), genes.height - len(placed)
