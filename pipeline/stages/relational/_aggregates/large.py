"""Groups of more rows than a task may hold: what cannot be added up part by part is found without all their values in one place.

Distinct values are counted where a hash of key and value puts them. Of medians and quantiles the values on which their ranks fall come
together (tables/ranks.py). Everything else is added up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from pipeline.stages.relational._aggregates.asked import Asked
from pipeline.stages.relational._aggregates.grouped import Grouped
from pipeline.stages.relational._aggregates.repeated import hardly_repeated
from pipeline.tables.budget import Size, row_bytes
from pipeline.tables.pairs import for_two, large_keys
from pipeline.tables.part import Part, Schema
from pipeline.tables.ranks import Counted, Wanted, with_ranks
from pipeline.tables.steps import Step
from pipeline.tables.table import Table

GROUP, OFTEN, MODE, DISTINCT = "__group__", "__often__", "__mode__", "__distinct__"
RANKED = {"median", "quantile", "approx_quantile"}
SPREAD = {"n_unique", "mode"}


@dataclass(frozen=True)
class Large:
    """What is computed of these keys, each of which has more rows than a task may hold; of no keys, of all rows."""

    grouped: Grouped
    keys: pl.DataFrame
    schema: pl.Schema

    @staticmethod
    def of(grouped: Grouped, rows: Table) -> tuple[Table, Large | None]:
        """A table, to be read again, and what there is of such keys, for functions that have all rows of one at once. Waits for keys to be
        counted."""
        if not rows.is_beyond or rows.schema is None or grouped.splits:
            return rows, None
        schema, whole = rows.schema.columns, [name for name, asked in grouped.compute.items() if not asked.by_name.splits]
        values = grouped.of(whole).valued(schema.to_frame().lazy()).collect_schema()
        known = all(grouped.compute[name].function in RANKED | SPREAD for name in whole)
        if not known or any(dtype.is_nested() for dtype in values.dtypes()):
            return rows, None
        rows = for_two(rows)
        if not grouped.by:
            return rows, Large(grouped, pl.DataFrame(), schema)
        keys = large_keys(rows, grouped.by, row_bytes(Schema(pl.Schema({name: schema[name] for name in grouped.read(schema)}))))
        return rows, Large(grouped, keys, schema) if keys.height else None

    def others(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows of all other keys."""
        return rows.join(self.keys.lazy(), on=self.keys.columns, how="anti", nulls_equal=True, maintain_order="left")

    def table(self, rows: Table) -> Table:
        """A row for each of these keys, as `Grouped.final` has it, in one part."""
        session, stage = rows.session, rows.stage
        numbered = rows.map(self._numbered, writes=frozenset())
        grouped, found = replace(self.grouped, by=(GROUP,)), list[Table]()
        added = grouped.of(name for name, asked in grouped.compute.items() if asked.by_name.splits)
        if added.compute:
            found.append(numbered.map(added.partial).gather().map(added.final))
        for names in grouped.whole:
            alike = grouped.of(names)
            counted = Counted(f"value:{names[0]}", f"times:{names[0]}", of=GROUP)
            values = numbered.map(alike.valued)
            plain = hardly_repeated(values, [GROUP, counted.value])
            counts = values.map(_once, counted) if plain else numbered.map(alike.counted)
            if ranked := {name: asked for name, asked in alike.compute.items() if asked.function in RANKED}:
                shares = tuple(0.5 if asked.q is None else asked.q for asked in ranked.values())
                found.append(with_ranks(counts, [counted], Wanted(shares), again=plain).map_parts(_at_ranks, counted, ranked))
            if spread := {name: asked for name, asked in alike.compute.items() if asked.function in SPREAD}:
                each = counts.map(_plain, counted).exchange([GROUP, counted.value]).map(_most_frequent, counted, whole="groups")
                found.append(each.gather().map(_of_all, spread))
        whole = session.submit(self._joined, *(table.value() for table in found), stage=stage)
        size = Size(max(1, self.keys.height), row_bytes(Schema(self._made)))
        return Table(session, stage, (Step("read", stage, source=whole),), size=size, written=None)

    def _numbered(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows of these keys, with their keys' numbers."""
        if not self.grouped.by:
            return rows.with_columns(pl.lit(0, dtype=pl.Int64).alias(GROUP))
        return rows.join(self._keys.lazy(), on=self.keys.columns, how="inner", nulls_equal=True, maintain_order="left")

    @property
    def _keys(self) -> pl.DataFrame:
        numbers = pl.Series(GROUP, range(max(1, self.keys.height)), dtype=pl.Int64)
        return pl.DataFrame([*self.keys, numbers])

    @property
    def _made(self) -> pl.Schema:
        return self.grouped.apply(self.schema.to_frame().lazy()).collect_schema()

    def _joined(self, *found: Part) -> Part:
        """What was found of each key, side by side: of a key without values what no values come to."""
        whole = self._keys
        for part in found:
            whole = whole.join(part.frame, on=GROUP, how="left", maintain_order="left")
        distinct = [name for name, asked in self.grouped.compute.items() if asked.function == "n_unique"]
        made = (pl.col(name).cast(dtype) for name, dtype in self._made.items())
        return Part(whole.with_columns(pl.col(distinct).fill_null(0)).select(made))


def _once(rows: pl.LazyFrame, counted: Counted) -> pl.LazyFrame:
    """Each value as one that is there once."""
    return rows.with_columns(pl.lit(1, dtype=pl.Int64).alias(counted.rows))


def _at_ranks(part: Part, counted: Counted, ranked: Mapping[str, Asked]) -> Part:
    """Of each group its medians and quantiles, as Polars has them of all values: between two of them by what lies between their ranks."""
    found: dict[str, list[float | None]] = {name: [] for name in ranked}
    groups = list[int]()
    for of, rows in counted.series(part.frame):
        groups.append(of)
        rows = rows.sort(counted.value)
        reached, values = rows[counted.rows].cum_sum(), rows[counted.value]
        for name, asked in ranked.items():
            place = (int(reached[-1]) - 1) * (0.5 if asked.q is None else asked.q)
            ends = [values[reached.search_sorted(rank, side="right")] for rank in (math.floor(place), math.ceil(place))]
            between = pl.Series(ends, dtype=pl.Float64).quantile(place - math.floor(place), asked.interpolation)
            found[name].append(between)
    return Part(pl.DataFrame({GROUP: groups, **found}, schema={GROUP: pl.Int64(), **dict.fromkeys(found, pl.Float64())}))


def _plain(rows: pl.LazyFrame, counted: Counted) -> pl.LazyFrame:
    """The counts of values that are there; a zero below zero is 0, as in any group of values."""
    value = pl.col(counted.value)
    plain = value + 0.0 if rows.collect_schema()[counted.value].is_float() else value
    return rows.select(GROUP, plain.alias(counted.value), counted.rows).drop_nulls(counted.value)


def _most_frequent(rows: pl.LazyFrame, counted: Counted) -> pl.LazyFrame:
    """Of each group how many values there are in this part, the most frequent, and how often it is there."""
    each = rows.group_by(GROUP, counted.value).agg(pl.col(counted.rows).sum())
    value, often = pl.col(counted.value), pl.col(counted.rows)
    of = [pl.len().cast(pl.Int64).alias(DISTINCT), value.filter(often == often.max()).min().alias(MODE), often.max().alias(OFTEN)]
    return each.group_by(GROUP).agg(of)


def _of_all(rows: pl.LazyFrame, spread: Mapping[str, Asked]) -> pl.LazyFrame:
    """The same of all parts, under the names of the results."""
    mode, often = pl.col(MODE), pl.col(OFTEN)
    said = {"n_unique": pl.col(DISTINCT).sum(), "mode": mode.filter(often == often.max()).min()}
    return rows.group_by(GROUP).agg(said[asked.function].alias(name) for name, asked in spread.items())
