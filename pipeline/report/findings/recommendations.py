"""How good recommendations are beside those of the most popular items, and whether they reach the items that few take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from pipeline.report import plots
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text

POPULAR = ", most popular"
SHARES = (("head", 0.5), ("middle", 0.8), ("tail", 1.0))
"""What the most popular items are called that have so much of the interactions, those before them left out."""
STYLES = ("s1", "s0")


class Recommendations(Finding, name="recommendations"):
    """Metrics of a stage beside those of the most popular items, and the long tail of an output of items."""

    place = 725
    columns = ("interactions", "recommended")

    def sections(self, evidence: Evidence) -> Iterator[Section]:
        """A section a stage that was measured beside the most popular items, and one an output of items."""
        for stage, found in evidence.metrics.items():
            if isinstance(found, Mapping) and (splits := [split for split in found if f"{split}{POPULAR}" in found]):
                yield measured(stage, found, splits)
        yield from super().sections(evidence)

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        yield long_tail(output, evidence.outputs[output])


def measured(stage: str, found: Mapping[str, Mapping[str, Any]], splits: list[str]) -> Section:
    """A table a split: each measure of the lists, of the most popular items, and how many times the one is the other."""
    section = Section(headline("Recommendations", stage))
    for split in splits:
        model, popular = found[split], found[f"{split}{POPULAR}"]
        names = [name for name in model if name != "users"]
        most = max(*(float(row[name]) for row in (model, popular) for name in names), 1e-300)
        cells = [
            (
                name.replace("_at_", " at "),
                model[name] / most,
                f"{model[name]:.4f}",
                popular[name] / most,
                f"{popular[name]:.4f}",
                _times(model[name], popular[name]),
            )
            for name in names
        ]
        caption = (
            f"Means over {number_text(model['users'])} users of split {split}, beside lists of the items that most users took in training."
        )
        section.blocks.append(Grid(("", "", "model", "", "most popular", "times"), "lbrbrr", cells, caption))
        recall = next((name for name in names if name.startswith("recall")), names[0])
        section.highlights.append(
            (f"{model[recall]:.3f}", f"{recall.replace('_at_', ' at ')}, {split} ({popular[recall]:.3f} by popularity)")
        )
    return section


def _times(value: float, other: float) -> str:
    return f"{value / other:.2f}" if other > 0 else ""


def long_tail(output: str, rows: pl.LazyFrame) -> Section:
    """Shares of interactions and of recommendations by the items' popularity: curves, and sums over head, middle and tail."""
    items = rows.select("interactions", "recommended").drop_nulls().filter(pl.col("interactions") > 0)
    frame = items.sort("interactions", "recommended", descending=True).collect()
    section = Section(headline("Long tail", output))
    taken, given = (frame[name].to_numpy().astype(np.float64) for name in frame.columns)
    if not len(taken) or not given.sum():
        section.blocks.append(Note("No item was taken and recommended."))
        return section
    along = np.arange(len(taken) + 1) / len(taken)
    shares = [np.append(0, np.cumsum(values) / values.sum()) for values in (taken, given)]
    reached = int((given > 0).sum())
    texts = [_first_tenth(share, what) for share, what in zip(shares, ("interactions", "recommendations"), strict=True)]
    caption = "Shares of the interactions and of the recommendations that go to so many of the items, the most popular first."
    figure = plots.curves(
        [(style, along, share) for style, share in zip(STYLES, shares, strict=True)],
        ("Share of the items", "Share"),
        f"{caption} {'; '.join(texts)}",
    )
    section.blocks.append(Figure(figure, caption, [*zip(STYLES, texts, strict=True)]))
    section.blocks.append(_groups(taken, given, shares[0]))
    section.highlights.append((f"{reached / len(taken):.0%}", f"of {number_text(len(taken))} items are recommended to someone"))
    return section


def _first_tenth(share: plots.Floats, what: str) -> str:
    first = max(1, round((len(share) - 1) / 10))
    return f"{what}: {share[first]:.0%} of the {number_text(first)} most popular items"


def _groups(taken: plots.Floats, given: plots.Floats, share: plots.Floats) -> Grid:
    """Items, interactions, recommendations and how many items are recommended at all, of head, middle and tail."""
    ends = [0, *(int(np.searchsorted(share, part - 1e-12)) for _, part in SHARES)]
    cells = []
    for (name, _), (low, high) in zip(SHARES, pairwise(ends), strict=True):
        parts = [values[low:high].sum() / values.sum() for values in (taken, given)]
        reached = f"{(given[low:high] > 0).mean():.0%}" if high > low else ""
        cells.append((name, number_text(high - low), parts[0], f"{parts[0]:.1%}", parts[1], f"{parts[1]:.1%}", reached))
    head = ("", "items", "", "taken", "", "recommended", "in a list")
    caption = "The head has half of the interactions, head and middle 80 %."
    return Grid(head, "lrbrbrr", cells, caption)
