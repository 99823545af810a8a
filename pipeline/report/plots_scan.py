"""The figures of a genome scan: Manhattan, QQ and regional plots. Reduced data in, SVG text out; every figure is also told in words."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import special_module
from pipeline.report.plots import HIGH, NARROW
from pipeline.report.scan_data import CHROMOSOME, GENOME_WIDE_STRENGTH, POSITION, SUGGESTIVE_STRENGTH
from pipeline.report.svg import Panel, Tick, span_of, ticks

Floats = NDArray[np.float64]

STRENGTH_LABEL = "−log₁₀ p"
SERIES_STYLES = ("even", "odd", "hit")
MANY_RANKS = 20_000
LETTER = 6.4  # pixels that a digit of many on an axis is wide, in the widest font that a page may be shown in


def manhattan_panel(genome: pl.DataFrame, best: float) -> Panel:
    """The panel of a Manhattan plot, with room for names above the greatest finite -log10 p."""
    total = float((genome["start"] + genome["high"] - genome["low"]).to_numpy()[-1]) if genome.height else 1.0
    return Panel(960, 340, (-0.008 * total, 1.008 * total), (0.0, max(8.0, best) * 1.1))


def manhattan(genome: pl.DataFrame, places: pl.DataFrame, panel: Panel, leads: pl.DataFrame, about: str) -> str:
    """-log10 p along the genome: `places` are the dots' half pixels by series; `leads` get their name (variant_id), strongest first."""
    for (series, weak), dots in places.group_by("series", "weak", maintain_order=True):
        panel.spots(dots["x"].to_numpy(), dots["y"].to_numpy(), SERIES_STYLES[int(str(series))] + " weak" * bool(weak))
    panel.rule(SUGGESTIVE_STRENGTH, "suggestive", "1e-5")
    panel.rule(GENOME_WIDE_STRENGTH, "threshold", "5e-8")
    _label_leads(panel, leads, genome)
    if genome.height == 1:
        low, high = float(genome["low"][0]), float(genome["high"][0])
        marks = [(value * 1e6 - low, text) for value, text in ticks((low / 1e6, high / 1e6), 10)]
        return panel.svg(about, (f"Position on chromosome {_short(genome[CHROMOSOME][0])} (Mb)", STRENGTH_LABEL), marks)
    return panel.svg(about, ("Chromosome", STRENGTH_LABEL), _chromosome_ticks(panel, genome))


def _short(chromosome: str) -> str:
    return re.sub("^chr", "", chromosome)


def _label_leads(panel: Panel, leads: pl.DataFrame, genome: pl.DataFrame) -> None:
    """Ring the leads, strongest first, and name them above, to the left or to the right, where there is room."""
    taken: list[tuple[float, float, float]] = []  # left and right end of a name, and its height
    for row in leads.join(genome, on=CHROMOSOME, maintain_order="left").iter_rows(named=True):
        along, strength = row["start"] + row[POSITION] - row["low"], min(row["strength"], panel.y_range[1] / 1.1)
        panel.spot(along, strength, f"{row['variant_id'] or 'unnamed'}, {row[CHROMOSOME]}:{row[POSITION]}")
        x, y, wide = panel.across(along) / 2, panel.down(strength) / 2, 6.6 * len(row["variant_id"] or "")
        for anchor, left, lift, aside in (("middle", x - wide / 2, 7, 0), ("end", x - wide - 6, -4, -6), ("start", x + 6, -4, 6)):
            inside = left > panel.left and left + wide < panel.width - panel.right
            free = all(left > end or left + wide < start or abs(y - lift - height) > 13 for start, end, height in taken)
            if wide and inside and free:
                panel.text(along, strength, row["variant_id"], anchor, (aside, lift))
                taken.append((left, left + wide, y - lift))
                break


def _chromosome_ticks(panel: Panel, genome: pl.DataFrame) -> list[Tick]:
    """Names in the middle of their chromosomes, without those that would run into the one before; the last one always stands."""
    named = [(row["start"] + (row["high"] - row["low"]) / 2, _short(row[CHROMOSOME])) for row in genome.iter_rows(named=True)]
    found, ends = list[Tick](), list[float]()
    for number, (middle, name) in enumerate(named):
        place, half = panel.across(middle) / 2, LETTER / 2 * len(name)
        while number == len(named) - 1 and ends and place - half <= ends[-1]:
            found.pop()
            ends.pop()
        if not ends or place - half > ends[-1]:
            found.append((middle, name))
            ends.append(place + half + 2)
    return found


def quantile_quantile(strengths: Floats, counts: NDArray[np.int64], about: str) -> str:
    """Observed -log10 p against what chance gives, with the 95 % band of order statistics.

    `strengths` fall; each stands for `counts` results that lie next to one another. The i-th smallest of n uniform p-values is
    Beta(i, n - i + 1).
    """
    ends = np.cumsum(counts)
    n = int(ends[-1])
    # Beyond the strongest, ranks a fraction of a pixel apart on the logarithmic axis are enough.
    drawn = np.unique(np.append(np.arange(1, min(n, MANY_RANKS) + 1), np.rint(np.geomspace(1, n, MANY_RANKS)))).astype(np.int64)
    strengths, expected = strengths[np.searchsorted(ends, drawn)], -np.log10(drawn / (n + 1))
    highest = max(1.0, span_of(strengths, 0)[1])
    panel = Panel(NARROW, HIGH, (0.0, float(expected[0]) * 1.04), (0.0, max(highest, float(expected[0])) * 1.06))
    ranks = np.unique(np.rint(np.geomspace(1, n, 150)))
    inverse = special_module(ranks).betaincinv
    low, high = (-np.log10(inverse(ranks, n - ranks + 1, share)) for share in (0.975, 0.025))
    panel.area(-np.log10(ranks / (n + 1)), low, np.minimum(high, panel.y_range[1]), "band")
    panel.line((0, expected[0]), (0, expected[0]), "reference")
    panel.dots(expected, np.minimum(strengths, panel.y_range[1]), "s0")
    return panel.svg(about, (f"Expected {STRENGTH_LABEL}", f"Observed {STRENGTH_LABEL}"))
