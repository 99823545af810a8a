"""Bring to each row the nearest one of another table by time: the last before it, the next after it, or either."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect
from pipeline.errors import StageError
from pipeline.stage import ColumnName, Context, Outcome, Stage, need_columns, need_keys
from pipeline.stages.relational._nearest import PLACE, THERE, Direction, Search
from pipeline.stages.relational._ordered.groups import By
from pipeline.stages.relational._ordered.spans import need_time, span_of
from pipeline.tables.counts import Count
from pipeline.tables.hot import COPY
from pipeline.tables.names import Order
from pipeline.tables.pairs import apart, moves, together
from pipeline.tables.part import ROW, Part, Schema
from pipeline.tables.table import Table

Pairs = Mapping[str, str]  # left name: right name
FOUND = "__found__"


class AsOf(Stage, name="as_of", version=1):
    """Join to each left row the right row nearest to it in time, among those with its keys; no left row comes twice.

    backward takes the last right row at or before the left one's time, forward the first at or after it, nearest the nearer of both (of two
    equally near the earlier one). Of right rows of one time backward takes the last by all other columns, forward the first. A row whose
    key or time is missing has no partner; without a partner the right's columns are null, or the row is lost (`how: inner`). The right's
    time comes with its columns, under its name and the suffix where the left has that name. The left's order stays; where several workers
    exchange rows, order returns only with a sort. Without `by` the right table goes whole to every part of the left.

    Example: {use: as_of, from: {left: trades, right: quotes}, as: priced, by: symbol, on: time, direction: backward, tolerance: 5m}
    """

    roles: ClassVar[tuple[str, ...]] = ("left", "right")
    counts: ClassVar[Mapping[str, Count]] = {
        "matched": Count("rows with a partner"),
        "lost": Count("rows without a partner", always=True),
    }

    on: ColumnName | dict[ColumnName, ColumnName] = Field(
        description="The column of times or whole numbers; {left name: right name} where they are named differently."
    )
    by: By | dict[ColumnName, ColumnName] = Field((), description="Keys that are equal; {left name: right name} where named differently.")
    direction: Direction = Field("backward", description="Which right row: the last before, the next after, or the nearer one.")
    tolerance: str | None = Field(None, description="How far it may be at most: 5m, 1d, or a whole number for a column of numbers.")
    exact: bool = Field(True, description="Whether a right row of the same time counts.")
    how: Literal["left", "inner"] = Field("left", description="Whether left rows without a partner are kept.")
    suffix: str = Field("_right", min_length=1, description="Added to the name of a right column that the left has too.")

    @property
    def _on(self) -> Pairs:
        return self.on if isinstance(self.on, Mapping) else {self.on: self.on}

    @property
    def _by(self) -> Pairs:
        return self.by if isinstance(self.by, Mapping) else {name: name for name in self.by}

    def plan(self, schemas: Mapping[str, Schema], context: Context) -> dict[str, Schema]:
        """Schemas by a join of empty frames. Raises StageError where columns are missing or differ in type, or names clash."""
        left, right = schemas["left"], schemas["right"]
        if len(self._on) != 1:
            raise StageError(f"on names {len(self._on)} columns, and rows are nearest by one. Give keys in by.", key="on")
        for key, pairs in (("on", self._on), ("by", self._by)):
            need_columns(left, pairs, "left", key=key)
            need_columns(right, pairs.values(), "right", key=key)
            for a, b in pairs.items():
                if left.columns[a] != right.columns[b]:
                    types = f"{a!r} is {left.columns[a]} on the left and {b!r} is {right.columns[b]} on the right"
                    raise StageError(f"{types}. Cast one of them before.", key=key)
        need_keys(left, self._by, key="by")
        ((time, _),) = self._on.items()
        need_time(time, left.columns[time], key="on")
        if self.tolerance is not None:
            span_of(self.tolerance, time, left.columns[time], key="tolerance")
        names = [*left.columns, *self._added(left.columns, right.columns).values()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise StageError(f"the result would have two columns {twice[0]!r}. Give another suffix, or rename one before.", key="suffix")
        return super().plan(schemas, context)

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """Of the left what is wanted, keys, time, and names that the right has too; all of the right, which orders rows of one time."""
        left, right = schemas["left"].columns, schemas["right"].columns
        return {"left": {*wanted.union(right).intersection(left), *self._by, *self._on}, "right": right.names()}

    def _added(self, left: pl.Schema, right: pl.Schema) -> dict[str, str]:
        """The right's columns that come to the left's, and their names there."""
        return {name: f"{name}{self.suffix}" if name in left else name for name in right if name not in self._by.values()}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A right table of one part, or without keys, goes to every part of the left; else rows with equal keys come together.

        Left rows of hot keys are spread over the parts, and the right's of these keys stand in all of them.
        """
        left, right = tables["left"].named(context.name), tables["right"].named(context.name)
        assert left.schema is not None
        assert right.schema is not None
        ((time, other),) = self._on.items()
        dtype = left.schema.columns[time]
        limit = None if self.tolerance is None else span_of(self.tolerance, time, dtype, key="tolerance")
        added = self._added(left.schema.columns, right.schema.columns)
        search = Search(tuple(self._by), time, self.direction, exact=self.exact, limit=limit)
        keys = {b: a for a, b in self._by.items()}
        moved = frozenset({*right.schema.columns, *keys.values(), *added.values()}) - {name for name in keys if keys[name] == name}
        right = right.map(_prepared, keys, other, added, writes=moved)
        work = PartAsOf(search, self.how, tuple(added.values()), context.session.backend)
        writes = frozenset(added.values())
        if len(right.blocks) == 1 or not self.by:
            whole = right.gather().map(_sorted, tuple(self._by))
            found = left.map_parts(work, whole.value(), writes=writes)
            return Outcome({"": replace(found, fitted=left.fitted + right.fitted)})
        by = tuple(self._by)
        left, right, _ = apart(left, right, by, (True, False)) if moves(left, right, by) else (*together(left, right, by), 0)
        return Outcome({"": left.zip_parts(right.map(_sorted, tuple(self._by)), work, writes=writes)})


