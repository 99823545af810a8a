"""A small drawing board for inline SVG figures: one panel with two axes. Colours come from the page's style sheet and follow its scheme.

Marks are placed in half pixels, rounded to whole ones: dots that would lie on one another are drawn once, and the text stays short.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from markupsafe import escape
from numpy.typing import NDArray

Range = tuple[float, float]
Tick = tuple[float, str]

MANY_DOTS = 5_000
MANY_TICKS = 12  # of an axis, beyond which their names are set smaller


@dataclass
class Panel:
    """A plot area of `width` x `height` pixels, margins included, with the data ranges of its axes; marks are added in painting order."""

    width: int
    height: int
    x_range: Range
    y_range: Range
    left: int = 50
    right: int = 12
    top: int = 12
    bottom: int = 40
    marks: list[str] = field(default_factory=list)

    def across(self, value: Any) -> Any:
        """Data to half pixels from the left edge, not rounded; takes numbers, arrays and Polars expressions."""
        low, high = self.x_range
        return 2 * self.left + (value - low) * (2 * (self.width - self.left - self.right) / (high - low))

    def down(self, value: Any) -> Any:
        """Data to half pixels from the top edge, not rounded; takes numbers, arrays and Polars expressions."""
        low, high = self.y_range
        return 2 * self.top + (high - value) * (2 * (self.height - self.top - self.bottom) / (high - low))

    def x(self, values: Any) -> NDArray[np.int64]:
        """Data to whole half pixels from the left edge."""
        places: NDArray[np.int64] = np.rint(self.across(np.asarray(values, np.float64))).astype(np.int64)
        return places

    def y(self, values: Any) -> NDArray[np.int64]:
        """Data to whole half pixels from the top edge."""
        places: NDArray[np.int64] = np.rint(self.down(np.asarray(values, np.float64))).astype(np.int64)
        return places

    def dots(self, x: Any, y: Any, style: str) -> None:
        """One dot a place; `style` is a class of the style sheet. Beyond some thousands of points the places are cells of 1.5 pixels."""
        cell = 3 if len(x) > MANY_DOTS else 1
        self.spots(self.x(x) // cell * cell + cell // 2, self.y(y) // cell * cell + cell // 2, style)

    def spots(self, x: NDArray[np.int64], y: NDArray[np.int64], style: str) -> None:
        """Dots given in half pixels."""
        places = pl.DataFrame({"x": x, "y": y}).unique().sort("x", "y")
        steps = places.select(pl.all() - pl.all().shift(1, fill_value=0))
        path = "".join(f"m{dx} {dy}h0" for dx, dy in steps.iter_rows())
        if path:
            self.marks.append(f'<path class="dots {style}" transform="scale(.5)" d="{path}"/>')

    def line(self, x: Any, y: Any, style: str) -> None:
        """A line through the points in their order; those in a row at one place are one."""
        places = np.column_stack([self.x(x), self.y(y)])
        moved = np.append(True, (places[1:] != places[:-1]).any(axis=1))
        self._shape([(across, up) for across, up in places[moved].tolist()], f"line {style}")

    def area(self, x: Any, low: Any, high: Any, style: str) -> None:
        """The area between two lines over the same x."""
        across = self.x(x).tolist()
        above, below = zip(across, self.y(high).tolist(), strict=True), zip(across, self.y(low).tolist(), strict=True)
        self._shape([*above, *reversed([*below])], f"area {style}", "z")

    def rule(self, y: float, style: str, text: str = "") -> None:
        """A horizontal line across the panel, with a note at its right end."""
        self.line(self.x_range, (y, y), style)
        if text:
            self.text(self.x_range[1], y, text, "end", (0, 4))

    def text(self, x: float, y: float, text: str, anchor: str = "start", off: tuple[float, float] = (0, 0)) -> None:
        """A note beside a place of the data: `off` pixels to the right of it and above it."""
        at, up = int(self.x([x])[0]) / 2 + off[0], int(self.y([y])[0]) / 2 - off[1]
        self.marks.append(f'<text class="note" x="{at:g}" y="{up:g}" text-anchor="{anchor}">{escape(text)}</text>')

    def spot(self, x: float, y: float, about: str) -> None:
        """A larger dot that says what it is where the pointer rests on it."""
        at, up = int(self.x([x])[0]) / 2, int(self.y([y])[0]) / 2
        self.marks.append(f'<circle class="lead" cx="{at:g}" cy="{up:g}" r="3.2"><title>{escape(about)}</title></circle>')

    def svg(
        self,
        about: str,
        labels: tuple[str, str],
        x_ticks: Sequence[Tick] | None = None,
        *,
        y_ticks: Sequence[Tick] | None = None,
        grid: bool = True,
    ) -> str:
        """The whole figure; `about` is read out where it cannot be seen. Ticks are chosen where they are not given; `grid` draws lines."""
        down, floor, centre = self.height - self.bottom, self.height - 6, (self.left + self.width - self.right) / 2
        parts = [f'<svg viewBox="0 0 {self.width} {self.height}" width="{self.width}" role="img" aria-label="{escape(about)}">']
        for value, text in ticks(self.y_range) if y_ticks is None else y_ticks:
            at = int(self.y([value])[0]) / 2
            if grid:
                parts.append(f'<path class="grid" d="M{self.left} {at:g}H{self.width - self.right}"/>')
            parts.append(f'<text x="{self.left - 6}" y="{at + 4:g}" text-anchor="end">{escape(text)}</text>')
        along = ticks(self.x_range) if x_ticks is None else x_ticks
        close = ' class="close"' if len(along) > MANY_TICKS else ""
        for value, text in along:
            at = int(self.x([value])[0]) / 2
            parts.append(f'<text{close} x="{at:g}" y="{down + 15}" text-anchor="middle">{escape(text)}</text>')
        parts.append(f'<path class="axis" d="M{self.left} {self.top}V{down}H{self.width - self.right}"/>')
        parts.append(f'<text class="label" x="{centre:g}" y="{floor}" text-anchor="middle">{escape(labels[0])}</text>')
        middle = (self.top + down) / 2
        turned = f'transform="translate(12 {middle:g}) rotate(-90)"'
        parts.append(f'<text class="label" {turned} text-anchor="middle">{escape(labels[1])}</text>')
        return "".join([*parts, *self.marks, "</svg>"])

    def bare(self, about: str) -> str:
        """The marks alone, without axes, to stand below a figure whose x axis they share."""
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        return "".join([f'<svg {size} role="img" aria-label="{escape(about)}">', *self.marks, "</svg>"])

    def _shape(self, points: Iterable[tuple[int, int]], style: str, end: str = "") -> None:
        """A path through half-pixel points; those that repeat the one before are left out."""
        path, before = [], None
        for point in points:
            if point != before:
                path.append(f"{point[0]} {point[1]}")
            before = point
        if path:
            self.marks.append(f'<path class="{style}" transform="scale(.5)" d="M{"L".join(path)}{end}"/>')


def ticks(span: Range, most: int = 6, *, least_step: float = 0.0) -> list[Tick]:
    """Round numbers across a range, at most about `most`, in steps of 1, 2 or 5 times a power of ten."""
    rough = max((span[1] - span[0]) / most, least_step)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(span[0] / step - 1e-9), math.floor(span[1] / step + 1e-9)
    digits = max(6, 1 + math.floor(math.log10(5 * max(abs(first), abs(last), 1))))  # as many as tell neighbours apart
    return [(number * step, f"{number * step:.{digits}g}") for number in range(first, last + 1)]


def ticks_of(values: Any, span: Range) -> list[Tick]:
    """The ticks of an axis where these values stand: whole numbers have none between them."""
    numbers = np.asarray(values, np.float64)
    whole = numbers.size > 0 and bool((numbers == np.rint(numbers)).all())
    return ticks(span, least_step=1.0 if whole else 0.0) or ticks(span)


def runs(there: NDArray[np.bool]) -> list[slice]:
    """The stretches of places that are there."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]]).astype(np.int8)))
    return [slice(int(first), int(last)) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def span_of(values: Any, margin: float = 0.04) -> Range:
    """The range of some finite values with a margin on both sides; one that is not empty for no value or a single one."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    wide = (high - low) * margin if high > low else max(abs(low), 1.0) * 0.5
    return low - wide, high + wide
