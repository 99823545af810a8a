"""A row for every step of a key from its first to its last: those without rows are put in, empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.stages.relational._ordered.groups import START
from pipeline.stages.relational._ordered.steps import Steps
from pipeline.tables.part import Part

STEP, GAP = "__step__", "__gap__"
MOST_STEPS = 50_000_000  # of a part: beyond it the step is wrong


@dataclass(frozen=True)
class Rows:
    """Rows in the order of keys and steps: `keys int64[n]` number their key, `numbers int64[n]` their step."""

    keys: Any
    numbers: Any

    @staticmethod
    def of(rows: pl.DataFrame, by: Sequence[str], steps: Steps) -> Rows:
        """The rows of a frame that has STEP."""
        other = pl.any_horizontal(pl.lit(value=False), *(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in by))
        found = rows.select(replace(steps, name=STEP).number().alias("number"), other.alias("other"))
        other_key = found["other"].to_numpy().astype(np.int64)
        other_key[:1] = 0
        return Rows(np.cumsum(other_key), found["number"].to_numpy())

    def spread(self) -> tuple[Any, Any, Any]:
        """Of every step of every key: the row of it (-1: none), a row of its key, its number. Raises DataError where they are too many."""
        first = np.flatnonzero(np.diff(self.keys, prepend=-1))
        last = np.flatnonzero(np.diff(self.keys, append=-1))
        low = self.numbers[first]
        sizes = self.numbers[last] - low + 1
        if (steps := sizes.sum(dtype=float)) > MOST_STEPS:
            raise DataError(f"from the first to the last there would be {steps:,.0f} steps. Take a longer one.", key="every")
        starts = np.cumsum(sizes) - sizes
        key = np.repeat(np.arange(len(sizes)), sizes)
        source = np.full(len(key), -1)
        source[starts[self.keys] + self.numbers - low[self.keys]] = np.arange(len(self.keys))
        return source, first[key], low[key] + np.arange(len(key)) - starts[key]


def with_gaps(part: Part, by: Sequence[str], steps: Steps) -> Part:
    """The part with a row for every step of a key; GAP marks those that were not there, START tells keys apart.

    Rows without a step are below the others. Raises DataError where there would be too many.
    """
    whole = part.frame.sort(*by, STEP, nulls_last=True)
    rows, untimed = whole.filter(pl.col(STEP).is_not_null()), whole.filter(pl.col(STEP).is_null())
    source, of_key, numbers = Rows.of(rows, by, steps).spread()
    places = pl.DataFrame({"source": source, "number": numbers}, schema={"source": pl.Int64, "number": pl.Int64}).select(
        pl.when(pl.col("source") >= 0).then("source").otherwise(None), steps.begin(pl.col("number")).alias(STEP), "number"
    )
    if steps.zone:  # where a clock was put on by a day, steps of it never were
        there = (places["source"].is_not_null() | (places.select(replace(steps, name=STEP).number())[STEP] == places["number"])).to_numpy()
        places, of_key = places.filter(there), of_key[there]
    found = {name: rows[name].gather(of_key if name in by else places["source"]) for name in rows.columns if name != STEP}
    filled = pl.DataFrame([places[STEP], *found.values()]).with_columns(
        places["source"].is_null().alias(GAP), pl.Series(START, of_key, dtype=pl.Int64)
    )
    below = untimed.with_columns(pl.lit(value=False).alias(GAP), pl.lit(-1, dtype=pl.Int64).alias(START))
    return Part(pl.concat([filled, below.select(filled.columns)]), counts=part.counts)
