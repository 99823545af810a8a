"""How many rows of a table are alike in what could tell a person from others."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.stage import ColumnNames, Context, Outcome, Whole, need_columns, need_keys
from pipeline.stages.relational._aggregates.grouped import Grouped
from pipeline.stages.relational._computed import Computed
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

ROWS, DISTINCT = "rows", "distinct_"


class KAnonymity(Whole, name="k_anonymity", version=1):
    """Count the rows that are alike in `quasi_identifiers`, and fail the run, or warn, where fewer than `k` are (Sweeney 2002).

    Quasi-identifiers are what somebody may know of a person from elsewhere: age, sex, postcode. A missing value is a value of its own.
    With `sensitive` columns every group needs `least_values` different values of each, too (l-diversity, Machanavajjhala and others
    2007): where all of a group have one diagnosis, nobody need be told apart for it to be known. A missing value counts as none of them.

    The table stays as it is, and no stage after this one works before it holds. NAME.below has the groups that are too small or too alike,
    with their rows (and distinct_COLUMN): it is about few people, so keep it. Metrics have the smallest group (k) and the least values (l).
    Each row should be a person: a person of several rows makes a group look larger.

    Example: {use: k_anonymity, from: people, as: checked, quasi_identifiers: [age_band, sex, zip], k: 5, sensitive: diagnosis}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "rows_in": Count("rows checked"),
        "rows_below": Count("rows in groups that are too small or too alike", always=True),
        **INFINITIES,
    }

    quasi_identifiers: ColumnNames = Field(description="The columns by which people could be told apart.")
    k: int = Field(5, ge=2, description="Fewest rows of a group.")
    sensitive: ColumnNames | tuple[()] = Field((), description="Columns that nobody should be able to say of a person.")
    least_values: int = Field(2, ge=2, description="Fewest different values of each sensitive column in a group: l.")
    action: Literal["fail", "warn"] = Field("fail", description="Where it does not hold: fail the run, or warn.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The table as it was, and the groups. Raises StageError for columns that do not fit."""
        rows = schemas["rows"]
        need_keys(rows, self.quasi_identifiers, key="quasi_identifiers")
        need_columns(rows, self.sensitive, key="sensitive")
        if both := [name for name in self.sensitive if name in self.quasi_identifiers]:
            raise StageError(f"{both[0]!r} is a quasi-identifier, too: a group has one value of it. Leave it out of one.", key="sensitive")
        if taken := [name for name in self._compute if name in self.quasi_identifiers]:
            raise StageError(f"{taken[0]!r} is what the groups' column of counts is called. Rename it before.", key="quasi_identifiers")
        return {"": rows, "below": Schema(self._grouped.results(rows.columns))}

    @property
    def _compute(self) -> dict[str, dict[str, str]]:
        distinct = {name: '"' + name.replace('"', '""') + '"' for name in self.sensitive}
        return {ROWS: {"function": "size"}} | {DISTINCT + name: {"function": "n_unique", "of": of} for name, of in distinct.items()}

    @property
    def _grouped(self) -> Grouped:
        compute = {name: Computed.model_validate(computed) for name, computed in self._compute.items()}
        return Grouped(self.quasi_identifiers, compute, "sensitive")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The groups, what they come to, and the rows once that is known."""
        rows, grouped = tables["rows"], self._grouped
        rows = (rows if rows.cheap else rows.hold()).named(context.name)
        given, together = rows, grouped.apply
        if rows.is_apart and len(rows.blocks) > 1:
            given, together = rows.map(grouped.partial, writes=frozenset(self._compute)), grouped.final
        groups = given.exchange(self.quasi_identifiers).map(together, writes=frozenset(self._compute)).hold()
        submit, tally = context.session.submit, groups.map(self._tally).value()
        found = submit(self.concluded, tally, stage=context.name)
        metrics, counts, warnings = (submit(itemgetter(place), found, stage=context.name) for place in range(3))
        waits = [metrics] if self.action == "fail" else []
        kept = rows.map(_after, *waits, writes=frozenset())
        below = groups.map(self._below, *waits, writes=frozenset())
        return Outcome({"": kept, "below": below}, metrics=metrics, counts=counts, warnings=warnings)

    @property
    def _small(self) -> pl.Expr:
        return pl.col(ROWS) < self.k

    @property
    def _alike(self) -> pl.Expr:
        return pl.any_horizontal(pl.lit(value=False), *(pl.col(DISTINCT + name) < self.least_values for name in self.sensitive))

    def _below(self, groups: pl.LazyFrame, *_waits: Any) -> pl.LazyFrame:
        return groups.filter(self._small | self._alike)

    def _tally(self, groups: pl.LazyFrame) -> pl.LazyFrame:
        """One row of counts and least numbers."""
        rows, small, alike = pl.col(ROWS), self._small, self._alike & ~self._small
        either = small | self._alike
        return groups.select(
            pl.len().cast(pl.Int64).alias("groups"),
            rows.sum().alias("rows"),
            rows.min().alias("k"),
            small.cast(pl.Int64).sum().alias("small"),
            alike.cast(pl.Int64).sum().alias("alike"),
            pl.when(either).then(rows).otherwise(None).sum().alias("below"),
            *(pl.col(DISTINCT + name).min().alias(f"l:{name}") for name in self.sensitive),
        )

    def concluded(self, tally: Part) -> tuple[dict[str, Any], dict[str, int], list[str]]:
        """Metrics, counts and warnings; no text has a value of a person. Raises DataError where it does not hold and shall."""
        frame = tally.frame
        groups, rows, small, alike, below = (int(frame[name].sum()) for name in ("groups", "rows", "small", "alike", "below"))
        metrics: dict[str, Any] = {"rows": rows, "groups": groups, "k": frame["k"].min(), "groups_below_k": small, "rows_below": below}
        if self.sensitive:
            metrics |= {"groups_below_l": alike, "l": {name: frame[f"l:{name}"].min() for name in self.sensitive}}
        found = [f"{small:,} of {groups:,} groups have fewer than {self.k} rows, the smallest {metrics['k']}"] if small else []
        if alike:
            found.append(
                f"{alike:,} groups of {self.k} rows or more have fewer than {self.least_values} values of {', '.join(self.sensitive)}"
            )
        if not found:
            return metrics, {"rows_in": rows, "rows_below": below}, []
        text = f"people can be told apart by {', '.join(self.quasi_identifiers)}: {'; '.join(found)} ({below:,} of {rows:,} rows in all)"
        remedy = "Make bands or coarser places of the columns, leave one out, or filter these rows"
        if self.action == "fail":
            raise DataError(f"{text}. {remedy}, or take action: warn and look at the table `below`.", key="k" if small else "least_values")
        return metrics, {"rows_in": rows, "rows_below": below}, [f"{text}. {remedy}."]


def _after(rows: pl.LazyFrame, *_waits: Any) -> pl.LazyFrame:
    return rows
