"""Figures of principal axes: how much each explains."""

from __future__ import annotations

import numpy as np

from pipeline.report.plots import HIGH, NARROW, Floats
from pipeline.report.svg import Panel


def explained(shares: Floats, about: str) -> str:
    """A bar a component, as high as its share of the variance, and a line of what they explain together."""
    together = np.cumsum(shares)
    numbers = np.arange(1, len(shares) + 1)
    panel = Panel(NARROW, HIGH, (0.4, len(shares) + 0.6), (0.0, 1.04 * max(float(shares.sum()), 1e-9)))
    for number, share in zip(numbers, shares, strict=True):
        sides = np.array([number - 0.35, number + 0.35])
        panel.area(sides, np.zeros(2), np.full(2, share), "s0")
    if len(shares):
        panel.line(numbers, together, "s1")
        panel.dots(numbers, together, "huge s1")
    step = max(1, -(-len(shares) // 10))
    ticks = [(float(number), str(number)) for number in numbers[::step]]
    return panel.svg(about, ("Component", "Share of the variance"), ticks)
