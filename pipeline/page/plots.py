"""The figures of the report page: data reduced to what can be seen, then drawn as SVG. Arrays and frames in, text out; no files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend import special_module
from pipeline.page.svg import Panel, Tick, span_of, ticks

Floats = NDArray[np.float64]

GENOME_WIDE, SUGGESTIVE = 5e-8, 1e-5
"""p-values of the two lines of a scan: 0.05 over a million independent common variants (Pe'er et al. 2008), and the customary second."""

GENOME_WIDE_STRENGTH, SUGGESTIVE_STRENGTH = -np.log10(GENOME_WIDE), -np.log10(SUGGESTIVE)

STRONG = 3.0
"""-log10 p from which a scan draws every point; below, points are binned on a grid of `COARSE` half pixels."""

COARSE = 3
MANY_RANKS = 20_000
NARROW, HIGH = 330, 300
STRENGTH_LABEL = "−log₁₀ p"
GROUP_STYLES = tuple(f"{kind}s{number}" for kind in ("", "square ") for number in range(7))
SERIES_STYLES = ("even", "odd", "hit")
_SPECIAL_CHROMOSOMES = {"x": 23, "y": 24, "xy": 25, "m": 26, "mt": 26}


def natural_order(chromosome: str) -> tuple[int, str]:
    """What chromosomes are sorted by: numbers as numbers, then X, Y, XY, MT, then others by name."""
    name = re.sub("^chr", "", chromosome.lower())
    return (int(name) if name.isdecimal() else _SPECIAL_CHROMOSOMES.get(name, 1_000), name)


def manhattan(points: pl.DataFrame, leads: pl.DataFrame) -> str:
    """-log10 p along the genome, from frames with chromosome, base_pair_location and strength (-log10 p).

    `leads`, which has variant_id besides, are the variants that get their name.
    """
    genome = genome_of(points)
    highest = max(8.0, span_of(points["strength"], 0)[1])
    panel = manhattan_panel(genome, highest)
    for series, places in thinned(points, genome, panel).group_by("series", maintain_order=True):
        panel.spots(places["x"].to_numpy(), places["y"].to_numpy(), SERIES_STYLES[int(str(series[0]))])
    panel.rule(SUGGESTIVE_STRENGTH, "suggestive", "1e-5")
    panel.rule(GENOME_WIDE_STRENGTH, "threshold", "5e-8")
    _label_leads(panel, leads, genome, highest)
    if genome.height == 1:
        low, high = float(genome["low"][0]), float(genome["high"][0])
        marks = [(value * 1e6 - low, text) for value, text in ticks((low / 1e6, high / 1e6), 10)]
        return panel.svg("Manhattan plot", (f"Position on chromosome {_short(genome['chromosome'][0])} (Mb)", STRENGTH_LABEL), marks)
    return panel.svg("Manhattan plot", ("Chromosome", STRENGTH_LABEL), _chromosome_ticks(panel, genome))


def manhattan_panel(genome: pl.DataFrame, highest: float) -> Panel:
    """The panel of a Manhattan plot, with room for labels above the highest point."""
    total = float((genome["start"] + genome["high"] - genome["low"]).to_numpy()[-1])
    return Panel(960, 340, (-0.008 * total, 1.008 * total), (0.0, highest * 1.1))


def genome_of(points: pl.DataFrame) -> pl.DataFrame:
    """Per chromosome in natural order: its number from 0, its first and last position (low, high), and where it starts on the axis."""
    found = points.group_by("chromosome").agg(
        low=pl.col("base_pair_location").min().cast(pl.Float64), high=pl.col("base_pair_location").max().cast(pl.Float64) + 1
    )
    order = sorted(found["chromosome"].to_list(), key=natural_order)
    genome = pl.DataFrame({"chromosome": order}, schema={"chromosome": pl.String}).join(found, on="chromosome", maintain_order="left")
    length = pl.col("high") - pl.col("low")
    gap = 0.006 * length.sum()
    return genome.with_row_index("number").with_columns(start=(length + gap).cum_sum() - length - gap)


def thinned(points: pl.DataFrame, genome: pl.DataFrame, panel: Panel) -> pl.DataFrame:
    """Where dots are drawn, in half pixels (x, y), and in which series: 0 and 1 for alternating chromosomes, 2 beyond genome-wide.

    From `STRONG` up every point has a dot at its own place, and points that share a place share the dot; below, points move to the middle
    of their grid cell. An infinite -log10 p stands at the upper edge.
    """
    placed = points.lazy().join(genome.lazy().select("chromosome", "low", "start", "number"), on="chromosome")
    along = pl.col("start") + (pl.col("base_pair_location") - pl.col("low"))
    series = pl.when(pl.col("strength") > GENOME_WIDE_STRENGTH).then(2).otherwise(pl.col("number") % 2).cast(pl.Int64)
    drawn = placed.select(
        "strength",
        series=series,
        x=panel.across(along).round().cast(pl.Int64),
        y=panel.down(pl.min_horizontal("strength", pl.lit(panel.y_range[1]))).round().cast(pl.Int64),
    )
    weak = pl.col("strength") < STRONG
    cells = [pl.when(weak).then(pl.col(n) // COARSE * COARSE + COARSE // 2).otherwise(pl.col(n)).alias(n) for n in ("x", "y")]
    return drawn.select("series", *cells).unique().sort("series", "x", "y").collect()


def _short(chromosome: str) -> str:
    return re.sub("^chr", "", chromosome)


def _label_leads(panel: Panel, leads: pl.DataFrame, genome: pl.DataFrame, highest: float) -> None:
    """Ring the leads, strongest first, and name them above, to the left or to the right, where there is room."""
    taken: list[tuple[float, float, float]] = []  # left and right end of a name, and its height
    for row in leads.join(genome, on="chromosome", maintain_order="left").iter_rows(named=True):
        along, strength = row["start"] + row["base_pair_location"] - row["low"], min(row["strength"], highest)
        panel.spot(along, strength, f"{row['variant_id'] or 'unnamed'}, {row['chromosome']}:{row['base_pair_location']}")
        x, y, wide = panel.across(along) / 2, panel.down(strength) / 2, 6.6 * len(row["variant_id"] or "")
        for anchor, left, lift, aside in (("middle", x - wide / 2, 7, 0), ("end", x - wide - 6, -4, -6), ("start", x + 6, -4, 6)):
            inside = left > panel.left and left + wide < panel.width - panel.right
            free = all(left > end or left + wide < start or abs(y - lift - height) > 13 for start, end, height in taken)
            if wide and inside and free:
                panel.text(along, strength, row["variant_id"], anchor, (aside, lift))
                taken.append((left, left + wide, y - lift))
                break


def _chromosome_ticks(panel: Panel, genome: pl.DataFrame) -> list[Tick]:
    """Names in the middle of their chromosomes, without those that would run into the one before."""
    found, free = list[Tick](), -1e9
    for row in genome.iter_rows(named=True):
        name, middle = _short(row["chromosome"]), row["start"] + (row["high"] - row["low"]) / 2
        place, half = panel.across(middle) / 2, 3.4 * len(name)
        if place - half > free:
            found.append((middle, name))
            free = place + half + 3
    return found


def quantile_quantile(strengths: Floats) -> str:
    """Observed -log10 p, sorted from the greatest down, against what chance gives, with the 95 % band of order statistics.

    The i-th smallest of n uniform p-values is Beta(i, n - i + 1).
    """
    n = len(strengths)
    # Beyond the strongest, ranks a fraction of a pixel apart on the logarithmic axis are enough.
    drawn = np.unique(np.append(np.arange(1, min(n, MANY_RANKS) + 1), np.rint(np.geomspace(1, n, MANY_RANKS)))).astype(np.int64)
    strengths, expected = strengths[drawn - 1], -np.log10(drawn / (n + 1))
    highest = max(1.0, span_of(strengths, 0)[1])
    panel = Panel(NARROW, HIGH, (0.0, float(expected[0]) * 1.04), (0.0, max(highest, float(expected[0])) * 1.06))
    ranks = np.unique(np.rint(np.geomspace(1, n, 150)))
    inverse = special_module(ranks).betaincinv
    low, high = (-np.log10(inverse(ranks, n - ranks + 1, share)) for share in (0.975, 0.025))
    panel.area(-np.log10(ranks / (n + 1)), low, np.minimum(high, panel.y_range[1]), "band")
    panel.line((0, expected[0]), (0, expected[0]), "reference")
    panel.dots(expected, np.minimum(strengths, panel.y_range[1]), "s0")
    return panel.svg("QQ plot", (f"Expected {STRENGTH_LABEL}", f"Observed {STRENGTH_LABEL}"))


def scatter(groups: Sequence[tuple[str, Any, Any]], labels: tuple[str, str]) -> str:
    """Points of several groups, each given as style, x and y without missing values."""
    xs, ys = (np.concatenate([group[i] for group in groups] or [np.empty(0)]) for i in (1, 2))
    panel = Panel(500, 380, span_of(xs), span_of(ys), left=56)
    for style, x, y in groups:
        panel.dots(x, y, f"large {style}")
    return panel.svg(f"{labels[1]} against {labels[0]}", labels)


def receiver_operating(curves: Sequence[tuple[str, Floats, Floats]]) -> str:
    """ROC curves, each given as style, truth (0 or 1, both of them there) and score; points with equal scores make one step."""
    panel = Panel(NARROW, HIGH, (0.0, 1.0), (0.0, 1.0))
    panel.line((0, 1), (0, 1), "reference")
    for style, truth, score in curves:
        order = np.argsort(-score, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)
        hits = np.cumsum(truth[order])[ends]
        false = ends + 1 - hits
        panel.line(np.append(0, false / max(false[-1], 1)), np.append(0, hits / max(hits[-1], 1)), style)
    return panel.svg("ROC curve", ("False positive rate", "True positive rate"))


def calibration(truth: Floats, score: Floats, bins: int = 10) -> str:
    """Observed share of cases in bins of equal size by score, with 95 % intervals (Wilson 1927), against the mean score."""
    pieces = [piece for piece in np.array_split(np.argsort(score, kind="stable"), bins) if len(piece)]
    n, mean = np.array([len(piece) for piece in pieces], float), np.array([score[piece].mean() for piece in pieces])
    share, z = np.array([truth[piece].mean() for piece in pieces]), 1.96
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    most = min(1.0, 1.05 * float(max(mean.max(), (centre + half).max())))
    panel = Panel(NARROW, HIGH, (0.0, most), (0.0, most))
    panel.line((0, most), (0, most), "reference")
    for x, low, high in zip(mean, centre - half, centre + half, strict=True):
        panel.line((x, x), (low, min(high, most)), "s0 thin")
    panel.line(mean, share, "s0 thin")
    panel.dots(mean, share, "huge s0")
    return panel.svg("Calibration", ("Mean predicted probability", "Observed share of cases"))


def histogram(classes: Sequence[tuple[str, Floats]], label: str, bins: int = 30) -> str:
    """Shares of each class (style, scores from 0 to 1) by score; every class adds up to 1, and one of them has rows."""
    span = 0.0, min(1.0, 1.02 * max(float(scores.max()) for _, scores in classes if len(scores)) + 1e-9)
    edges = np.linspace(*span, bins + 1)
    shares = [np.histogram(scores, edges)[0] / max(len(scores), 1) for _, scores in classes]
    panel = Panel(NARROW, HIGH, span, (0.0, 1.06 * max(float(share.max()) for share in shares)))
    for (style, _), share in zip(classes, shares, strict=True):
        across, top = np.repeat(edges, 2)[1:-1], np.repeat(share, 2)
        panel.area(across, np.zeros_like(top), top, f"pale {style}")
        panel.line(across, top, f"{style} thin")
    return panel.svg("Scores by class", (label, "Share of the class"))


def observed_against(predicted: Floats, observed: Floats, label: str) -> str:
    """Observed against predicted values, with the line where they are equal."""
    span = span_of(np.concatenate([predicted, observed]))
    panel = Panel(NARROW, HIGH, span, span, left=58)
    panel.dots(predicted, observed, "s0")
    panel.line(span, span, "reference")
    return panel.svg("Observed against predicted", (f"Predicted {label}", f"Observed {label}"))
