"""What was wrong once, each kind of it as a random comparison: decimals, overflow, UInt64, zones, strict casts, empty fits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import strategies as st

from pipeline.stages.features.standardize import Standardize
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.derive import Derive
from tests.differential.cases import Case, check_all
from tests.differential.expressions import NARROW, Pairs, grown_integers, made, recursive
from tests.differential.row_stages import cast
from tests.differential.tables import tables

EXAMPLES = 25


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
        wanted = f"select flag, case when not ({fails.format(name)}) then {sql.format(name)} end as x from rows group by flag"
    return Case(stage, {"rows": draw(tables(("flag", *names)))}, wanted, fails=failing)


@st.composite
def deviation_and_sum(draw: st.DrawFn) -> Case:
    """A deviation, which is of floats, beside the sum of the same whole numbers."""
    stage = Aggregate.model_validate({"by": "flag", "compute": {"x": "std(int32)", "y": "sum(int32)"}})
    sql = "select flag, stddev_samp(int32) as x, cast(coalesce(sum(int32), 0) as bigint) as y from rows group by flag"
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
    "7: an empty fit": learned_from_none(),
}


@pytest.mark.parametrize("name", list(KNOWN))
def test_known__gives_what_duckdb_gives(name: str) -> None:
    check_all(KNOWN[name], Case.check, EXAMPLES)
