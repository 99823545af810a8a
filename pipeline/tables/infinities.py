"""Infinities that a query makes of finite numbers: null, and counted for the stage that made them.

On a CPU they are counted as the rows pass. cuDF runs no function of ours, so on a GPU the count is a query of its own beside the other one;
both share what is below them. What no later stage asks for is not worked out, and so not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from threading import Lock
from zlib import crc32

import polars as pl

from pipeline.backend import frames
from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect
from pipeline.backend.frames import DeviceFrame
from pipeline.sql.expression import Value, finite
from pipeline.sql.scaled import for_a_cpu
from pipeline.tables.counts import ONCE, Count
from pipeline.tables.part import Part

NAME = "infinities"
INFINITIES = {NAME: Count("infinite values that were computed, now missing", aside=True)}
"""The words of what is counted."""

THERE = "__there__"
Place = tuple[str, tuple[int, ...], int]  # a stage, which sources its rows are of, and how often it stood in the query before


class Tally:
    """Counts for one query: of infinities, by the stage that made them. A stage that is computed twice counts once."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._place: Place = ("", (), 0)
        self._places, self._found, self._lock = Counter[tuple[str, tuple[int, ...]]](), Counter[Place](), Lock()
        self._queries: list[tuple[Place, pl.LazyFrame]] = []
        self._sources: dict[tuple[int, ...], Sequence[object]] = {}
        self._after: list[tuple[str, Callable[[], Mapping[str, int]]]] = []

    @property
    def counts(self) -> Mapping[str, int]:
        """What was counted, by `STAGE:infinities@SOURCES`, once where the stage was computed twice; nothing where there was none."""
        counts: dict[str, int] = {}
        for (stage, ids, _), count in self._found.items():
            rows = crc32(" ".join(map(_name_of, self._sources[ids])).encode()) if count else 0
            name = f"{stage}:{NAME}{ONCE}{rows:08x}"
            counts[name] = max(counts.get(name, 0), count)
        return {name: count for name, count in counts.items() if count}

    def enter(self, stage: str, sources: Sequence[object]) -> None:
        """What is taken from here on is of this stage, with rows of these sources."""
        key = (stage, tuple(map(id, sources)))
        self._sources[key[1]] = sources
        self._place = (*key, self._places[key])
        self._places[key] += 1

    def when_run(self, count: Callable[[], Mapping[str, int]]) -> None:
        """Have more counted for the stage that is put together just now, once the query has been run."""
        self._after.append((self._place[0], count))

    def after(self) -> list[dict[str, int]]:
        """What is counted now that the query has been run, by `STAGE:NAME`."""
        return [{f"{stage}:{name}": value for name, value in count().items()} for stage, count in self._after]

    def take(self, rows: pl.LazyFrame, value: Value) -> pl.Expr:
        """The value's expression, which counts on its way; or a query beside that of `rows`."""
        if value.infinite is None:
            return value.expr
        if self.backend != "cpu":
            name = f"{THERE}{len(self._queries)}"
            self._queries.append((self._place, rows.select(value.infinite.sum().cast(pl.Int64).alias(name))))
            return value.expr
        add = partial(self._add, self._place)
        return pl.map_batches([value.expr, value.infinite], add, return_dtype=value.dtype, is_elementwise=True)

    def _add(self, place: Place, columns: Sequence[pl.Series]) -> pl.Series:
        value, infinite = columns
        if count := int(infinite.sum()):
            with self._lock:
                self._found[place] += count
        return value

    def collect(
        self, query: pl.LazyFrame, *, stays: bool = False, in_memory: bool = False, apart: bool = False
    ) -> pl.DataFrame | DeviceFrame:
        """Run the query, and with it, once, those that count; `stays`: on a GPU, where its answer is left; the others: see `collect`."""
        if not self._queries:
            return frames.collect_there(query) if stays else collect(query, self.backend, in_memory=in_memory, apart=apart)
        queries, self._queries = self._queries, []
        names = [f"{THERE}{number}" for number in range(len(queries))]
        beside = pl.concat([query.with_columns(pl.lit(True).alias(THERE)), *(counted for _, counted in queries)], how="horizontal_extend")
        there = frames.collect_there(beside) if stays else None
        whole = collect(there.lazy().select(names).head(1) if there else beside, self.backend)
        for name, (place, _) in zip(names, queries, strict=True):
            self._found[place] += whole[name][0] or 0
        if there:
            return frames.collect_there(there.lazy().filter(THERE).drop(THERE, *names))
        rows = whole.drop(names)
        return rows.filter(THERE).drop(THERE) if rows[THERE].null_count() else rows.drop(THERE)


def _name_of(source: object) -> str:
    """What tells a source from others, in any task: its files and rows; of a part that is held its height, first and last row."""
    if not isinstance(source, Part):
        return repr(source)
    return f"{source.frame.height} {source.frame.head(1).rows()} {source.frame.tail(1).rows()}"


_current: ContextVar[Tally | None] = ContextVar("tally", default=None)


@contextmanager
def counting(backend: Backend) -> Iterator[Tally]:
    """A tally for the query that is put together inside."""
    tally = Tally(backend)
    token = _current.set(tally)
    try:
        with for_a_cpu(backend == "cpu"):
            yield tally
    finally:
        _current.reset(token)


def tally_here(backend: Backend) -> Tally:
    """The tally of the query that is put together here, or one of its own."""
    return _current.get() or Tally(backend)


def on_a_cpu() -> Tally | None:
    """The tally of the query that is put together here for a CPU, whose rows a function of ours can see pass; else None."""
    tally = _current.get()
    return tally if tally is not None and tally.backend == "cpu" else None


def enter(stage: str, sources: Sequence[object]) -> None:
    """What a query computes from here on is of this stage, with rows of these sources."""
    if tally := _current.get():
        tally.enter(stage, sources)


def counted(rows: pl.LazyFrame, value: Value) -> pl.Expr:
    """The expression of a value on these rows, whose infinities are null, and counted where a query is put together."""
    tally = _current.get()
    return value.expr if tally is None else tally.take(rows, value)


def made_finite(expr: pl.Expr, dtype: pl.DataType) -> Value:
    """Values that may be infinite, or NaN as an infinity makes it, as a value without them."""
    return Value(finite(expr, dtype), dtype, ~expr.is_finite() if dtype.is_float() else None)
