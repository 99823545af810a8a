"""What quantiles need of very many values: those that the ranks asked for fall on, with as many beside them as lie in the same cell.

Cells lie between values of a sample. All parts count theirs; the values of those cells alone in which a rank lies then come together, and
of every other one that is known is how many it has. No value is approximated: ranks are found by counts of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.tables.part import Part
from pipeline.tables.steps import Step
from pipeline.tables.table import Table

WHOLE = {pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64}
CELLS = 1 << 10
"""Of each series."""
Values = NDArray[Any]


@dataclass(frozen=True)
class Counted:
    """Columns of a frame with values, and with how many rows each has; a series for each value of `of`, if that is given."""

    value: str
    rows: str
    of: str | None = None

    def series(self, frame: pl.DataFrame) -> Iterator[tuple[Any, pl.DataFrame]]:
        """The values of each series, with their rows: `of`'s value (or None), and these columns; none of no values."""
        there = frame.drop_nulls(self.value)
        if self.of is None:
            if there.height:
                yield None, there
            return
        for (of,), found in there.group_by(self.of):
            yield of, found


@dataclass(frozen=True)
class Wanted:
    """The shares of the quantiles that are asked for."""

    shares: tuple[float, ...]

    def ranks(self, count: int) -> list[int]:
        """Of so many values the ranks, from 0, on both sides of (n - 1) q."""
        places = [(count - 1) * share for share in self.shares]
        return sorted({rank for place in places for rank in (int(place), int(place) + 1, round(place)) if rank < count})


Cuts = dict[tuple[str, Any], Values]
"""By the column of values and what `of` is: the values that cells end with, in order."""


def with_ranks(table: Table, counted: Sequence[Counted], wanted: Wanted, *, again: bool = False) -> Table:
    """All rows of a table of counts as one part, but that cells without one of these ranks are one row each, whose value is their greatest.

    The parts are computed once and held, or (`again`) for each of three passes. Rows without a value, and values that are neither integers
    of up to 64 bits nor floats, stay as they are.
    """
    session, held = table.session, table if again else table.hold()
    cuts = session.submit(_cuts, held.reduce(_sampled, _joined, counted), stage=table.stage)
    cells = session.submit(_wanted, cuts, held.reduce(_heights, _added, counted, cuts), wanted, stage=table.stage)
    whole = held.reduce(_kept, partial(_stacked, counted), counted, cells)
    return Table(session, table.stage, (Step("read", table.stage, source=whole),), written=None, fitted=table.fitted)


def _known(frame: pl.DataFrame, counted: Sequence[Counted]) -> list[Counted]:
    """Those whose values are of a type that NumPy puts in order as Polars does; all others come together."""
    return [one for one in counted if frame.schema[one.value].is_float() or frame.schema[one.value] in WHOLE]


def _sampled(part: Part, counted: Sequence[Counted]) -> Cuts:
    """Of each series the values at CELLS places among its rows, evenly spaced."""
    found = Cuts()
    for one in _known(part.frame, counted):
        for of, rows in one.series(part.frame):
            reached = rows[one.rows].cum_sum().to_numpy()
            places = np.linspace(0, reached[-1] - 1, min(CELLS, int(reached[-1]))).astype(np.int64)
            found[one.value, of] = rows[one.value].to_numpy()[np.searchsorted(reached, places, side="right")]
    return found


def _joined(found: Sequence[Cuts]) -> Cuts:
    names = dict.fromkeys(name for cuts in found for name in cuts)
    return {name: np.sort(np.concatenate([cuts[name] for cuts in found if name in cuts])) for name in names}


def _cuts(sample: Cuts) -> Cuts:
    places = {name: np.linspace(0, len(values) - 1, min(CELLS, len(values))).astype(np.int64) for name, values in sample.items()}
    return {name: np.unique(sample[name][at]) for name, at in places.items()}


def _heights(part: Part, counted: Sequence[Counted], cuts: Cuts) -> Cuts:
    """How many rows each cell has: one between each two cuts, the upper one in it, and one above the last."""
    found = Cuts()
    for one in _known(part.frame, counted):
        for of, rows in one.series(part.frame):
            ends = cuts[one.value, of]
            cells = np.searchsorted(ends, rows[one.value].to_numpy())
            found[one.value, of] = np.bincount(cells, rows[one.rows].to_numpy(), len(ends) + 1).astype(np.int64)
    return found


def _added(found: Sequence[Cuts]) -> Cuts:
    names = dict.fromkeys(name for cells in found for name in cells)
    return {name: np.sum([cells[name] for cells in found if name in cells], axis=0) for name in names}


def _wanted(cuts: Cuts, heights: Cuts, wanted: Wanted) -> dict[tuple[str, Any], tuple[Values, Values]]:
    """Of each series, where cells end, and which of them have one of the ranks; neighbours that have none are one."""
    found = dict[tuple[str, Any], tuple[Values, Values]]()
    for name, cells in heights.items():
        reached = np.cumsum(cells)
        keeps = np.isin(np.arange(len(cells)), np.searchsorted(reached, wanted.ranks(int(reached[-1])), side="right"))
        ends = keeps[:-1] | keeps[1:]
        found[name] = cuts[name][ends], np.append(keeps[:-1][ends], keeps[-1])
    return found


def _kept(part: Part, counted: Sequence[Counted], cells: Mapping[tuple[str, Any], tuple[Values, Values]]) -> pl.DataFrame:
    """The rows of a part: those of cells that are wanted, one for every other cell, and those without a value."""
    counted = _known(part.frame, counted)
    frames = [_without(part.frame, counted)]
    for one in counted:
        for of, rows in one.series(part.frame):
            ends, keeps = cells[one.value, of]
            cell = np.searchsorted(ends, rows[one.value].to_numpy())
            frames.append(rows.filter(pl.Series(keeps[cell])))
            others = pl.DataFrame({"cell": cell, "value": rows[one.value], "rows": rows[one.rows]}).filter(pl.Series(~keeps[cell]))
            added = others.group_by("cell").agg(pl.col("value").max(), pl.col("rows").sum())
            named = {one.value: added["value"], one.rows: added["rows"], **({} if one.of is None else {one.of: [of] * added.height})}
            frames.append(pl.DataFrame(named, schema_overrides={name: part.frame.schema[name] for name in named}))
    return pl.concat(frames, how="diagonal")


def _stacked(counted: Sequence[Counted], found: Sequence[pl.DataFrame | Part]) -> Part:
    """The rows of several parts, each value once."""
    whole = pl.concat([one.frame if isinstance(one, Part) else one for one in found], how="diagonal")
    counted = _known(whole, counted)
    keys = {one.rows: [one.value, *([one.of] if one.of else [])] for one in counted}
    added = [whole.drop_nulls(by[0]).group_by(by).agg(pl.col(rows).sum()) for rows, by in keys.items()]
    return Part(pl.concat([_without(whole, counted), *added], how="diagonal").select(whole.columns))


def _without(frame: pl.DataFrame, counted: Sequence[Counted]) -> pl.DataFrame:
    """The rows that have no such value."""
    return frame.filter(pl.all_horizontal(True, *(pl.col(one.value).is_null() for one in counted)))
