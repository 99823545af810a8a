"""Figures of a search and of a cross-validation: the metric trial by trial, against a parameter, and fold by fold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.report.svg import Panel, Tick, span_of, ticks_of

WIDE, HIGH = 330, 240
MOST_DECADES = 2.5  # of a logarithmic axis, beyond which only powers of ten are named
MOST_TICKS = 12  # of folds, beyond which not each is named
WIDELY = 8.0  # from the least to the greatest value, from where on a parameter has a logarithmic axis


def best_so_far(trials: pl.DataFrame, metric: str) -> str:
    """The `value` of every trial by its number, and the `best` one so far as steps."""
    number, value, best = (trials[name].to_numpy().astype(np.float64) for name in ("trial", "value", "best"))
    panel = Panel(WIDE, HIGH, span_of(number), span_of(np.append(value, best)), left=60)
    panel.line(np.repeat(number, 2)[1:], np.repeat(best, 2)[:-1], "s1")
    panel.dots(number, value, "huge s0")
    return panel.svg(f"{metric} of {len(number)} trials, and of the best one so far", ("Trial", metric), ticks_of(number, panel.x_range))


def by_rounds(trials: pl.DataFrame, metric: str) -> str:
    """The `value` of every trial by its `rounds`, a line a trial."""
    known = trials.drop_nulls("value").sort("trial", "rounds")
    panel = Panel(WIDE, HIGH, span_of(known["rounds"].to_numpy()), span_of(known["value"].to_numpy()), left=60)
    for _, steps in known.group_by("trial", maintain_order=True):
        panel.line(steps["rounds"].to_numpy(), steps["value"].to_numpy(), "s0 thin")
    panel.dots(known["rounds"].to_numpy(), known["value"].to_numpy(), "s0")
    about = f"{metric} of {known['trial'].n_unique()} trials by their rounds"
    return panel.svg(about, ("Rounds", metric), ticks_of(known["rounds"].to_numpy(), panel.x_range))


def by_fold(folds: pl.DataFrame, metric: str) -> str:
    """A metric of every fold, and their mean as a line; one fold at least has it."""
    number, value = (folds[name].to_numpy().astype(np.float64) for name in ("fold", metric))
    panel = Panel(WIDE, HIGH, span_of(number, 0.08), span_of(value, 0.15), left=60)
    panel.rule(float(value.mean()), "reference", "mean")
    panel.dots(number, value, "huge s0")
    ticks = [(float(at), f"{at:g}") for at in number] if len(number) <= MOST_TICKS else ticks_of(number, panel.x_range)
    return panel.svg(f"{metric} of {len(number)} folds, mean {value.mean():.4g}", ("Fold", metric), ticks)


def by_parameter(trials: pl.DataFrame, name: str, metric: str, best: int) -> str:
    """The `value` of every trial by a parameter: numbers on an axis, logarithmic where they go far, other values side by side.

    `best` is the number of the trial that is marked, where it is among them.
    """
    where, ticks, label = _places(trials[name])
    value = trials["value"].to_numpy().astype(np.float64)
    panel = Panel(WIDE, HIGH, span_of(where, 0.06), span_of(value), left=60)
    panel.dots(where, value, "huge s0")
    for at in np.flatnonzero(trials["trial"].to_numpy() == best):
        panel.spot(float(where[at]), float(value[at]), f"trial {best}: {value[at]:.4g}")
    along = ticks_of(where, panel.x_range) if ticks is None else ticks
    return panel.svg(f"{metric} of {len(value)} trials by {name}", (label, metric), along)


def _places(values: pl.Series) -> tuple[NDArray[np.float64], list[Tick] | None, str]:
    """Where each value stands on the axis, the axis' ticks where they are not those of plain numbers, and its name."""
    if not values.dtype.is_numeric() or values.null_count():
        names: list[Any] = values.unique(maintain_order=True).to_list()
        places = np.array([names.index(value) for value in values.to_list()], np.float64)
        return places, [(float(at), "none" if name is None else str(name)) for at, name in enumerate(names)], values.name
    numbers = values.to_numpy().astype(np.float64)
    if numbers.min() <= 0 or numbers.max() < WIDELY * numbers.min():
        return numbers, None, values.name
    low, high = math.log10(numbers.min()), math.log10(numbers.max())
    factors = (1,) if high - low > MOST_DECADES else (1, 2, 5)
    marks = [factor * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for factor in factors]
    ticks = [(math.log10(mark), f"{mark:g}") for mark in marks if low - 0.05 <= math.log10(mark) <= high + 0.05]
    return np.log10(numbers), ticks, f"{values.name} (log scale)"
