"""Random stages on one table of a chain, each with its SQL: filter, derive, select, rename, cast, sample and those that learn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from hypothesis import strategies as st

from pipeline.stage import Stage
from pipeline.stages.relational.cast import Cast
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.stages.relational.rename import Rename
from pipeline.stages.relational.select import Select
from tests.differential.expressions import Pair, conditions, values
from tests.differential.feature_stages import categorified, filled_with_numbers, standardized
from tests.differential.known import Known, Said
from tests.differential.oracle import quoted
from tests.differential.row_stages import sampled
from tests.differential.tables import COLUMNS, some

LITERALS: dict[Any, list[str]] = {
    pl.Int64: ["0", "1", "2", "7", "-4"],
    pl.Int32: ["0", "1", "5", "-7"],
    pl.Int8: ["0", "1", "77"],
    pl.String: ["'a'", "'b '", "'10'", "'null'"],
    pl.Date: ["date '2000-02-29'", "date '2021-01-01'"],
}


def _named(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9_]+", text)) & {*COLUMNS, "row"}


@st.composite
def _condition(draw: st.DrawFn, rows: Known) -> Pair:
    """A condition on columns that are as they were drawn, or on any one of exact values."""
    pair = draw(conditions())
    if _named(pair[0]) <= rows.drawn and draw(st.booleans()):
        return pair
    name = draw(st.sampled_from(rows.keys or list(rows.schema)))
    kind = rows.schema[name].base_type()
    if kind not in LITERALS:
        text = draw(st.sampled_from(["{0} is not null", "{0} is null"]))
    else:
        operator, literal = draw(st.sampled_from(["=", "<>", "<", ">=", "<=>"])), draw(st.sampled_from(LITERALS[kind]))
        text = f"{{0}} {operator} {literal}" + draw(st.sampled_from(["", "", " or {0} is null"]))
    ours = text.format(quoted(name))
    return ours, re.sub(r"<=> (\S+( '[^']*')?)", r"is not distinct from \1", ours)


def filtered(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said]:
    """Rows by a condition."""
    return _condition(rows).map(
        lambda pair: Said(Filter(where=pair[0]), {"rows": rows.name}, f"select * from {rows.name} where {pair[1]}", rows)
    )


@st.composite
def _derived(draw: st.DrawFn, rows: Known) -> Said:
    made = {f"{rows.name}_x{number}": draw(values()) for number in range(2)}
    made = {name: pair for name, pair in made.items() if _named(pair[0]) <= rows.drawn and not re.search("u?int64", pair[0])}
    replaced = ""
    if "key" in rows.drawn and rows.schema["key"] == pl.Int64 and ("key" not in rows.unique):
        ours, replaced = draw(st.sampled_from([("", ""), ("key % 3", "((key % 3) + 3) % 3"), ("-key", "-key"), ("key * key", "key * key")]))
        made = {**made, **({"key": (ours, replaced)} if ours else {})}
    made = made or {f"{rows.name}_x": ("1", "1::bigint")}
    new = ", ".join(f"{theirs} as {name}" for name, (_, theirs) in made.items() if name != "key")
    kept = f"* replace ({replaced} as key)" if replaced else "*"
    known = replace(rows, drawn=rows.drawn - {"key"} if replaced else rows.drawn)
    columns = {name: ours for name, (ours, _) in made.items()}
    return Said(Derive(columns=columns), {"rows": rows.name}, f"select {kept}{new and ', ' + new} from {rows.name}", known)


def derived(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said]:
    """New columns, and one that takes the place of another."""
    return _derived(rows)


@st.composite
def _selected(draw: st.DrawFn, rows: Known) -> Said:
    free = [name for name in rows.schema if name not in rows.unique]
    dropped = draw(some(free, most=max(1, len(free) - 2)))
    stage = Select(drop=tuple(dropped))
    listed = ", ".join(map(quoted, dropped))
    return Said(stage, {"rows": rows.name}, f"select * exclude ({listed}) from {rows.name}", replace(rows, drawn=rows.drawn - {*dropped}))


def selected(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """Columns left out."""
    return _selected(rows) if len(rows.schema) > len(rows.unique) + 3 else None


@st.composite
def _renamed(draw: st.DrawFn, rows: Known) -> Said:
    one, other = draw(some([name for name in rows.schema if name not in rows.unique], 2, 2))
    names = draw(st.sampled_from([{one: other, other: one}, {one: f"{rows.name} new"}]))
    listed = ", ".join(f"{quoted(name)} as {quoted(names.get(name, name))}" for name in rows.schema)
    return Said(
        Rename(columns=names), {"rows": rows.name}, f"select {listed} from {rows.name}", replace(rows, drawn=rows.drawn - {one, other})
    )


def renamed(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """Two columns that swap their names, or one with a new one."""
    exact = len(rows.exact) == len(rows.schema)  # a swap must not make drawn floats of computed ones
    return _renamed(rows) if exact and len(rows.schema) > len(rows.unique) + 2 else None


CASTS = {
    "small": ("int64", "string"),
    "key": ("string", "int32"),
    "flag": ("int8", "int64"),
    "day": ("string",),
    "int16": ("int64", "uint8"),
}


@st.composite
def _cast(draw: st.DrawFn, rows: Known, names: list[str]) -> Said:
    wanted = {name: draw(st.sampled_from(CASTS[name])) for name in draw(some(names))}
    theirs = {"string": "varchar", "int8": "tinyint", "uint8": "utinyint"}
    made = ", ".join(f"try_cast({name} as {theirs.get(kind, kind)}) as {name}" for name, kind in wanted.items())
    stage = Cast.model_validate({"columns": wanted, "strict": False})
    return Said(stage, {"rows": rows.name}, f"select * replace ({made}) from {rows.name}", replace(rows, drawn=rows.drawn - {*wanted}))


def cast(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """Columns in other types."""
    names = sorted(rows.drawn & {*CASTS} - {*rows.unique})
    return _cast(rows, names) if names else None


def _of_rows(rows: Known, work: st.SearchStrategy[tuple[Stage, str]], changed: Callable[[Any], set[str]]) -> st.SearchStrategy[Said]:
    """A stage whose SQL is on the table `rows`; `changed` are the columns that it gives other values."""

    def said(found: tuple[Stage, str]) -> Said:
        stage, sql = found[0], re.sub(r"\bfrom rows\b", f"from {rows.name}", found[1])
        return Said(stage, {"rows": rows.name}, sql, replace(rows, drawn=rows.drawn - changed(stage)))

    return work.map(said)


def _changed(stage: Any) -> set[str]:
    return {*stage.columns}


def sample(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """A share of the rows."""
    names = sorted(rows.drawn & {"row", "key", "flag", "small", "int8"})
    return _of_rows(rows, sampled(names), lambda _: set()) if names and "z" not in rows.schema else None


def fill_numbers(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """Missing numbers filled by what all rows say."""
    names = sorted(rows.drawn & {"small", "ratio", "int8", "uint16"} - {*rows.unique})
    fresh = [name for name in names if f"{name}_missing" not in rows.schema]
    return _of_rows(rows, filled_with_numbers(fresh), _changed) if fresh else None


def standardize(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """Numbers standardized by all rows."""
    names = sorted(rows.drawn & {"small", "ratio", "int8"} - {*rows.unique})
    return _of_rows(rows, standardized(names), _changed) if names else None


def categorify(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """Codes for texts and whole numbers."""
    names = sorted(rows.drawn & {"word", "flag", "key", "uint8"} - {*rows.unique})
    work = categorified(names).map(lambda found: found[:2]) if names else None
    return _of_rows(rows, work, _changed) if work is not None else None
