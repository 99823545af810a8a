"""A forest plot: effects below one another by name, each with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.report.svg import Panel, span_of

ROW, LETTER, MOST_LETTERS = 19, 6.3, 34  # pixels of a row and of a letter; letters of a name


class Effect(NamedTuple):
    """A named value with its interval; the same three times where it has none."""

    name: str
    value: float
    low: float
    high: float


def forest(effects: Sequence[Effect], label: str, about: str) -> str:
    """Effects from top to bottom, of which there is one at least, beside a line at 0; one without an interval is a bar from there."""
    names = [each.name if len(each.name) <= MOST_LETTERS else each.name[: MOST_LETTERS - 1] + "…" for each in effects]
    left = 16 + round(LETTER * max(len(name) for name in names))
    height = 52 + ROW * len(effects)
    span = span_of([0.0, *(end for each in effects for end in (each.low, each.high))])
    panel = Panel(left + 420, height, span, (0.4, len(effects) + 0.6), left=left)
    panel.line((0, 0), panel.y_range, "reference")
    places = [float(len(effects) - at) for at in range(len(effects))]
    for each, place in zip(effects, places, strict=True):
        if each.low == each.high:
            panel.area((min(0.0, each.value), max(0.0, each.value)), [place - 0.3] * 2, [place + 0.3] * 2, "s0")
            continue
        clear = each.low > 0 or each.high < 0
        panel.line((each.low, each.high), (place, place), "s0" if clear else "s6")
        panel.dots([each.value], [place], "huge s0" if clear else "huge s6")
    return panel.svg(about, (label, ""), y_ticks=list(zip(places, names, strict=True)))
