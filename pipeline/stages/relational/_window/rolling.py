"""The functions over windows that roll: where each row's window begins and ends, and what a kernel finds in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module, to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.kernels.windows import first_from, window_least, window_picks, window_squares, window_sums, window_totals
from pipeline.stages.relational._ordered.groups import AT, END, START
from pipeline.stages.relational._ordered.spans import span_of
from pipeline.stages.relational._window.columns import Column
from pipeline.stages.relational._window.functions import Windowed
from pipeline.tables.infinities import NAME
from pipeline.tables.part import Part

TWO_TO_32 = 2.0**32
LEAST, MOST = -(2**63), 2**63 - 1
STRETCH_ROWS = 131_072
MINE = "__mine__"  # where there are rows of other parts among those of one: which are its own


@dataclass(frozen=True)
class Rolled:
    """Sorted rows with the results of the columns that roll: a step on parts. `places` are the columns that name a row in an error."""

    columns: tuple[Column, ...]
    order: str
    places: tuple[str, ...]
    backend: Backend

    def __call__(self, part: Part) -> Part:
        """The part with the results. Raises DataError for a sum beyond its type."""
        frames = _stretches(part.frame) if self.backend == "cpu" else [part.frame]
        with ThreadPoolExecutor(min(len(frames), pl.thread_pool_size())) as pool:
            results, infinities = zip(*(pool.map if len(frames) > 1 else map)(self._results, frames), strict=True)
        found, infinite = [pl.concat(of_one) for of_one in zip(*results, strict=True)], sum(infinities)
        return Part(part.frame.with_columns(found), part.arrays, {**part.counts, **({NAME: infinite} if infinite else {})})

    def _results(self, frame: pl.DataFrame) -> tuple[list[pl.Series], int]:
        """The results of some rows, whole groups, and how many infinities there were among them."""
        spans = any(column.windowed.span is not None for column in self.columns)
        groups = Groups.of(frame, self.order if spans else None, self.backend)
        found, infinite, windows = [], 0, dict[tuple[Any, ...], Any]()
        mine = to_device(frame[MINE].to_numpy(), self.backend) if MINE in frame.columns else None  # of others' rows nothing is made
        for column in self.columns:
            key = (column.windowed.rows, column.windowed.span, column.windowed.closed, column.windowed.center)
            if key not in windows:
                windows[key] = groups.windows(column.windowed, frame.schema[self.order])
            low, high, known = windows[key]
            series = self._result(column, frame, low, high, known if mine is None else known & mine)
            if series.dtype.is_float():
                finite = pl.select(pl.when(series.is_finite()).then(series).otherwise(None)).to_series()
                infinite += finite.null_count() - series.null_count()
                series = finite
            found.append(series.alias(column.result))
        return found, infinite

    def _result(self, column: Column, frame: pl.DataFrame, low: Any, high: Any, known: Any) -> pl.Series:
        windows = Windows.of(frame[column.value], low, high, self.backend)
        enough = known & (windows.counts >= column.windowed.min_values)
        match column.windowed.taken:
            case "count":
                found = pl.Series(to_host(windows.counts))
                enough = known & (windows.counts >= (column.windowed.min_values if column.windowed.min_values > 1 else 0))
            case "min" | "max":
                found = windows.extremes(least=column.windowed.taken == "min")
            case "sum":
                found, fits = windows.sums()
                self._check(column, frame, to_host(fits | ~enough))
            case "mean":
                found = windows.means()
            case "std" | "var":
                enough = enough & (windows.counts > 1)
                found = windows.spreads(root=column.windowed.taken == "std")
            case _:
                found = windows.quantiles(0.5 if column.windowed.quantile is None else column.windowed.quantile)
        return pl.select(pl.when(pl.Series(to_host(enough))).then(found).otherwise(None)).to_series()

    def _check(self, column: Column, frame: pl.DataFrame, fits: Any) -> None:
        if not fits.all():
            row = frame.row(int(np.flatnonzero(~fits)[0]), named=True)
            place = ", ".join(f"{name} is {row[name]!r}" for name in self.places)
            raise DataError(
                f"a sum of {column.windowed.of} is beyond {column.wide} where {place}. Take cast(... as double) of it, or the mean.",
                key=f"compute.{column.name}",
            )


def _stretches(frame: pl.DataFrame) -> list[pl.DataFrame]:
    """The rows in stretches of whole groups, small enough for a processor's cache where the groups are: each in memory that is there."""
    starts = frame[START].gather_every(STRETCH_ROWS).clip(0).unique(maintain_order=True).to_list() or [0]
    ends = [*starts[1:], frame.height]
    return [frame[first:last] for first, last in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class Groups:
    """Each row's group as int64[n]: its first row, its end, and the end of its rows that have a time; and the times."""

    starts: Any
    ends: Any
    known_ends: Any
    times: Any

    @staticmethod
    def of(frame: pl.DataFrame, order: str | None, backend: Backend) -> Groups:
        """The groups of rows in order, in which rows without a time are last; times where `order` names their column."""
        first = frame[AT].first() or 0
        starts, ends = np.maximum(frame[START].to_numpy() - first, 0), np.minimum(frame[END].to_numpy() + 1 - first, frame.height)
        times = pl.zeros(frame.height, pl.Int64, eager=True) if order is None else frame[order].to_physical().cast(pl.Int64)
        missing = np.concatenate([[0], times.is_null().cum_sum().to_numpy().astype(np.int64)])
        arrays = (starts, ends, ends - (missing[ends] - missing[starts]), times.fill_null(0).to_numpy())
        return Groups(*(to_device(array, backend) for array in arrays))

    def windows(self, windowed: Windowed, dtype: pl.DataType) -> tuple[Any, Any, Any]:
        """Where each row's window begins and ends, and whether it has one."""
        at = array_module(self.starts).arange(len(self.starts))
        without_first, with_last = windowed.closed in {"right", "none"}, windowed.closed in {"right", "both"}
        if windowed.span is None:
            rows = windowed.rows
            later = (rows - 1) // 2 if windowed.center and rows is not None else 0
            first = at * 0 if rows is None else at - rows + without_first + later
            return first.clip(self.starts, self.ends), (at + with_last + later).clip(self.starts, self.ends), at >= 0
        known = at < self.known_ends
        span = span_of(windowed.span, "", dtype, key="span")
        later = span // 2 if windowed.center else 0
        first, last = self.times - (span - later), self.times + later
        first[first > self.times], last[last < self.times] = LEAST, MOST
        low = first_from(self.times, self.starts, self.known_ends, first, after=without_first)
        high = first_from(self.times, self.starts, self.known_ends, last, after=with_last)
        return low * known, high * known, known


@dataclass(frozen=True)
class Windows:
    """Windows over the values that are not null: `low` and `high` count those alone."""

    values: pl.Series
    low: Any
    high: Any
    backend: Backend

    @staticmethod
    def of(values: pl.Series, low: Any, high: Any, backend: Backend) -> Windows:
        """Windows over rows as windows over their values."""
        before = np.concatenate([[0], values.is_not_null().cum_sum().to_numpy().astype(np.int64)])
        known = to_device(before, backend)
        return Windows(values.drop_nulls(), known[low], known[high], backend)

    @property
    def counts(self) -> Any:
        """How many values each window has."""
        return self.high - self.low

    def _floats(self) -> Any:
        return to_device(self.values.cast(pl.Float64).to_numpy(), self.backend)

    def _ranks(self) -> tuple[pl.Series, Any]:
        """The values in order, and the place of each among them."""
        order = self.values.arg_sort()
        ranks = np.empty(len(order), np.int64)
        ranks[order.to_numpy()] = np.arange(len(order))
        return self.values.gather(order), to_device(ranks, self.backend)

    def sums(self) -> tuple[pl.Series, Any]:
        """The sums, and whether each is within its type."""
        every = self.low == self.low
        if isinstance(self.values.dtype, pl.Decimal):
            running = pl.concat([pl.zeros(1, self.values.dtype, eager=True), self.values.cum_sum()])
            return running.gather(to_host(self.high)) - running.gather(to_host(self.low)), every
        if self.values.dtype.is_float():
            return pl.Series(to_host(window_sums(self._floats(), self.low, self.high))), every
        upper, lower = self._totals()
        unsigned = self.values.dtype == pl.UInt64
        least, most = (0, 2**32 - 1) if unsigned else (-(2**31), 2**31 - 1)
        total = upper.astype(np.uint64 if unsigned else np.int64) << 32
        return pl.Series(to_host(total + lower.astype(total.dtype))), (upper >= least) & (upper <= most)

    def _totals(self) -> tuple[Any, Any]:
        return window_totals(to_device(self.values.to_numpy(), self.backend), self.low, self.high)

    def means(self) -> pl.Series:
        """The means, float64."""
        if self.values.dtype.is_integer():
            upper, lower = self._totals()
            sums = upper.astype(np.float64) * TWO_TO_32 + lower
        else:
            sums = window_sums(self._floats(), self.low, self.high)
        return pl.Series(to_host(sums / self.counts.clip(1, None)))

    def spreads(self, *, root: bool) -> pl.Series:
        """Variances of samples (n - 1), or standard deviations."""
        squares = window_squares(self._floats(), self.low, self.high) / (self.counts - 1).clip(1, None)
        return pl.Series(to_host(np.sqrt(squares) if root else squares))

    def extremes(self, *, least: bool) -> pl.Series:
        """The least values, or the greatest, of any type that has an order."""
        ordered, ranks = self._ranks()
        found = window_least(ranks if least else -ranks, self.low, self.high)
        return self._gathered(ordered, found if least else -found)

    def quantiles(self, share: float) -> pl.Series:
        """The values at that share of the way from the least to the greatest, on the line between two."""
        ordered, ranks = self._ranks()
        place = (self.counts - 1).clip(0, None) * share
        first = np.floor(place).astype(np.int64)
        values = []
        for nth in (first, first + (place > first)):
            picked = self._gathered(ordered, window_picks(ranks, self.low, self.high, nth))
            values.append(picked.cast(pl.Float64))
        part = pl.Series(to_host(place - first))
        return pl.select(pl.when(values[0] == values[1]).then(values[0]).otherwise(values[0] * (1 - part) + values[1] * part)).to_series()

    def _gathered(self, ordered: pl.Series, places: Any) -> pl.Series:
        """The values at those places; null for places beyond them, which are of empty windows."""
        found = to_host(places)
        inside = (found >= 0) & (found < len(ordered))
        if not len(ordered):
            return pl.Series([None] * len(found), dtype=ordered.dtype)
        return ordered.gather(np.where(inside, found, 0))
