"""The random audit of an aggregate: some groups of a stretch of its rows, computed again in plain Python.

Of many results some are drawn. The stretch is taken out of the rows of one part as they pass through the aggregate's query. It goes through
the very same steps on the same engine (where parts are added up: in three pieces, as parts do), and what comes out for the chosen groups is
compared with `kernels/plain_groups`, which knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import isfinite
from random import Random
from typing import Any

import polars as pl

from pipeline.backend.engines import collect
from pipeline.kernels.plain_groups import Once, computed_again
from pipeline.stages.relational._aggregates.grouped import Grouped
from pipeline.tables.audits import GROUPS, OFF, ROWS, tally
from pipeline.tables.infinities import counting
from pipeline.tables.part import Part
from pipeline.tables.stretch import watched
from pipeline.tables.table import Table

FEW = 3
"""Groups that are drawn, and as many of the largest beside them."""
RESULTS = 8
"""Results that are drawn where there are more: what an audit costs is the planning of their queries."""
PIECES = 3

Query = Callable[[pl.LazyFrame], pl.LazyFrame]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Audit:
    """How an aggregate is audited: what it computes, the seed of what is drawn, and whether its parts are added up."""

    grouped: Grouped
    seed: str
    adds_up: bool = False

    def over(self, rows: Table, function: Query, writes: frozenset[str], *, adds_up: bool = False) -> Table:
        """The map over all parts, one of which is drawn and has its rows watched."""
        table = rows.map(function, writes=writes, whole="groups")
        random = Random(self.seed)
        drawn = random.randrange(len(table.blocks))
        results = random.sample(list(self.grouped.compute), min(RESULTS, len(self.grouped.compute)))
        audit = replace(self, adds_up=adds_up, grouped=self.grouped.of(results))
        blocks = [
            replace(block, function=partial(audit._watch, function)) if at == drawn else block for at, block in enumerate(table.blocks)
        ]
        return replace(table, blocks=tuple(blocks))

    def _watch(self, function: Query, rows: pl.LazyFrame) -> pl.LazyFrame:
        names = self.grouped.read(rows.collect_schema())
        return function(watched(rows, names, self.seed, self.counts))

    def counts(self, rows: pl.DataFrame) -> dict[str, int]:
        """How many results of some rows were computed again, and how many of these are off.

        None where the engine breaks off: sums of decimals that have 38 digits in one order of their rows may have 39 in another.
        """
        try:
            with counting("cpu"):
                valued = collect(self.grouped.valued(rows.lazy()), "cpu")
                results = self.grouped.settled(Part(collect(self._aggregated(rows), "cpu")), []).frame
        except pl.exceptions.ComputeError:
            return {ROWS: rows.height, GROUPS: 0}
        places = dict[Key, list[int]]()
        for place, key in enumerate(_keys(valued, self.grouped)):
            places.setdefault(key, []).append(place)
        found = dict(zip(_keys(results, self.grouped), range(results.height), strict=True))
        chosen = self._chosen(places)
        counts = {ROWS: rows.height, GROUPS: len(chosen)}
        tally(counts, 0.0 if found.keys() == places.keys() and results.height == len(places) else OFF)
        spans, few = _few(valued, [places[key] for key in chosen])
        at = {key: number for number, key in enumerate(key for key in chosen if key in found)}
        results, schema = results[[found[key] for key in at]], valued.schema
        for name, computed in self.grouped.compute.items():
            operands = self.grouped.operands(name, schema)
            if any(schema[column].is_nested() for column in operands.values()):
                continue  # Python's own lists and mappings have no order and no hash
            told = computed.model_dump(include={"q", "interpolation", "ties", "edges"}, exclude_none=True)
            columns = {part: plain(few[column]) for part, column in operands.items()}
            given = plain(results[name])
            for key, span in zip(chosen, spans, strict=True):
                once = computed_again(computed.function, {part: column[span] for part, column in columns.items()}, told)
                if once is not None:
                    tally(counts, apart(given[at[key]], once) if key in at else OFF)
        return counts

    def _aggregated(self, rows: pl.DataFrame) -> pl.LazyFrame:
        if not self.adds_up:
            return self.grouped.apply(rows.lazy())
        pieces = [rows.gather_every(PIECES, first).lazy() for first in range(PIECES)]
        return self.grouped.final(pl.concat([self.grouped.partial(piece) for piece in pieces]))

    def _chosen(self, places: Mapping[Key, list[int]]) -> list[Key]:
        """Some groups at random, and the largest."""
        keys = list(places)
        largest = sorted(keys, key=lambda key: -len(places[key]))[:FEW]
        return list(dict.fromkeys([*largest, *Random(self.seed).sample(keys, min(FEW, len(keys)))]))


def _few(rows: pl.DataFrame, groups: Sequence[list[int]]) -> tuple[list[slice], pl.DataFrame]:
    """The rows of some groups, one group after another, and where each stands: the others need not become Python's own values."""
    ends = list(accumulate(map(len, groups)))
    spans = [slice(end - len(group), end) for end, group in zip(ends, groups, strict=True)]
    return spans, rows[[place for group in groups for place in group]]


def _keys(rows: pl.DataFrame, grouped: Grouped) -> list[Key]:
    """The key of each row."""
    columns = [plain(rows[name]) for name in grouped.by]
    return list(zip(*columns, strict=True)) if columns else [()] * rows.height


def plain(column: pl.Series) -> list[Any]:
    """Values as Python's own: numbers, texts and decimals as they are; times, and words of a list that is known, as their whole numbers."""
    inner = column.dtype.inner if isinstance(column.dtype, pl.List) else column.dtype
    if inner == pl.Categorical:
        column = column.cast(pl.List(pl.String) if isinstance(column.dtype, pl.List) else pl.String)
    elif inner.is_temporal() or inner == pl.Enum:
        column = column.to_physical()
    return column.to_list()


def apart(found: Any, once: Once) -> float:
    """How far a result is from the same computed again, as a share of the values' size."""
    if isinstance(once.value, Fraction) and found is not None:
        found = Fraction(found)
    if found == once.value:
        return 0.0
    if found is None or once.value is None or not once.scale:
        return OFF
    distance = abs(found - once.value) / once.scale
    return distance if isfinite(distance) else OFF
