"""Bring the columns of two tables together by their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect
from pipeline.errors import DataError, StageError
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Stage, need_columns
from pipeline.tables.counts import Count
from pipeline.tables.part import ROW, Part, Schema
from pipeline.tables.table import Table, together

How = Literal["inner", "left", "semi", "anti"]
Validate = Literal["one_to_one", "many_to_one", "one_to_many"]
MATCHED = "__matched__"


class Join(Stage, name="join", version=1):
    """Join two tables where their keys are equal; a missing key equals nothing. The run record counts matched, multiplied and lost rows.

    inner keeps the left rows that match, left all of them (with nulls), semi those that match and anti those that do not, both without the
    right's columns. `matched` and `lost` count the left's rows with and without a match, `multiplied` the rows added by second matches. The
    left's order stays; a left genotype table keeps its calls. Where several workers exchange rows, order returns only with a sort.

    Example: {use: join, from: {left: loans, right: per_loan}, as: joined, on: loan_id, how: inner, validate: one_to_one}
    """

    roles: ClassVar[tuple[str, ...]] = ("left", "right")
    counts: ClassVar[Mapping[str, Count]] = {
        "matched": Count("rows with a partner"),
        "multiplied": Count("more rows by several partners", always=True),
        "lost": Count("rows without a partner", always=True),
    }

    on: ColumnNames | dict[ColumnName, ColumnName] = Field(
        description="Key columns; {left name: right name} where they are named differently."
    )
    how: How = Field("inner", description="Which rows of the left are kept, and whether the right's columns come to them.")
    suffix: str = Field("_right", min_length=1, description="Added to the name of a right column that the left has too.")
    validate_keys: Validate | None = Field(None, alias="validate", description="Stop where a key that must be unique on a side is not.")

    @property
    def pairs(self) -> dict[str, str]:
        """Left name of each key: its right name."""
        return dict(self.on) if isinstance(self.on, Mapping) else {name: name for name in self.on}

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
        if self.how in {"inner", "left"}:
            self._check_names(left.columns, right.columns)
        return super().plan(schemas, context)

    def _check_names(self, left: pl.Schema, right: pl.Schema) -> None:
        added = [self._moved(right).get(name, name) for name in right if name not in self.pairs.values()]
        names = [*left, *(f"{name}{self.suffix}" if name in left else name for name in added)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise StageError(
                f"the result would have two columns {twice[0]!r}. Give another suffix, or rename one of them before.", key="suffix"
            )

    def _moved(self, right: pl.Schema) -> dict[str, str]:
        """New names of right columns: keys as on the left, and another column of that name out of the key's way."""
        keys = {b: a for a, b in self.pairs.items() if a != b}
        return {**{a: a + self.suffix for a in keys.values() if a in right and a not in self.pairs.values()}, **keys}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A right table of one part goes to every part of the left; else rows with equal keys come together, pair by pair of parts."""
        left, right = tables["left"].named(context.name), tables["right"].named(context.name)
        assert right.schema is not None
        moved = self._moved(right.schema.columns)
        writes = frozenset(name for column in right.schema.columns for name in (moved.get(column, column), column + self.suffix))
        if moved:
            right = right.map(_renamed, moved, writes=frozenset(moved) | frozenset(moved.values()))
        work = PartJoin(tuple(self.pairs), self.how, self.suffix, self.validate_keys, context.session.backend)
        if len(right.blocks) == 1 < len(left.blocks) and self.validate_keys in {None, "many_to_one"}:
            joined = left.map_parts(work, right.value(), writes=writes - set(self.pairs))
            return Outcome({"": replace(joined, fitted=left.fitted + right.fitted)})
        left, right = together(left, right, tuple(self.pairs))
        return Outcome({"": left.zip_parts(right, work, writes=writes - set(self.pairs))})


@dataclass(frozen=True)
class PartJoin:
    """The join of two parts, whose keys have the same names."""

    on: tuple[str, ...]
    how: How
    suffix: str
    validate: Validate | None
    backend: Backend

    def __call__(self, left: Part, right: Part) -> Part:
        """The joined part with its counts. Raises DataError where a key that must be unique is not."""
        if self.validate in {"one_to_one", "many_to_one"}:
            self._need_unique(right, "right")
        if self.validate in {"one_to_one", "one_to_many"}:
            self._need_unique(left, "left")
        joined = collect(self._query(left.frame, right.frame), self.backend)
        height = left.frame.height
        matched = joined.height
        if self.how == "anti":
            matched = height - joined.height
        elif self.how in {"inner", "left"}:
            found = joined if self.how == "inner" else joined.drop_nulls(MATCHED)
            matched = found[ROW].n_unique()
        multiplied = joined.height - (height if self.how == "left" else matched) if self.how in {"inner", "left"} else 0
        counts = {"matched": matched, "multiplied": multiplied, "lost": height - matched}
        return replace(left.with_frame(joined.drop(MATCHED, strict=False)), counts=counts)

    def _query(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.LazyFrame:
        rows, others = left.with_row_index(ROW).lazy(), right.lazy()
        if self.how in {"semi", "anti"}:
            return rows.join(others.select(self.on), on=self.on, how=self.how).sort(ROW)
        others = others.with_columns(pl.lit(True).alias(MATCHED)) if self.how == "left" else others
        return rows.join(others, on=self.on, how=self.how, suffix=self.suffix, maintain_order="left_right")

    def _need_unique(self, part: Part, side: str) -> None:
        keys = part.frame.lazy().select(self.on).drop_nulls().group_by(self.on).len()
        twice = collect(keys.filter(pl.col("len") > 1).sort(self.on).head(1), self.backend)
        if twice.height:
            *key, times = twice.row(0)
            named = ", ".join(f"{name} = {value!r}" for name, value in zip(self.on, key, strict=True))
            remedy = "drop_duplicates or aggregate it before, or leave out validate"
            raise DataError(f"join, validate {self.validate}: the {side} table has {named} {times} times; {remedy}")


def _renamed(rows: pl.LazyFrame, names: dict[str, str]) -> pl.LazyFrame:
    return rows.rename(names)
