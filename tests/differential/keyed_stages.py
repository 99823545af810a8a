"""Stages that bring rows together, as SQL: joins, aggregate, sort and drop_duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.drop_duplicates import DropDuplicates
from pipeline.stages.relational.join import Join
from pipeline.stages.relational.sort import Sort
from tests.differential.cases import Case
from tests.differential.expressions import conditions
from tests.differential.oracle import quoted
from tests.differential.tables import ANY, some, tables

KEYS = ("key", "word", "flag", "day", "clock", "small", "uint64", "int8", "moment")
ORDERED = tuple(name for name in ANY if name != "share")
TAKEN = ("min", "max", "count", "n_unique", "first", "last")
SUMMED = ("sum", "mean", "std", "var", "median")
NUMBERS = ("key", "small", "ratio", "int8", "int16", "int32", "uint8", "uint16", "uint32", "flag")


HOWS = ("inner", "left", "right", "full", "semi", "anti")
RANGES = {
    "small <= uint8_right and uint8_right < int8": "l.small <= r.uint8 and r.uint8 < l.int8",
    "ratio < price_right": "l.ratio < r.price",
    "row >= row_right or small = 1": 'l."row" >= r."row" or l.small = 1',
    "abs(small - uint8_right) < 100": "abs(l.small - r.uint8) < 100",
}


def _joined(how: str, names: Sequence[str], keys: Sequence[str], on: str) -> str:
    """The left's columns and the right's others under a suffix, keys of either; semi and anti by what exists."""
    if how in {"semi", "anti"}:
        return f'select * from "left" l where {"not " * (how == "anti")}exists (select 1 from "right" r where {on})'
    merged = how in {"right", "full"}
    left = [
        f"coalesce(l.{quoted(name)}, r.{quoted(name)}) as {quoted(name)}" if merged and name in keys else f"l.{quoted(name)}"
        for name in names
    ]
    right = [f"r.{quoted(name)} as {quoted(f'{name}_right')}" for name in names if name not in keys]
    return f'select {", ".join(left + right)} from "left" l {how} join "right" r ' + ("" if how == "cross" else f"on {on}")


@st.composite
def join(draw: st.DrawFn, names: Sequence[str] = KEYS) -> Case:
    """Two tables by one or two keys, of other names on the right, kept in each of six ways, by copies or by an exchange."""
    keys, how, renamed = draw(some(names, most=2)), draw(st.sampled_from(HOWS)), draw(st.booleans())
    columns = (*keys, *(name for name in ("ratio", "price") if name not in keys))
    left, right = draw(tables(columns, most=12)), draw(tables(columns, most=12))
    same = " and ".join(f"l.{quoted(name)} = r.{quoted(name)}" for name in keys)
    sql = _joined(how, left.columns, keys, same)
    on: Any = {name: f"the {name}" for name in keys} if renamed else keys
    if renamed:
        right = right.rename(on)
        for name in keys:
            sql = sql.replace(f"r.{quoted(name)}", f"r.{quoted(on[name])}")
    method = draw(st.sampled_from(["auto", "exchange", *(["broadcast"] if how != "full" else [])]))
    return Case(Join.model_validate({"on": on, "how": how, "method": method}), {"left": left, "right": right}, sql)


@st.composite
def conditional_join(draw: st.DrawFn) -> Case:
    """Two tables by a condition on pairs of rows, beside a key or alone; or each row with each."""
    columns = ("key", "small", "int8", "uint8", "ratio", "price")
    left, right = draw(tables(columns, most=24)), draw(tables(columns, most=24))
    how, keys = draw(st.sampled_from([*HOWS, "cross"])), draw(st.sampled_from([[], ["key"]]))
    if how == "cross":
        return Case(Join.model_validate({"how": "cross"}), {"left": left, "right": right}, _joined("cross", left.columns, [], ""))
    ours, theirs = draw(st.sampled_from(sorted(RANGES.items())))
    on = " and ".join([f"({theirs})", *(f"l.{name} = r.{name}" for name in keys)])
    given = {"on": keys, "method": draw(st.sampled_from(["auto", "exchange"]))} if keys else {}
    stage = Join.model_validate({"how": how, "where": ours, **given})
    return Case(stage, {"left": left, "right": right}, _joined(how, left.columns, keys, on))


@st.composite
def validated_join(draw: st.DrawFn) -> Case:
    """A join that fails where the right's keys repeat."""
    left, right = draw(tables(("key",), most=6)), draw(tables(("key",), most=4))
    sql = 'select l.*, r."row" as row_right from "left" l left join "right" r using (key)'
    fails = 'select count(key) > count(distinct key) from "right"'
    stage = Join.model_validate({"on": "key", "how": "left", "validate": "many_to_one"})
    return Case(stage, {"left": left, "right": right}, sql, fails=fails)