def _prepared(rows: pl.LazyFrame, keys: dict[str, str], time: str, added: dict[str, str]) -> pl.LazyFrame:
    """The right's rows that can be found, under the names that they get; THERE is their time."""
    place = pl.col(time).to_physical().cast(pl.Int64).alias(THERE)
    named = rows.select(*(pl.col(name).alias(new) for name, new in keys.items()), place, *(pl.col(a).alias(b) for a, b in added.items()))
    return named.drop_nulls([*keys.values(), THERE])


def _sorted(rows: pl.LazyFrame, by: tuple[str, ...]) -> pl.LazyFrame:
    """Those of whole keys by time, then by all other columns."""
    rows = rows.drop(COPY, strict=False)
    others = [name for name, dtype in rows.collect_schema().items() if name not in {THERE, *by} and not dtype.is_nested()]
    return Order([THERE, *others]).sort(rows)


@dataclass(frozen=True)
class PartAsOf:
    """The join of two parts, the right one prepared."""

    search: Search
    how: str
    added: tuple[str, ...]
    backend: Backend

    def __call__(self, left: Part, right: Part) -> Part:
        """The joined part with its counts."""
        if self.backend == "cpu":
            return self._here(left, right.frame)
        rows = left.frame.with_row_index(ROW).lazy()
        others = right.frame.with_row_index(PLACE).with_columns(pl.col(PLACE).cast(pl.Int64)).lazy()
        asking = rows.select(*dict.fromkeys((*self.search.by, self.search.time)), ROW)
        places = self.search.places(asking, others)
        columns = others.select(PLACE, *self.added).with_columns(pl.lit(value=True).alias(FOUND))
        joined = rows.join(places, on=ROW, how="left", maintain_order="left").join(columns, on=PLACE, how="left", maintain_order="left")
        if self.how == "inner":
            joined = joined.filter(pl.col(FOUND).is_not_null())
        found = collect(joined.drop(PLACE), self.backend)
        matched = found[FOUND].count()
        counts = {"matched": matched, "lost": left.frame.height - matched}
        return replace(left.with_frame(found.drop(FOUND)), counts=counts)

    def _here(self, left: Part, right: pl.DataFrame) -> Part:
        """The same on a CPU: the left's columns stay where they are, and the right's come to them."""
        places = self.search.here(left.frame, right)
        found = left.frame.with_row_index(ROW).hstack(right.select(pl.col(self.added).gather(places)))
        lost = places.null_count()
        if self.how == "inner" and lost:
            found = found.filter(places.is_not_null())
        return replace(left.with_frame(found), counts={"matched": left.rows - lost, "lost": lost})
