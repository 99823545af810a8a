"""Check what is expected of a table's rows: stop the run, warn, or put what does not hold aside."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError, under
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.relational._expected.rules import Fresh, Keyed, OfTable, OneRule, Reference, RowCount, Unique, check_rule, key_columns
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES, counted
from pipeline.tables.part import ROW, Part, Schema
from pipeline.tables.places import FILE, LINE, placed
from pipeline.tables.table import Table

MARK, SHOWN = "__broken__", 4
RULES, REASON = "rules", "reason"


class Expect(Whole, name="expect", version=1):
    """Check the first table of `from` by rules, each of which fails the run, warns, or puts the rows that break it into NAME.quarantined.

    A rule's `check` is not_null, range, values, condition (any SQL), unique, reference (a key of another table), rows (how many there are)
    or fresh (how old the newest value is, against a stated date). As with SQL's CHECK, what is missing breaks no rule but not_null.
    No stage after this one works before all rules with `action: fail` hold. The table keeps its other rows in their order.
    NAME.quarantined has the rows taken out, with the names of the rules that each breaks, the reason, and `file` and `row` (the first row
    of a file is 1, so in a CSV file with a header line that is line 2) where the stage reads a CSV or Parquet input itself; else these two
    are null. Give it an output of its own. run.json, the metrics and the report say of every rule how many rows break it.

    Example:
        {use: expect, from: [loans, customers], as: checked, rules: {
          amounts: {check: range, column: amount, min: 0, action: quarantine}, ids: {check: unique, columns: [loan_id]},
          owners: {check: reference, columns: {customer: id}, table: customers},
          newest: {check: fresh, column: day, at: '2026-01-31', within: 7d, action: warn}}}
    """

    roles: ClassVar[tuple[str, ...]] = ("**",)
    counts: ClassVar[Mapping[str, Count]] = {
        "rows_in": Count("rows checked"),
        "quarantined": Count("quarantined", always=True),
        "rows_out": Count("rows kept"),
        "broken_*": Count("rows that break *", aside=True),
        **INFINITIES,
    }

    rules: dict[str, OneRule] = Field(min_length=1, description="Name: a rule, of the kind that its `check` says.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The table as it was, and the rows taken out. Raises StageError where a rule does not fit, or names clash."""
        rows = next(iter(schemas.values()))
        for name, rule in self.rules.items():
            with under(f"rules.{name}"):
                check_rule(rule, schemas)
        if not self._quarantines:
            return {"": rows}
        added = {RULES: pl.String(), REASON: pl.String(), FILE: pl.String(), LINE: pl.Int64()}
        if taken := [name for name in added if name in rows.columns]:
            raise StageError(f"there is a column {taken[0]!r} already, which the quarantined rows get. Rename it before.", key="rules")
        return {"": rows, "quarantined": Schema(pl.Schema({**rows.columns, **added}))}

    @property
    def _row_rules(self) -> list[str]:
        return [name for name, rule in self.rules.items() if not isinstance(rule, OfTable)]

    @property
    def _quarantines(self) -> list[str]:
        return [name for name, rule in self.rules.items() if rule.action == "quarantine"]

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Keys that break a rule, then a mark for each rule in every row; counts of the marks, and what they come to."""
        rows = next(iter(tables.values()))
        assert rows.schema is not None
        schema = rows.schema.columns
        rows = (rows if rows.cheap else rows.hold()).named(context.name)
        bad = [self._bad_keys(rule, rows, tables) for rule in self.rules.values() if isinstance(rule, Keyed)]
        marked = rows.map(self._marked, *bad, writes=frozenset())
        tally = marked.map(self._tally, schema).value()
        found = context.session.submit(self.concluded, tally, schema, stage=context.name)
        pieces = [context.session.submit(itemgetter(place), found, stage=context.name) for place in range(3)]
        waits = pieces[:1] if any(rule.action == "fail" for rule in self.rules.values()) else []
        given = {"": marked.map(self._kept, *waits, writes=frozenset())}
        if self._quarantines:
            given["quarantined"] = placed(rows).map(self._marked, *bad).map(self._taken, *waits)
        return Outcome(given, metrics=pieces[0], counts=pieces[1], warnings=pieces[2])

    def _bad_keys(self, rule: Keyed, rows: Table, tables: Mapping[str, Table]) -> Any:
        """The keys that break a rule, each once, as a small value."""
        keys = key_columns(rule)
        mine = rows.map(_keys, {name: name for name in keys}, 1, 0)
        if isinstance(rule, Reference):
            others = tables[rule.table].named(rows.stage).map(_keys, {name: own for own, name in rule.pairs.items()}, 0, 1)
            mine = mine.concat(others)
        return mine.exchange(keys).map(_broken_keys, list(keys), isinstance(rule, Unique)).value()

    def _marked(self, rows: pl.LazyFrame, *bad: Part) -> pl.LazyFrame:
        """The rows with a mark for each rule of rows: whether they break it."""
        schema, left = rows.collect_schema(), iter(bad)
        for name in self._row_rules:
            rule, mark = self.rules[name], MARK + name
            if isinstance(rule, Keyed):
                keys = next(left).frame.lazy().with_columns(pl.lit(True).alias(mark))
                rows = rows.join(keys, on=list(key_columns(rule)), how="left", maintain_order="left")
                rows = rows.with_columns(pl.col(mark).fill_null(False))
            elif not isinstance(rule, OfTable):
                rows = rows.with_columns((~counted(rows, rule.condition(schema))).fill_null(False).alias(mark))
        return rows

    def _tally(self, rows: pl.LazyFrame, schema: pl.Schema) -> pl.LazyFrame:
        """One row of counts, and for each rule the least values that break it."""
        taken = pl.any_horizontal(False, *(pl.col(MARK + name) for name in self._quarantines)).cast(pl.Int64).sum()
        counts = [pl.len().cast(pl.Int64).alias("rows"), taken.alias("taken")]
        counts += [pl.col(MARK + name).cast(pl.Int64).sum() for name in self._row_rules]
        fresh = {name: rule.column for name, rule in self.rules.items() if isinstance(rule, Fresh)}
        counts += [pl.col(column).max().to_physical().cast(pl.Int64).alias(f"newest:{name}") for name, column in fresh.items()]
        frames = [rows.select(counts)]
        for name in self._row_rules:
            shown = {column: f"{name}:{column}" for column in self._shown(name, schema)}
            if shown:
                broken = rows.filter(pl.col(MARK + name)).select(pl.col(column).alias(text) for column, text in shown.items())
                least = broken.sort(list(shown.values()), nulls_last=True).head(1)
                frames.append(least.with_columns(pl.lit(name).alias("of")))
        return pl.concat(frames, how="diagonal")

    def _shown(self, name: str, schema: pl.Schema) -> list[str]:
        """The columns whose values show that a rule is broken."""
        rule = self.rules[name]
        if isinstance(rule, OfTable):
            return []
        names = key_columns(rule) if isinstance(rule, Keyed) else rule.condition(schema).expr.meta.root_names()
        return [column for column in dict.fromkeys(names) if not schema[column].is_nested()][:SHOWN]

    def concluded(self, tally: Part, schema: pl.Schema) -> tuple[dict[str, Any], dict[str, int], list[str]]:
        """Metrics by rule, counts and warnings. Raises DataError where a rule with `action: fail` is broken."""
        frame = tally.frame
        rows, taken = int(frame["rows"].sum()), int(frame["taken"].sum())
        metrics, counts, warnings, failed = dict[str, Any](), {"rows_in": rows, "quarantined": taken, "rows_out": rows - taken}, [], []
        for name, rule in self.rules.items():
            broken, how = self._verdict(name, frame, schema)
            metrics[name] = {"rule": rule.text, "action": rule.action, "rows": rows, "broken": broken}
            counts |= {f"broken_{name}": broken} if broken else {}
            if how and rule.action == "fail":
                failed.append((name, f"it is not so that {rule.text}: {how}"))
            elif how and rule.action == "warn":
                warnings.append(f"rule {name!r}: it is not so that {rule.text}: {how}.")
        if failed:
            (first, text), more = failed[0], "".join(f" Rule {name!r} too: {text}." for name, text in failed[1:])
            remedy = "Correct the data or the rule, or take action: warn or quarantine."
            raise DataError(f"{text}.{more} {remedy}", key=f"rules.{first}")
        return metrics, counts, warnings

    def _verdict(self, name: str, frame: pl.DataFrame, schema: pl.Schema) -> tuple[int, str]:
        """How many rows break a rule, and how it is broken; '' where it is not. A rule of the table is broken by all rows or none."""
        rule, rows = self.rules[name], int(frame["rows"].sum())
        if isinstance(rule, RowCount):
            return (0, "") if rule.holds(rows) else (rows, f"there are {rows:,}")
        if isinstance(rule, Fresh):
            newest = frame[f"newest:{name}"].drop_nulls().max()
            if isinstance(newest, int) and newest >= rule.oldest(schema[rule.column]):
                return 0, ""
            shown = "there is none" if newest is None else pl.Series([newest]).cast(schema[rule.column]).item()
            return rows, f"it is {shown}" if newest is not None else shown
        broken = int(frame[MARK + name].sum())
        columns = self._shown(name, schema)
        if not broken or not columns:
            return broken, f"{broken:,} of {rows:,} rows break it" if broken else ""
        least = frame.filter(pl.col("of") == name).sort([f"{name}:{column}" for column in columns], nulls_last=True)
        values = ", ".join(f"{column} is {_written(least[f'{name}:{column}'][0])}" for column in columns)
        return broken, f"{broken:,} of {rows:,} rows break it, such as the one where {values}"

    def _kept(self, rows: pl.LazyFrame, *_waits: Any) -> pl.LazyFrame:
        """The rows that stay, without marks."""
        broken = [pl.col(MARK + name) for name in self._quarantines]
        return (rows.filter(~pl.any_horizontal(broken)) if broken else rows).drop([MARK + name for name in self._row_rules])

    def _taken(self, rows: pl.LazyFrame, *_waits: Any) -> pl.LazyFrame:
        """The rows taken out, with the rules that they break, the reason and their place."""
        names = self._quarantines
        columns = [name for name in rows.collect_schema() if not name.startswith(MARK) and name not in {ROW, FILE, LINE}]
        broken = rows.filter(pl.any_horizontal(pl.col(MARK + name) for name in names))
        said = partial(_joined, names)
        found = [said({name: name for name in names}).alias(RULES), said({name: f"not so: {self.rules[name].text}" for name in names})]
        return broken.select(*columns, found[0], found[1].alias(REASON), FILE, LINE)


def _keys(rows: pl.LazyFrame, names: Mapping[str, str], mine: int, others: int) -> pl.LazyFrame:
    """The keys without missing columns, by their new names, with how many rows of a side have each."""
    keys = rows.select(pl.col(name).alias(own) for name, own in names.items()).drop_nulls()
    count = pl.len().cast(pl.Int64)
    return keys.group_by(list(names.values())).agg((count * mine).alias(f"{MARK}mine"), (count * others).alias(f"{MARK}others"))


def _broken_keys(keys: pl.LazyFrame, names: list[str], unique: bool) -> pl.LazyFrame:
    """The keys that several rows have, or that no row of the other side has."""
    mine, others = pl.col(f"{MARK}mine").sum(), pl.col(f"{MARK}others").sum()
    whole = keys.group_by(names).agg(mine, others)
    broken = pl.col(f"{MARK}mine") > 1 if unique else (pl.col(f"{MARK}mine") > 0) & (pl.col(f"{MARK}others") == 0)
    return whole.filter(broken).select(names)


def _joined(names: list[str], texts: Mapping[str, str]) -> pl.Expr:
    """The texts of the rules that a row breaks, with '; ' between them."""
    whole = pl.concat_str(pl.when(pl.col(MARK + name)).then(pl.lit(f"; {texts[name]}")).otherwise(pl.lit("")) for name in names)
    return whole.str.strip_prefix("; ")


def _written(value: Any) -> str:
    return "null" if value is None else repr(value) if isinstance(value, str) else str(value)
