"""Rows in, one row a key out: values, the steps of all functions in one query, results; for stages that compute what a job asks."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from pipeline.errors import DataError, under
from pipeline.sql.expression import Value
from pipeline.stages.relational._aggregates.function import Columns, Place
from pipeline.stages.relational._aggregates.in_order import grouped_in_order
from pipeline.stages.relational._computed import OPERANDS, Computed
from pipeline.stages.relational._sums import bounded, may_outgrow
from pipeline.tables.infinities import counted, made_finite, on_a_cpu
from pipeline.tables.packed import packed
from pipeline.tables.part import Part


@dataclass(frozen=True)
class Grouped:
    """What is computed by these keys, or of all rows: name of a result to what it is. `key` is the job's word for that.

    `in_order`: keys hardly repeat, so that on a CPU all rows are put in order and not into a table of groups.
    """

    by: Sequence[str]
    compute: Mapping[str, Computed]
    key: str = "compute"
    in_order: bool = False

    def partial(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Fewer rows of this part: one a key, with sums and counts in place of means.

        Of functions that cannot be split the values of all rows; where these want each value but once, one row a key and value.
        """
        valued = self.valued(rows)
        if self.splits:
            return self._grouped(valued, merging=False)
        return valued if self._distinct is None else self._counted(valued, self._distinct)

    def final(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The result, from what the parts gave."""
        return self._finished(self._grouped(rows, merging=self.splits or self._distinct is not None))

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The result, from all rows of its keys."""
        return self._finished(self._grouped(self.valued(rows), merging=False))

    def results(self, schema: pl.Schema) -> pl.Schema:
        """Names and types of the result, of rows of that schema."""
        return self.settled(Part(self.apply(schema.to_frame().lazy()).collect()), []).frame.schema

    def wide_sums(self, schema: pl.Schema) -> list[str]:
        """The sums that can outgrow their type."""
        sums = {name: computed for name, computed in self.compute.items() if computed.function == "sum"}
        return [name for name, computed in sums.items() if may_outgrow(computed.operand(schema)[1])]

    def of(self, names: Iterable[str]) -> Grouped:
        """Some of the results alone."""
        return replace(self, compute={name: self.compute[name] for name in names})

    def counted(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """One row a key and value of results that share theirs, `value:` and `times:` of the first: how often it is there."""
        return self._counted(self.valued(rows), next(iter(self.compute)))

    @property
    def whole(self) -> list[list[str]]:
        """Names of the results that cannot be split, those together that share their values."""
        found: dict[str, list[str]] = {}
        for name, computed in self.compute.items():
            if not computed.by_name.splits:
                found.setdefault(self._owners[name], []).append(name)
        return list(found.values())

    @property
    def settles(self) -> bool:
        """Whether results have a last step on the host."""
        return any(computed.by_name.settles for computed in self.compute.values())

    def settled(self, part: Part, sums: list[str]) -> Part:
        """The part with its lists, once no sum outgrew its type; raises DataError with the key of the first that did."""
        for name in sums:
            if part.frame[name].null_count():
                row = part.frame.filter(pl.col(name).is_null()).row(0, named=True)
                place = ", ".join(f"{column} {row[column]!r}" for column in self.by) or "all rows"
                raise DataError(
                    f"the sum is beyond {part.frame.schema[name]} for {place}. "
                    f"Add up floats, as in sum(cast({self.compute[name].of} as double)), or take the mean.",
                    key=f"{self.key}.{name}",
                )
        results = self.compute.items()
        made = [computed.by_name.settled(part.frame, name, computed) for name, computed in results if computed.by_name.settles]
        return Part(part.frame.with_columns(made).select(*self.by, *self.compute))

    def valued(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The keys, and the values that each result reads."""
        values = {f"{part}:{name}": value for name, part, value in self._values(rows.collect_schema())}
        return rows.with_columns(counted(rows, value).alias(column) for column, value in values.items()).select(*self.by, *values)

    def read(self, schema: pl.Schema) -> list[str]:
        """The columns that the values are computed from, and then the keys."""
        roots = [name for _, _, value in self._values(schema) for name in value.roots]
        return [*dict.fromkeys(name for name in roots if name not in self.by), *self.by]

    def operands(self, name: str, columns: Container[str]) -> dict[str, str]:
        """Of a result, the columns that `valued` has of what it reads: part to column."""
        owner = self._owners[name]
        owned = {part: f"{part}:{owner}" for part in ("value", *OPERANDS, "order")}
        return {part: column for part, column in owned.items() if column in columns}

    def _values(self, schema: pl.Schema) -> Iterable[tuple[str, str, Value]]:
        """For results that share none of another one: name, part and values."""
        owners = self._owners
        for name, computed in self.compute.items():
            with under(f"{self.key}.{name}"):
                values = dict(computed.values(schema))
            if owners[name] == name:
                yield from ((name, part, value) for part, value in values.items())

    @property
    def _is_put_in_order(self) -> bool:
        return self.in_order and on_a_cpu() is not None

    @property
    def splits(self) -> bool:
        """Whether all results can be had from what parts give."""
        return all(computed.by_name.splits for computed in self.compute.values())

    @property
    def _distinct(self) -> str | None:
        """The result whose values all that cannot be split read, where they want each but once; None where there is none."""
        whole = {name: computed for name, computed in self.compute.items() if not computed.by_name.splits}
        owners = {self._owners[name] for name in whole}
        return owners.pop() if len(owners) == 1 and all(computed.by_name.of_distinct for computed in whole.values()) else None

    @property
    def _owners(self) -> dict[str, str]:
        """The result whose values each one reads: the first of those that share them, or its own."""
        first: dict[tuple[object, ...], str] = {}
        keys = {name: (*computed.shared, name if computed.by_name.alone else "") for name, computed in self.compute.items()}
        return {name: first.setdefault(key, name) for name, key in keys.items()}

    def _grouped(self, rows: pl.LazyFrame, *, merging: bool) -> pl.LazyFrame:
        columns, owners = rows.collect_schema(), self._owners
        places = {
            name: Place(name, owners[name], self.by, columns, merging and computed.by_name.splits)
            for name, computed in self.compute.items()
        }
        return self._stepped(rows, self.by, places)

    def _counted(self, rows: pl.LazyFrame, owner: str) -> pl.LazyFrame:
        """One row a key and value, with how often it is there and the steps of what splits."""
        columns, owners, by = rows.collect_schema(), self._owners, (*self.by, f"value:{owner}")
        split = [name for name, computed in self.compute.items() if computed.by_name.splits]
        places = {name: Place(name, owners[name], by, columns, merging=False) for name in split}
        return self._stepped(rows, by, places, pl.len().cast(pl.Int64).alias(f"times:{owner}"))

    def _stepped(self, rows: pl.LazyFrame, by: Sequence[str], places: Mapping[str, Place], *more: pl.Expr) -> pl.LazyFrame:
        """One row a key of those places, with the steps of their functions."""
        rounds: list[list[pl.Expr]] = []
        steps, taken, same = list(more), dict[tuple[str, str], str](), dict[str, str]()
        for name, place in places.items():
            computed = self.compute[name]
            for number, made in enumerate(computed.by_name.before(place, computed)):
                rounds += [[]] * (number == len(rounds))
                rounds[number] = rounds[number] + _named(made, name)
            for part, step in computed.by_name.steps(place, computed).items():
                column = f"{part}:{name}"
                first = taken.setdefault((part, place.owner), column) if part in computed.by_name.shared else column
                if first == column:
                    steps.append(step.alias(column))
                else:
                    same[column] = first
        for made_before in rounds:
            rows = rows.with_columns(made_before)
        if self._is_put_in_order:
            grouped = grouped_in_order(rows, by, steps)
        else:
            grouped = rows.group_by(*by).agg(steps) if by else rows.select(steps)
        grouped = grouped.with_columns(pl.col(first).alias(column) for column, first in same.items()) if same else grouped
        schema = grouped.collect_schema()
        bounds = [bound for name in places if f"about:{name}" in schema for bound in bounded(name, schema)]
        return grouped.with_columns(bounds) if bounds else grouped

    def _finished(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        columns = rows.collect_schema()
        finished = [computed.by_name.finished(name, computed, columns) for name, computed in self.compute.items()]
        made = {column: expr for each in finished for column, expr in each.items()}
        results = rows.select(*self.by, *(expr.alias(column) for column, expr in made.items()))
        dtypes = results.collect_schema()
        values = {column: made_finite(pl.col(column), dtypes[column]) for column in made if dtypes[column].is_float()}
        results = results.with_columns(counted(results, value).alias(column) for column, value in values.items())
        if self._is_put_in_order:
            return results
        if len(self.by) > 1 and on_a_cpu() is not None:
            return results.sort(packed(self.by))
        return results.sort(*self.by, nulls_last=True) if self.by else results


def _named(columns: Columns, name: str) -> list[pl.Expr]:
    return [expr.alias(f"{part}:{name}") for part, expr in columns.items()]
