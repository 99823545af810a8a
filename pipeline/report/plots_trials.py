"""Figures of a search: the metric trial by trial, and against a parameter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.report.svg import Panel, Tick, span_of

WIDE, HIGH = 330, 240
WIDELY = 20.0  # from the least to the greatest value, from where on a parameter has a logarithmic axis


def best_so_far(trials: pl.DataFrame, metric: str) -> str:
    """The `value` of every trial by its number, and the `best` one so far as steps."""
    number, value, best = (trials[name].to_numpy().astype(np.float64) for name in ("trial", "value", "best"))
    panel = Panel(WIDE, HIGH, span_of(number), span_of(np.append(value, best)), left=60)
    panel.line(np.repeat(number, 2)[1:], np.repeat(best, 2)[:-1], "s1")
    panel.dots(number, value, "large s0")
    return panel.svg(f"{metric} of {len(number)} trials, and of the best one so far", ("Trial", metric))


def by_parameter(trials: pl.DataFrame, name: str, metric: str) -> str:
    """The `value` of every trial by a parameter: numbers on an axis, logarithmic where they go far, other values side by side."""
    where, ticks, label = _places(trials[name])
    value = trials["value"].to_numpy().astype(np.float64)
    panel = Panel(WIDE, HIGH, span_of(where, 0.06), span_of(value), left=60)
    panel.dots(where, value, "large s0")
    return panel.svg(f"{metric} of {len(value)} trials by {name}", (label, metric), ticks)


def _places(values: pl.Series) -> tuple[NDArray[np.float64], list[Tick] | None, str]:
    """Where each value stands on the axis, the axis' ticks where they are not those of plain numbers, and its name."""
    if not values.dtype.is_numeric() or values.null_count():
        names: list[Any] = values.unique(maintain_order=True).to_list()
        places = np.array([names.index(value) for value in values.to_list()], np.float64)
        return places, [(float(at), "none" if name is None else str(name)) for at, name in enumerate(names)], values.name
    numbers = values.to_numpy().astype(np.float64)
    if numbers.min() <= 0 or numbers.max() < WIDELY * numbers.min():
        return numbers, None, values.name
    low, high = math.floor(np.log10(numbers.min())), math.ceil(np.log10(numbers.max()))
    ticks = [(float(power), f"{10.0**power:g}") for power in range(low, high + 1)]
    within = [(at, text) for at, text in ticks if np.log10(numbers.min()) - 0.1 <= at <= np.log10(numbers.max()) + 0.1]
    return np.log10(numbers), within or None, f"{values.name}{' (log scale)' if within else ' (log10)'}"
