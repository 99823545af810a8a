"""What a report page is made of: sections of figures, tables, bars and notes; and how numbers are written on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

SOME_CHANGE, LARGE_CHANGE = 0.1, 0.25
"""From where on a population stability index is read as a change (Siddiqi 2006, Credit Risk Scorecards)."""


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption; `legend` names its styles. As wide as drawn (narrow, medium), or as the page (wide).

    `data` is what the page's script draws a part of it from, as texts by name.
    """

    kind: ClassVar[str] = "figure"
    svg: str
    caption: str
    legend: Sequence[tuple[str, str]] = ()
    size: Literal["narrow", "medium", "wide"] = "narrow"
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """A table of texts; `align` has a letter a column: l, r, b for a bar of a share (0 to 1), h for a text with a share to shade,
    s for a small drawing, f for files: pairs of an address ('' for none) and a text."""

    kind: ClassVar[str] = "grid"
    head: Sequence[str]
    align: str
    rows: Sequence[Sequence[Any]]
    caption: str = ""


@dataclass(frozen=True)
class Tally:
    """Named counts of one table. A funnel's have two shares of the whole besides: what is left, and what this step took."""

    kind: ClassVar[str] = "tally"
    title: str
    counts: Sequence[tuple[str, str] | tuple[str, str, float, float]]


@dataclass(frozen=True)
class Note:
    """A sentence."""

    kind: ClassVar[str] = "note"
    text: str


@dataclass
class Section:
    """A headed part of the page; `highlights` (figure and what it is) go to the head of the page.

    `output` is the one that it shows, or `file` the run's own file (run.json) that has its numbers.
    """

    title: str
    blocks: list[Figure | Grid | Tally | Note] = field(default_factory=list)
    highlights: list[tuple[str, str]] = field(default_factory=list)
    output: str = ""
    file: str = ""


def headline(what: str, output: str) -> str:
    """A section's title: what it shows, and of which output where that has another name."""
    return what if output.lower() in what.lower() else f"{what}: {output}"


def p_text(strength: float | None) -> str:
    """A p-value from its -log10, right where the p-value is below what a double holds: 0.041, 3.1e-12, 5.0e-1074."""
    if strength is None or math.isnan(strength):
        return ""
    if math.isinf(strength):
        return "0"
    if strength < 3:
        return f"{10**-strength:.3g}"
    exponent = math.ceil(strength)
    digits = f"{10 ** (exponent - strength):.1f}"
    return f"1.0e-{exponent - 1}" if digits == "10.0" else f"{digits}e-{exponent}"


def number_text(value: Any) -> str:
    """A number for reading: thousands with commas, four significant digits; other values as text, '' for nothing."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e15 else f"{value:.4g}"


def psi_word(index: float | None) -> str:
    """What a population stability index means."""
    return "not compared" if index is None else "moved" if index > LARGE_CHANGE else "some change" if index > SOME_CHANGE else "steady"


def bytes_text(size: int | None) -> str:
    """A size in plain units: 812 B, 4.2 MB."""
    if size is None:
        return ""
    units = ("B", "kB", "MB", "GB", "TB")
    step = min(int(math.log10(size) / 3), len(units) - 1) if size > 0 else 0
    return f"{size / 1000**step:.3g} {units[step]}" if step else f"{size} B"


def seconds_text(seconds: float) -> str:
    """A time in plain units: 0.31 s, 12.4 s, 3 min 5 s, 2 h 4 min."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