def _computed(function: str, of: str, where: str) -> str:
    value = f"case when {where} then {of} end" if where else of
    return {
        "sum": f"coalesce(sum({value}), 0)",
        "mean": f"avg({value})",
        "std": f"stddev_samp({value})",
        "var": f"var_samp({value})",
        "median": f"median(cast({value} as double))",
        "n_unique": f"count(distinct {value})",
        "first": f'arg_min({value}, "row")',
        "last": f'arg_max({value}, "row")',
    }.get(function, f"{function}({value})")


def _typed(sql: str, function: str, column: str) -> str:
    """Floats as our columns have them: a sum is whole where its values are."""
    is_float = function in {"std", "var", "mean", "median"} or (function == "sum" and column in {"ratio", "share"})
    return f"cast({sql} as double)" if is_float else sql


@st.composite
def aggregate(draw: st.DrawFn, numbers: Sequence[str] = NUMBERS, others: Sequence[str] = ORDERED) -> Case:
    """Up to four columns computed a key, of those rows that meet a condition."""
    keys = draw(some(KEYS, most=2))
    names = ", ".join(map(quoted, keys))
    compute: dict[str, Any] = {"rows": {"function": "size"}}
    listed, apart = ["count(*) as rows"], list[str]()
    for number in range(draw(st.integers(1, 4))):
        function = draw(st.sampled_from(SUMMED + TAKEN))
        column = draw(st.sampled_from(list(numbers if function in SUMMED else others)))
        ours, theirs = draw(conditions()) if draw(st.booleans()) else ("", "")
        compute[f"c{number}"] = {"function": function, "of": column, **({"where": ours} if ours else {})}
        if function in {"first", "last"}:
            compute[f"c{number}"]["order_by"] = "row"
        value = f"cast({column} as bigint)" if column == "flag" and function in SUMMED else column
        if function in {"std", "var"}:  # of values far from 0 DuckDB loses the digits
            value = f"cast(case when {theirs or 'true'} then {value} end as double)"
            apart.append(f"{value} - avg({value}) over (partition by {names}) as apart{number}")
            value, theirs = f"apart{number}", ""
        listed.append(f"{_typed(_computed(function, value, theirs), function, column)} as c{number}")
    rows = f"(select *, {', '.join(apart)} from rows)" if apart else "rows"
    sql = f"select {names}, {', '.join(listed)} from {rows} group by {names}"
    return Case(Aggregate.model_validate({"by": keys, "compute": compute}), {"rows": draw(tables())}, sql)


def ordering(names: Sequence[str]) -> str:
    """What follows `order by`: nulls last, from high to low after a minus."""
    return ", ".join(f"{quoted(name.removeprefix('-'))} {'desc' if name.startswith('-') else 'asc'} nulls last" for name in names)


@st.composite
def orders(draw: st.DrawFn, names: Sequence[str] = ANY) -> list[str]:
    """Columns to order by, up or down."""
    return [draw(st.sampled_from(["", "-"])) + name for name in draw(some(names))]


@st.composite
def sort(draw: st.DrawFn) -> Case:
    """All rows in order, or the first few; those that tie as they came."""
    by, limit = draw(orders()), draw(st.none() | st.integers(1, 9))
    sql = f"select * from rows order by {ordering([*by, 'row'])}" + (f" limit {limit}" if limit else "")
    return Case(Sort.model_validate({"by": by, "limit": limit}), {"rows": draw(tables())}, sql, ordered=True)


@st.composite
def drop_duplicates(draw: st.DrawFn) -> Case:
    """One row a key, the first in an order; the result in the order of its keys."""
    keys = draw(some(KEYS, most=2))
    by = [name for name in draw(st.just([]) | orders()) if name.removeprefix("-") not in keys]
    rows = draw(tables())
    order = [*by, *(name for name in rows.columns if name not in {*keys, *(name.removeprefix("-") for name in by)})]
    names = ", ".join(map(quoted, keys))
    sql = f"select * from rows qualify row_number() over (partition by {names} order by {ordering(order)}) = 1 order by {ordering(keys)}"
    return Case(DropDuplicates.model_validate({"columns": keys, "order_by": by or None}), {"rows": rows}, sql, ordered=True)
