"""What was wrong once, or may easily be, each kind of it as a random comparison: decimals, overflow, zones, strict casts, missing keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from pipeline.stages.features.standardize import Standardize
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.stages.relational.sort import Sort
from tests.differential.cases import Case
from tests.differential.expressions import (
    FLOAT_COLUMNS,
    INTS,
    NARROW,
    Pairs,
    compared,
    finite,
    grown_integers,
    logic,
    made,
    recursive,
    same,
)
from tests.differential.keyed_stages import join, ordering
from tests.differential.row_stages import CASTS, WHOLE, cast
from tests.differential.tables import tables


@st.composite
def derived(draw: st.DrawFn, values: Pairs, names: Sequence[str]) -> Case:
    """One new column."""
    ours, theirs = draw(values)
    return Case(Derive(columns={"x": ours}), {"rows": draw(tables(names))}, f"select *, {theirs} as x from rows")


@st.composite
def aggregated(draw: st.DrawFn, function: str, sql: str, names: Sequence[str], fails: str = "") -> Case:
    """One column computed a key; `{0}` is it in SQL. `fails` is what of a key says that there is no answer."""
    name = draw(st.sampled_from(list(names)))
    stage = Aggregate.model_validate({"by": "flag", "compute": {"x": {"function": function, "of": name}}})
    failing = f"select coalesce(bool_or(bad), false) from (select {fails.format(name)} as bad from rows group by flag)" if fails else ""
    wanted = f"select flag, {sql.format(name)} as x from rows group by flag"
    if fails:
        wanted = (
            f"select flag, case when not coalesce({fails.format(name)}, false) then {sql.format(name)} end as x from rows group by flag"
        )
    return Case(stage, {"rows": draw(tables(("flag", *names)))}, wanted, fails=failing)


@st.composite
def deviation_and_sum(draw: st.DrawFn) -> Case:
    """A deviation, which is of floats, beside the sum of the same whole numbers."""
    stage = Aggregate.model_validate({"by": "flag", "compute": {"x": "std(int32)", "y": "sum(int32)"}})
    apart = "(select *, int32 - avg(int32) over (partition by flag) as apart from rows)"
    sql = f"select flag, stddev_samp(apart) as x, cast(coalesce(sum(int32), 0) as bigint) as y from {apart} group by flag"
    return Case(stage, {"rows": draw(tables(("flag", "int32")))}, sql)


@st.composite
def learned_from_none(draw: st.DrawFn) -> Case:
    """A fit whose condition no row meets."""
    return Case(
        Standardize(columns=("key",), fit_where="key = 99"),
        {"rows": draw(tables(("key",)))},
        "from rows",
        fails="select count(*) > 0 from rows",
    )


@st.composite
def kept(draw: st.DrawFn, condition: Pairs, names: Sequence[str]) -> Case:
    """The rows that meet a condition."""
    ours, theirs = draw(condition)
    return Case(Filter(where=ours), {"rows": draw(tables(names))}, f"select * from rows where {theirs}")


@st.composite
def sorted_by(draw: st.DrawFn, names: Sequence[str]) -> Case:
    """Rows by one column of them, up or down, whole or a few."""
    name = draw(st.sampled_from(["", "-"])) + draw(st.sampled_from(list(names)))
    limit = draw(st.none() | st.integers(1, 9))
    sql = f"select * from rows order by {ordering([name, 'row'])}" + (f" limit {limit}" if limit else "")
    return Case(Sort.model_validate({"by": name, "limit": limit}), {"rows": draw(tables(names))}, sql, ordered=True)


FLAGS = ("flag", "key", "word")
BEYOND = "sum({0}) not between -9223372036854775808 and 9223372036854775807"
DECIMALS = st.one_of(
    *(made(f"(price {op} price)", "") for op in "+-*"),
    made("(price * 2)", ""),
    made("(price / 3)", "(cast(price as double) / 3)"),
)
UNSIGNED = st.one_of(
    made("(uint64 % 10)", ""),
    made("(uint64 // 10)", ""),
    made("(uint64 = 18446744073709551615)", ""),
    made("(uint64 > 9223372036854775807)", ""),
    made("greatest(uint64, 7)", ""),
)
ZONED = st.one_of(
    made("cast(moment as date)", ""),
    *(made(f"date_part('{part}', moment)", "") for part in ("year", "month", "day", "hour", "minute", "dow")),
)


@st.composite
def outgrown(draw: st.DrawFn) -> Case:
    """One or two operations between 64-bit integers, whose answers are exact in 128 bits; one beyond 64 is an error."""
    names = ("int64", "int32", "key")
    columns: Pairs = st.sampled_from([(name, f"cast({name} as hugeint)") for name in names])
    inner = st.one_of(columns, *(made(f"({{0}} {op} {{1}})", "", columns, columns) for op in "+-"))
    ours, theirs = draw(
        st.one_of(*(made(f"({{0}} {op} {{1}})", "", inner, columns) for op in "+-"), made("({0} * {1})", "", columns, columns))
    )
    sql, beyond = f"select *, {theirs} as x from rows", "x not between -9223372036854775808 and 9223372036854775807"
    case = Case(
        Derive(columns={"x": ours}), {"rows": draw(tables(names, most=5))}, "", fails=f"select count(*) > 0 from ({sql}) where {beyond}"
    )
    return replace(case, sql=f"select * replace (try_cast(x as bigint) as x) from ({sql})")


DIVIDED = made("({0} / {1})", "(cast({0} as double) / nullif({1}, 0))", INTS, INTS | st.just(("(key - key)", "0::bigint")))
DIVIDED |= made("({0} / {1})", "({0} / nullif({1}, 0))", FLOAT_COLUMNS, FLOAT_COLUMNS)
DIVIDED |= st.sampled_from([(f"(key {op} (key - key))", "null::bigint") for op in ("//", "%")])
KNOWN = {
    "1: decimals in expressions": derived(DECIMALS, ("price",)),
    "1: sums of decimals": aggregated("sum", "coalesce(sum({0}), 0)", ("price",)),
    "2: arithmetic of narrow columns": derived(
        recursive(NARROW, grown_integers), ("small", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
    ),
    "2: sums beyond Int64": aggregated("sum", "coalesce(cast(sum({0}) as bigint), 0)", ("int64",), BEYOND),
    "2: means of great numbers": aggregated("mean", "avg({0})", ("int64", "uint64")),
    "2: a sum beside a deviation": deviation_and_sum(),
    "3: UInt64": derived(UNSIGNED, ("uint64",)),
    "5: zones": derived(ZONED, ("moment",)),
    "6: strict casts": cast({"wide": ("int64", "int32"), "huge": ("float32",)}),
    "a division by zero": kept(compared(finite(DIVIDED)), ("key", "ratio", "share")),
    "2: what outgrows 64 bits": outgrown(),
    "logic of three values": derived(logic(compared(same("flag", "(key = 1)", "(word = 'a')")) | same("flag", "(key > 1)")), FLAGS),
    "casts at the ends of a type": cast({name: CASTS[name] for name in WHOLE}),
    "keys that are missing": join(("key", "flag")),
    "an order of what is missing": sorted_by(("flag", "key", "word")),
    "7: an empty fit": learned_from_none(),
}
