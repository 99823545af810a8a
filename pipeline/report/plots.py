"""The figures of the report page: data reduced to what can be seen, then drawn as SVG. Arrays and frames in, text out; no files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import escape
from numpy.typing import NDArray

from pipeline.report.svg import Panel, Range, span_of, ticks_of

Floats = NDArray[np.float64]

NARROW, HIGH = 330, 300
GROUP_STYLES = tuple(f"{kind}s{number}" for kind in ("", "square ") for number in range(7))


def scatter(groups: Sequence[tuple[str, Any, Any]], labels: tuple[str, str], about: str) -> str:
    """Points of several groups, each given as style, x and y without missing values."""
    xs, ys = (np.concatenate([group[i] for group in groups] or [np.empty(0)]) for i in (1, 2))
    panel = Panel(500, 380, span_of(xs), span_of(ys), left=56)
    for style, x, y in groups:
        panel.dots(x, y, f"large {style}")
    return panel.svg(about, labels)


def curves(lines: Sequence[tuple[str, Any, Any]], labels: tuple[str, str], about: str) -> str:
    """Lines of several groups, each given as style, x and y without missing values, x from low to high; a single place is a dot too."""
    xs, ys = (np.concatenate([line[i] for line in lines] or [np.empty(0)]) for i in (1, 2))
    panel = Panel(500, HIGH, span_of(xs, 0.0), span_of(ys), left=56)
    for style, x, y in lines:
        panel.line(x, y, style)
        if len(x) == 1:
            panel.dots(x, y, f"large {style}")
    return panel.svg(about, labels, ticks_of(xs, panel.x_range))


def receiver_operating(curves: Sequence[tuple[str, Floats, Floats]], about: str) -> str:
    """ROC curves, each given as style, truth (0 or 1, both of them there) and score; points with equal scores make one step."""
    panel = Panel(NARROW, HIGH, (0.0, 1.0), (0.0, 1.0))
    panel.line((0, 1), (0, 1), "reference")
    for style, truth, score in curves:
        truth, score = (values[::-1] for values in by_score(truth, score))  # which of equal scores comes first makes no difference
        ends = np.append(np.flatnonzero(score[1:] != score[:-1]), len(score) - 1)
        hits = np.cumsum(truth)[ends]
        false = ends + 1 - hits
        panel.line(np.append(0, false / max(false[-1], 1)), np.append(0, hits / max(hits[-1], 1)), style)
    return panel.svg(about, ("False positive rate", "True positive rate"))


@dataclass(frozen=True)
class Deciles:
    """Rows in bins of equal size by score: how many, the cases among them, and their mean score, each `[bins]`, lowest scores first."""

    rows: NDArray[np.int64]
    cases: NDArray[np.int64]
    mean: Floats

    @property
    def share(self) -> Floats:
        """Observed share of cases."""
        shares: Floats = self.cases / self.rows
        return shares

    @property
    def interval(self) -> tuple[Floats, Floats]:
        """95 % interval of the share (Wilson 1927)."""
        n, share, z = self.rows, self.share, 1.96
        centre = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def deciles(truth: Floats, score: Floats, bins: int = 10) -> Deciles:
    """Rows of `truth` (0 or 1) and `score` by score in ten bins; fewer where there are fewer rows."""
    truths, scores = (np.array_split(values, bins)[: len(score)] for values in by_score(truth, score))
    cases = np.array([int(piece.sum()) for piece in truths], np.int64)
    return Deciles(np.array([len(piece) for piece in truths], np.int64), cases, np.array([piece.mean() for piece in scores], float))


def by_score(truth: Floats, score: Floats) -> tuple[Floats, Floats]:
    """Both in the order of the scores; as they are where they have it."""
    if np.all(score[:-1] <= score[1:]):
        return truth, score
    order = np.argsort(score, kind="stable")
    return truth[order], score[order]


def calibration(curves: Sequence[tuple[str, Deciles]], about: str) -> str:
    """Observed share of cases against the mean score in bins, a curve a style; the last has dots and 95 % intervals."""
    judged = curves[-1][1]
    low, high = judged.interval
    most = min(1.0, 1.05 * max(float(high.max()), *(float(max(found.mean.max(), found.share.max())) for _, found in curves)))
    panel = Panel(NARROW, HIGH, (0.0, most), (0.0, most))
    panel.line((0, most), (0, most), "reference")
    for style, found in curves:
        panel.line(found.mean, found.share, f"{style} thin")
    for x, lower, upper in zip(judged.mean, low, high, strict=True):
        panel.line((x, x), (lower, min(upper, most)), f"{curves[-1][0]} thin")
    panel.dots(judged.mean, judged.share, f"huge {curves[-1][0]}")
    return panel.svg(about, ("Mean predicted probability", "Observed share of cases"))


def calibrated_quantiles(curves: Sequence[tuple[str, Floats, Floats]], about: str) -> str:
    """Observed shares against quantiles, a curve a style, each with dots, over the line where both are the same."""
    panel = Panel(NARROW, HIGH, (0.0, 1.0), (0.0, 1.0))
    panel.line((0, 1), (0, 1), "reference")
    for style, quantiles, shares in curves:
        panel.line(quantiles, shares, style)
        panel.dots(quantiles, shares, f"large {style}")
    return panel.svg(about, ("Quantile", "Observed share"))


def histogram(groups: Sequence[tuple[str, Floats]], label: str, about: str, span: Range | None = None) -> str:
    """Shares of each group (style, finite values) by value in 30 bins over `span`, or from the least to the greatest value.

    Every group adds up to 1, and one of them has values.
    """
    edges = np.linspace(*(span or span_of(np.concatenate([values for _, values in groups]), 0.02)), 31)
    shares = [np.histogram(values, edges)[0] / max(len(values), 1) for _, values in groups]
    panel = Panel(NARROW if span else 500, HIGH, (edges[0], edges[-1]), (0.0, 1.06 * max(float(share.max()) for share in shares)))
    for (style, _), share in zip(groups, shares, strict=True):
        across, top = np.repeat(edges, 2)[1:-1], np.repeat(share, 2)
        panel.area(across, np.zeros_like(top), top, f"pale {style}")
        panel.line(across, top, f"{style} thin")
    return panel.svg(about, (label, "Share of the group"))


def observed_against(predicted: Floats, observed: Floats, label: str, about: str) -> str:
    """Observed against predicted values, with the line where they are equal."""
    span = span_of(np.concatenate([predicted, observed]))
    panel = Panel(NARROW, HIGH, span, span, left=58)
    panel.dots(predicted, observed, "s0")
    panel.line(span, span, "reference")
    return panel.svg(about, (f"Predicted {label}", f"Observed {label}"))


def bars(counts: Sequence[int], about: str) -> str:
    """A histogram the size of a word, for a table's cell; the highest bar is as high as the cell."""
    wide, high, most = 6, 18, max(*counts, 1)
    steps = "".join(f"M{wide * at} {high}v{-max(round(high * n / most), 1)}h{wide - 1}V{high}z" for at, n in enumerate(counts) if n)
    size = f'viewBox="0 0 {wide * len(counts)} {high}" width="{wide * len(counts)}"'
    return f'<svg {size} role="img" aria-label="{escape(about)}"><path class="area s0" d="{steps}"/></svg>'
