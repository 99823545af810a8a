"""What running functions carry from one part to the next: of a group as far as it has come, a frame of one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from pipeline.stages.relational._ordered.ends import one_of
from pipeline.stages.relational._ordered.groups import END, START
from pipeline.stages.relational._window.columns import Column
from pipeline.stages.relational._window.functions import ADDING
from pipeline.stages.relational._window.queries import DENSE, running
from pipeline.tables.infinities import counted, made_finite

EXTREMES, SPREADS = {"cum_min", "cum_max"}, {"cum_std", "cum_var"}
RUNNING = ADDING | EXTREMES | SPREADS | {"dense_rank", "first"}


def state_of(columns: Sequence[Column]) -> list[pl.Expr]:
    """Of a group's rows in order, with what stands aside of them: sums, how many orders, extremes, spreads, first values."""
    found = [pl.col(name).last() for name in _counts(columns)]
    for column in columns:
        value, function = pl.col(column.value), column.windowed.function
        if function in EXTREMES:
            found.append((value.min() if function == "cum_min" else value.max()).alias(column.aside("extreme")))
        elif function in SPREADS:
            named = {"known": value.count().cast(pl.Float64), "middle": value.mean(), "squares": value.var(ddof=0) * value.count()}
            found += [expr.fill_null(0.0).alias(column.aside(name)) for name, expr in named.items()]
        elif function == "first":
            found.append(value.first().alias(column.aside("first")))
    return found


@dataclass(frozen=True)
class Before:
    """What came before some rows of a group: its state, and whether the last row of it and the first of them tie in the order."""

    state: pl.DataFrame
    columns: Sequence[Column]
    tied: bool

    def joined(self, own: pl.DataFrame) -> pl.DataFrame:
        """The state with that of the rows themselves."""
        found = dict(self._counted())
        for column in self.columns:
            function = column.windowed.function
            if function in EXTREMES:
                found[column.aside("extreme")] = self._extreme(column, pl.col(column.aside("extreme")))
            elif function in SPREADS:
                count, middle, squares = (pl.col(column.aside(name)) for name in ("known", "middle", "squares"))
                known, whole = self._of(column, "known"), self._squares(column, count, middle - self._of(column, "middle"), squares)
                found[column.aside("middle")] = (count * middle + known * self._of(column, "middle")) / _at_least_one(count + known)
                found |= {column.aside("known"): count + known, column.aside("squares"): whole}
            elif function == "first":
                found[column.aside("first")] = self._of(column, "first")
        return own.with_columns(expr.alias(name) for name, expr in found.items())

    def asides(self) -> list[pl.Expr]:
        """What stands aside of the rows; those of the group that goes on are told by their START."""
        return [_of_these(expr, pl.col(name)).alias(name) for name, expr in self._counted().items()]

    def ends(self) -> list[pl.Expr]:
        """The first values, of what is the first in the part."""
        firsts = [column for column in self.columns if column.windowed.function == "first"]
        return [_of_these(self._of(column, "first"), pl.col(column.result)).alias(column.result) for column in firsts]

    def run(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows with the running extremes and spreads, which they have as if nothing came before."""
        found = list[pl.Expr]()
        for column in self.columns:
            function, result = column.windowed.function, pl.col(column.result)
            if function in EXTREMES:
                found.append(_of_these(self._extreme(column, result), result).alias(column.result))
            elif function in SPREADS:
                spread = counted(rows, made_finite(_of_these(self._spread(column), result), pl.Float64()))
                found.append(spread.alias(column.result))
        return rows.with_columns(found)

    def _of(self, column: Column, what: str) -> pl.Expr:
        return one_of(self.state, column.aside(what))

    def _counted(self) -> Mapping[str, pl.Expr]:
        """Sums, as wide as they are, and how many orders there are: of these rows and those before."""
        names = _counts(self.columns)
        found = {name: (pl.col(name) + one_of(self.state, name)).cast(self.state.schema[name]) for name in names}
        return found | {name: found[name] - 1 for name in names if name == DENSE and self.tied}

    def _extreme(self, column: Column, own: pl.Expr) -> pl.Expr:
        before = self._of(column, "extreme")
        farther = before < own if column.windowed.function == "cum_min" else before > own
        return pl.when(own.is_null() | farther).then(before).otherwise(own)

    def _squares(self, column: Column, count: pl.Expr, apart: pl.Expr, squares: pl.Expr) -> pl.Expr:
        """Of all values the sum of squares about their mean (Chan, Golub & LeVeque 1983, Am Stat 37:242-247), `apart` are both means."""
        known = self._of(column, "known")
        return self._of(column, "squares") + squares + apart**2 * (count * known / _at_least_one(count + known))

    def _spread(self, column: Column) -> pl.Expr:
        """The spread up to each row of the group, which is the part's first."""
        value, root, own = pl.col(column.value), column.windowed.function == "cum_std", pl.col(column.result)
        count = value.is_not_null().cum_sum().cast(pl.Float64)
        apart = (value - self._of(column, "middle")).fill_null(0.0).cum_sum() / _at_least_one(count)
        squares = pl.when(count > 1).then((own**2 if root else own) * (count - 1)).otherwise(0.0)
        others = count + self._of(column, "known") - 1
        found = pl.when(others > 0).then(self._squares(column, count, apart, squares) / others).otherwise(None)
        return found.sqrt() if root else found


class Edge(NamedTuple):
    """The ends of a part of so many rows: those that others look at, its first and its last row; of the first one's group how many rows
    there are and the last values; of the last one's group how many there are, how many tie with the last, and what they carry."""

    rows: int
    head: pl.DataFrame
    tail: pl.DataFrame
    first: pl.DataFrame
    last: pl.DataFrame
    leading: int
    lasts: pl.DataFrame
    group: int
    tied: int
    state: pl.DataFrame


class Carry(NamedTuple):
    """What lies around a part: before it so many rows of its first row's group, so many that tie with it, and what they carry; behind it
    so many of its last row's group, and the last values of it; and neighbours' rows."""

    rows: int = 0
    tied: int = 0
    state: pl.DataFrame = pl.DataFrame()
    later: int = 0
    lasts: pl.DataFrame = pl.DataFrame()
    before: pl.DataFrame = pl.DataFrame()
    after: pl.DataFrame = pl.DataFrame()

    def goes_on(self, columns: Sequence[Column]) -> Before:
        """What the first rows of the part go on from."""
        return Before(self.state, columns, self.tied > 0)

    def ends(self, columns: Sequence[Column]) -> list[pl.Expr]:
        """The first and the last values of groups whose first row, or last row, lies in another part."""
        lasts = [column for column in columns if column.windowed.function == "last"] if self.later else []
        behind = pl.col(END) >= pl.len()
        found = [pl.when(behind).then(one_of(self.lasts, column.value)).otherwise(pl.col(column.result)) for column in lasts]
        named = [expr.alias(column.result) for expr, column in zip(found, lasts, strict=True)]
        return [*(self.goes_on(columns).ends() if self.rows else []), *named]


def _counts(columns: Sequence[Column]) -> list[str]:
    """What stands aside of rows and adds up."""
    sums = [column.aside(part) for column in columns if column.windowed.function in ADDING for part in running(column)]
    return [*sums, *({DENSE} if any(column.windowed.function == "dense_rank" for column in columns) else ())]


def _of_these(expr: pl.Expr, otherwise: pl.Expr) -> pl.Expr:
    return pl.when(pl.col(START) < 0).then(expr).otherwise(otherwise)


def _at_least_one(count: pl.Expr) -> pl.Expr:
    return pl.max_horizontal(count, 1.0)
