"""The nearest row by time, of those with the same keys: a search among numbers that have the key first and then the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import polars as pl

from pipeline.tables.matched import KeyNumbers, scattered
from pipeline.tables.packed import MOST
from pipeline.tables.part import ROW
from pipeline.tables.sorting import ordered

Direction = Literal["backward", "forward", "nearest"]
Side = Literal["backward", "forward"]
TIME, THERE, PLACE, IS_LEFT = "__time__", "__there__", "__place__", "__is_left__"
FAR = 2**62
NOWHERE = -1


@dataclass(frozen=True)
class Searched:
    """Rows that are looked for, by key and time, and those that may be found as numbers of both, which ascend: `there`.

    A number is a key's own `span` of places for times, of which the first and the last are beyond all of them; times are counted in `unit`
    from `least` to `most`. `places` says which row each number was of; None where all were in order.
    """

    keys: pl.Series
    times: pl.Series
    there: np.ndarray[Any, Any]
    places: pl.Series | None
    least: int
    most: int
    unit: int
    span: int

    @staticmethod
    def of(left: pl.DataFrame, right: pl.DataFrame, by: Sequence[str], asked: str, there: str) -> Searched | None:
        """Of rows with keys and a time, Int64, none missing on the right; None where that does not come to numbers of 62 bits."""
        times = right[there]
        least, most = times.min(), times.max()
        if not isinstance(least, int) or not isinstance(most, int) or least <= -FAR or most >= FAR:
            return None
        unit = max(1, int(np.gcd.reduce(times.to_numpy() - least)))
        span = (most - least) // unit + 3
        keys = KeyNumbers.of(left, right, by, MOST // span)
        if keys is None:
            return None
        numbers = keys.right * span + (times - least) // unit + 1
        found, places = ordered(numbers.fill_null(NOWHERE))
        return Searched(keys.left, left[asked], found.to_numpy(), places, least, most, unit, span)

    def found(self, side: Side, *, exact: bool) -> pl.Series:
        """The place of each row's nearest one on a side; of several of one time the last where it is before, the first where after."""
        known = self.keys.is_not_null() & self.times.is_not_null()
        near = self.times.clip(self.least - 1, self.most + 1) - self.least
        before, after = (near, near) if exact else (near - 1, near + 1)
        number = 1 + (before // self.unit if side == "backward" else -(-after // self.unit))
        wanted = (self.keys * self.span + number.clip(0, self.span - 1)).fill_null(NOWHERE)
        asked, order = ordered(wanted)
        needles = asked.to_numpy()
        place = np.searchsorted(self.there, needles, side="right") - 1 if side == "backward" else np.searchsorted(self.there, needles)
        inside = (place >= 0) & (place < len(self.there))
        place = np.where(inside, place, 0)
        same = inside & (needles >= 0) & (self.there[place] // self.span == needles // self.span)
        found = pl.Series(place) if self.places is None else self.places.gather(place).cast(pl.Int64)
        found = pl.select(pl.when(pl.Series(same)).then(found).otherwise(None)).to_series()
        found = found if order is None else scattered(found, order, len(found))
        return pl.select(pl.when(known).then(found).otherwise(None)).to_series()


@dataclass(frozen=True)
class Search:
    """How a left row's partner is looked for: keys and time of the left, which way, and how far."""

    by: tuple[str, ...]
    time: str
    direction: Direction
    exact: bool
    limit: int | None

    def here(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.Series:
        """The place of each left row's partner on a CPU: by a search among numbers, or where these are too large by Polars' own join."""
        asked = left.select(*self.by, pl.col(self.time).to_physical().cast(pl.Int64).alias(TIME))
        numbers = Searched.of(asked, right, self.by, TIME, THERE)

        def side(side: Side) -> pl.LazyFrame:
            """Places to one side, with both times."""
            if numbers is None:
                return self._joined(left.with_row_index(ROW).lazy(), right.with_row_index(PLACE).lazy(), side)
            places = numbers.found(side, exact=self.exact).alias(PLACE)
            return asked.lazy().select(TIME).with_row_index(ROW).with_columns(places, right[THERE].gather(places).alias(THERE))

        found = self._nearest(side).collect()
        return scattered(found[PLACE].cast(pl.Int64), found[ROW], left.height)

    def places(self, left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
        """Of left rows (by ROW) the PLACE of their partner in `right`, which has PLACE and THERE in order; null, or no row, where none is.

        By what cuDF has: both tables sorted into one.
        """
        return self._nearest(partial(self._seen, left, right))

    def _nearest(self, of: Callable[[Side], pl.LazyFrame]) -> pl.LazyFrame:
        """ROW and PLACE of the partner, by the nearest rows to each side, with both times."""
        if self.direction != "nearest":
            found = of(self.direction)
        else:
            before, after = of("backward"), of("forward")
            both = before.join(after.drop(TIME), on=ROW, how="left", suffix="_after", maintain_order="left")
            back, ahead = pl.col(TIME) - pl.col(THERE), pl.col(f"{THERE}_after") - pl.col(TIME)
            # A distance beyond Int64 wraps round to a negative one, and is farther than any other.
            nearer = pl.col(THERE).is_null() | ((ahead >= 0) & ((back < 0) | (ahead < back)))
            takes = nearer & pl.col(f"{THERE}_after").is_not_null()
            found = both.select(
                ROW, TIME, *(pl.when(takes).then(pl.col(f"{name}_after")).otherwise(pl.col(name)).alias(name) for name in (PLACE, THERE))
            )
        if self.limit is None:
            return found.select(ROW, PLACE)
        far = pl.max_horizontal(pl.col(TIME), pl.col(THERE)) - pl.min_horizontal(pl.col(TIME), pl.col(THERE))
        return found.select(ROW, pl.when((far >= 0) & (far <= self.limit)).then(pl.col(PLACE)).otherwise(None).alias(PLACE))

    def _joined(self, left: pl.LazyFrame, right: pl.LazyFrame, side: Side) -> pl.LazyFrame:
        time = pl.col(self.time).to_physical().cast(pl.Int64)
        asking = left.select(*self.by, time.alias(TIME), ROW).filter(pl.col(TIME).is_not_null()).sort(TIME)
        found = asking.join_asof(
            right.select(*self.by, THERE, PLACE),
            left_on=TIME,
            right_on=THERE,
            by=list(self.by) or None,
            strategy=side,
            allow_exact_matches=self.exact,
            coalesce=False,
            check_sortedness=False,
        )
        return found.select(ROW, TIME, PLACE, THERE)

    def _seen(self, left: pl.LazyFrame, right: pl.LazyFrame, side: Side) -> pl.LazyFrame:
        """Both tables below one another in order, and what was last seen of the right."""
        nothing = pl.lit(None, dtype=pl.Int64)
        time = pl.col(self.time).to_physical().cast(pl.Int64)
        asking = left.select(*self.by, time.alias(TIME), nothing.alias(PLACE), nothing.alias(THERE), ROW, pl.lit(value=True).alias(IS_LEFT))
        row = pl.lit(None, dtype=pl.UInt32)
        answers = right.select(*self.by, pl.col(THERE).alias(TIME), PLACE, THERE, row.alias(ROW), pl.lit(value=False).alias(IS_LEFT))
        last = (side == "backward") == self.exact  # whether a left row comes after right ones of its time
        every = pl.concat([asking, answers]).sort([TIME, IS_LEFT, PLACE], descending=[False, not last, False], nulls_last=True)
        seen = []
        for name in (PLACE, THERE):
            filled = pl.col(name).forward_fill() if side == "backward" else pl.col(name).backward_fill()
            seen.append((filled.over(*self.by) if self.by else filled).alias(name))
        asked = every.with_columns(seen).filter(IS_LEFT).sort(ROW)
        known = pl.col(TIME).is_not_null()
        return asked.select(ROW, TIME, *(pl.when(known).then(pl.col(name)).otherwise(None).alias(name) for name in (PLACE, THERE)))
