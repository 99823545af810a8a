"""Bring the columns of two tables together by their keys, or by a condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.sql.expression import Sql, check_condition
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Stage, need_columns
from pipeline.stages.relational._part_join import How, PartJoin, Validate
from pipeline.tables.counts import Count
from pipeline.tables.foreseen import fewer, multiplied
from pipeline.tables.pairs import apart, moves, small, together
from pipeline.tables.part import Schema
from pipeline.tables.table import Table
from pipeline.tables.told import Origin

COPIED_BYTES = 64 << 20  # a table up to this size goes to every worker: it costs less than to send the rows of both


class Join(Stage, name="join", version=1):
    """Join two tables where their keys are equal, or where a condition holds; a missing key equals nothing.

    inner keeps the left rows that match, left all of them (with nulls), right all of the right's, full those of both, cross pairs each with
    each; semi keeps those that match and anti those that do not, both without the right's columns. The result has the left's columns, then
    the right's others. `where` is a condition on a pair of rows, beside the keys or in their place (a range: from_day <= day and
    day < to_day), by the names that the columns have in the result; a row whose pairs all fail it has no match.

    The run record counts rows: `matched` and `lost` of the left with and without a match (of the right where how is right), `multiplied`
    those that second matches add; of full `added`, the right's without a match. The left's order stays (the right's where how is right;
    full puts the right's others last). A left genotype table keeps its calls.

    Over several workers a right table of up to 64 MiB (the left where how is right) goes to all of them, or the rows of both are exchanged
    by their keys: `method` says which, the run record what was done. Order then returns only with a sort. A key of very many rows of one
    table is spread over the workers, and the other's rows of it go to all of them. (Of the right only for inner, left, right and full
    without `where`; not where `validate` asks that table's keys to be unique, nor of full with `where`.)

    Example: {use: join, from: {left: loans, right: per_loan}, as: joined, on: loan_id, how: inner, validate: one_to_one}
    """

    roles: ClassVar[tuple[str, ...]] = ("left", "right")
    counts: ClassVar[Mapping[str, Count]] = {
        "matched": Count("rows with a partner"),
        "multiplied": Count("more rows by several partners", always=True),
        "lost": Count("rows without a partner", always=True),
        "added": Count("rows of the right without a partner", always=True),
        "copied": Count("parts joined with a copy of a whole table", aside=True),
        "exchanged": Count("parts whose rows were exchanged by key", aside=True),
        "hot_keys": Count("keys of very many rows, spread over the parts", aside=True),
    }

    on: ColumnNames | dict[ColumnName, ColumnName] = Field(
        (), description="Key columns; {left name: right name} where they are named differently."
    )
    how: How = Field("inner", description="Which rows are kept, and whether the right's columns come to them.")
    where: Sql | None = Field(None, min_length=1, description="SQL condition on the columns of a pair of rows.")
    suffix: str = Field("_right", min_length=1, description="Added to the name of a right column that the left has too.")
    validate_keys: Validate | None = Field(None, alias="validate", description="Stop where a key that must be unique on a side is not.")
    method: Literal["auto", "broadcast", "exchange"] = Field(
        "auto", description="Over several workers: a copy of one table for each of them, rows exchanged by key, or what its size says."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.how == "cross" and (self.on or self.where):
            raise ValueError("cross pairs each row with each: leave out `on` and `where`, or take inner")
        if self.how != "cross" and not self.on and self.where is None:
            raise ValueError("give `on`, the keys, or `where`, a condition; each row with each is how: cross")
        if self.validate_keys and not self.on:
            raise ValueError("validate is of keys, and there is no `on`")
        if self.method == "exchange" and not self.on:
            raise ValueError("method: exchange is by keys, and there is no `on`")
        if self.method == "broadcast" and not self._may_copy:
            what = "full keeps the rows of both" if self.how == "full" else f"validate: {self.validate_keys} looks at whole keys"
            raise ValueError(f"method: broadcast cannot be: {what}")
        return self

    @property
    def pairs(self) -> dict[str, str]:
        """Left name of each key: its right name."""
        return dict(self.on) if isinstance(self.on, Mapping) else {name: name for name in self.on}

    @property
    def _may_copy(self) -> bool:
        """Whether a copy of one table may meet the other's parts one by one."""
        unique = {"one_to_one", "many_to_one" if self.how == "right" else "one_to_many"}
        return self.how != "full" and self.validate_keys not in unique

    @property
    def _may_multiply(self) -> bool:
        """Whether rows of the table whose rows are kept may have several partners, and all pairs come of them."""
        unique = {"one_to_one", "one_to_many" if self.how == "right" else "many_to_one"}
        return self.how not in {"semi", "anti"} and self.validate_keys not in unique

    def plan(self, schemas: Mapping[str, Schema], context: Context) -> dict[str, Schema]:
        """Schemas by a join of empty frames. Raises StageError where keys are missing or differ in type, or names clash."""
        left, right = schemas["left"], schemas["right"]
        need_columns(left, self.pairs, "left", key="on")
        need_columns(right, self.pairs.values(), "right", key="on")
        for a, b in self.pairs.items():
            one, other = left.columns[a], right.columns[b]
            if one != other:
                raise StageError(f"key {a!r} is {one} on the left and {b!r} is {other} on the right. Cast one of them before.", key="on")
            if one.is_float():
                raise StageError(
                    f"key {a!r} is {one}, and a fraction is no key. Round it and cast it to an integer on both sides.", key="on"
                )
        if left.arrays and self.how in {"right", "full"}:
            raise StageError(
                f"the left is a genotype table, whose rows {self.how} would add to. Take inner, left, semi or anti.", key="how"
            )
        if self.how not in {"semi", "anti"} or self.where:
            names = [
                *left.columns,
                *(new for old, new in self._names(left.columns, right.columns).items() if old not in self.pairs.values()),
            ]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise StageError(
                    f"the result would have two columns {twice[0]!r}. Give another suffix, or rename one of them before.", key="suffix"
                )
        return super().plan(schemas, context)

    def origins(self, schemas: Mapping[str, Schema]) -> tuple[Mapping[str, Sequence[Origin]], Sequence[Origin]]:
        """The left's columns and the right's, keys from both; rows by the keys, and by all that a condition may name."""
        left, right = schemas["left"].columns, schemas["right"].columns
        found: dict[str, list[Origin]] = {name: [("left", name)] for name in left}
        if self.how not in {"semi", "anti"}:
            for old, new in self._names(left, right).items():
                found.setdefault(new, []).append(("right", old))
        rows = [("left", name) for name in self.pairs] + [("right", name) for name in self.pairs.values()]
        return found, rows if self.where is None else [*(("left", name) for name in left), *(("right", name) for name in right)]

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """The keys, and what is wanted or in the condition; of a right column with a suffix the left one, too, that it has it for."""
        left, right = schemas["left"].columns, schemas["right"].columns
        names = self._names(left, right)
        others = {old: new for old, new in names.items() if old not in self.pairs.values()}
        if self.where is not None:
            both = pl.Schema({**left, **{new: right[old] for old, new in others.items()}})
            wanted = wanted.union(check_condition(self.where, both).roots)
        read = {old for old, new in others.items() if new in wanted}
        same = {old for old in read if old in left}
        return {"left": {*self.pairs, *same, *wanted.intersection(left)}, "right": {*self.pairs.values(), *read}}

    def _names(self, left: pl.Schema, right: pl.Schema) -> dict[str, str]:
        """The right's columns by what they are called in the result: keys as on the left, the suffix where the left has such a name."""
        keys = {b: a for a, b in self.pairs.items()}
        return {name: keys.get(name) or (f"{name}{self.suffix}" if name in left else name) for name in right}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Parts of one table with a copy of the other, or rows with equal keys together, pair by pair of parts."""
        left, right = fewer(tables["left"].named(context.name)), fewer(tables["right"].named(context.name))
        assert left.schema is not None
        assert right.schema is not None
        most, names = self._most_rows(left, right), self._names(left.schema.columns, right.schema.columns)
        if self.how in {"semi", "anti"} and self.where is None:
            names = {old: new for old, new in names.items() if old in self.pairs.values()}
        if dict(zip(right.schema.columns, right.schema.columns, strict=True)) != names:
            moved = {name for pair in names.items() if pair[0] != pair[1] for name in pair}
            right = right.map(_renamed, names, writes=frozenset(moved))
        added = () if self.how in {"semi", "anti"} else tuple(name for name in names.values() if name not in self.pairs)
        columns = (*left.schema.columns, *added)
        work = PartJoin(tuple(self.pairs), self.how, self.where, columns, self.validate_keys, context.session.backend)
        first, second = (right, left) if self.how == "right" else (left, right)
        writes = None if self.how in {"right", "full"} else frozenset(added)
        if work.on and self._may_multiply:
            first, second = multiplied(first, second, work.on, most)
        table = self._joined(first, second, work, writes)
        return Outcome({"": table if most is None or table.size is None else replace(table, size=replace(table.size, rows=most))})

    def most_rows(self, rows: Mapping[str, int], unique: Mapping[str, Collection[str]]) -> int | None:
        """The pairs: as many as one table has rows, where keys name a row of the other; and the rows without a partner that are kept."""
        if self.how in {"semi", "anti"}:
            return rows["left"]
        one = {"left": bool(unique["right"]) and {*unique["right"]} <= {*self.pairs.values()}}
        one["right"] = bool(unique["left"]) and {*unique["left"]} <= self.pairs.keys()
        kept = {"left": {"left"}, "right": {"right"}, "full": {"left", "right"}}.get(self.how, set[str]())
        return min((sum(rows[it] for it in kept | {side}) for side in one if one[side]), default=None)

    def _most_rows(self, left: Table, right: Table) -> int | None:
        """The same of tables that are there; None where nobody knows how large they are."""
        if left.size is None or right.size is None:
            return None
        return self.most_rows({"left": left.size.rows, "right": right.size.rows}, {"left": left.unique, "right": right.unique})

    def _joined(self, first: Table, second: Table, work: PartJoin, writes: frozenset[str] | None) -> Table:
        many = first.is_apart or second.is_apart
        second, copies = self._copies(first, second, work.on)
        if copies:
            work = replace(work, noted={"copied": 1} if many else {}, shared=len(first.blocks) > 1)
            found = first.map_parts(work, second.value(), writes=writes)
            return replace(found, fitted=first.fitted + second.fitted)
        if not work.on:
            first, second = first.gather(), second.gather()
        elif many and moves(first, second, work.on):
            first, second, hot = self._exchanged(first, second, work.on)
            work = replace(work, noted={"exchanged": 1, **({"hot_keys@keys": hot} if hot else {})})
        else:
            first, second = together(first, second, work.on)
        return first.zip_parts(second, work, writes=writes)

    def _copies(self, first: Table, second: Table, on: tuple[str, ...]) -> tuple[Table, bool]:
        """The second table, and whether each part of the first shall meet all of it."""
        if not self._may_copy or self.method == "exchange":
            return second, False
        large = first.is_beyond and second.size is not None and second.size.bytes > COPIED_BYTES and bool(on)
        if self.method == "auto" and first.session.budget and first.stage in first.session.budget.foreseen:
            return second, False  # what comes of each part would be as large as before
        if (len(second.blocks) == 1 < len(first.blocks) and not large) or not on or self.method == "broadcast":
            return second, True
        if not moves(first, second, on) or (second.is_beyond and second.as_read):
            return second, False
        return small(second, COPIED_BYTES)

    def _exchanged(self, first: Table, second: Table, on: tuple[str, ...]) -> tuple[Table, Table, int]:
        """Rows by the hash of their keys, those of hot keys spread where no row's answer needs whole keys."""
        unique = self.validate_keys or ""
        sides = unique.split("_to_")[:: -1 if self.how == "right" else 1] if unique else ["many", "many"]
        whole = self.where is not None and self.how == "full"
        if self.how in {"semi", "anti"} and not self.where and not unique:
            second = second.map(_once, writes=frozenset())
        copied = self.how in {"semi", "anti"} or self.where is not None or bool(first.axes)
        return apart(first, second, on, (sides[0] == "many" and not whole, sides[1] == "many" and not copied))


def _renamed(rows: pl.LazyFrame, names: dict[str, str]) -> pl.LazyFrame:
    return rows.select(pl.col(old).alias(new) for old, new in names.items())


def _once(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.unique()
