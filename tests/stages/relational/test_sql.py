"""sql."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sqlglot.dialects import Dialect
from sqlglot.generator import Generator

from pipeline.errors import PipelineError, StageError
from pipeline.sql.queries.written import _KNOWN, written
from pipeline.stages.relational.sql import Sql
from pipeline.tables.part import Schema
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage
from tests import example_tables as examples

EXAMPLES = [
    StageExample(
        Sql(query='select a.key, count(*) as "rows", sum(b.n) as total from a join b on a.key = b.key group by a.key order by total desc'),
        {"a": examples.MIXED, "b": examples.MIXED},
    )
]

TABLES = {
    "t": pl.DataFrame({"k": [1, 1, 2, 2, 3, None], "i": [7, None, 2, -7, 9, 4], "f": [1.5, 2.5, None, 0.0, -1.0, 9.0]}),
    "u": pl.DataFrame({"k": [1, 2, 2, None, 5], "v": [10, 20, 21, 30, 50]}),
    "big": pl.DataFrame({"x": [2**62, 2**62 - 5, -(2**62)], "n": [40_000, -40_000, 7]}),
}


@pytest.mark.parametrize(
    "query",
    ["select sum(x) as s from big, u where x > 0", "select x * n as s from big", "select x + x as s from big", "select -m as s from low"],
)
def test_integers_beyond_64_bits__fail_the_run(query: str) -> None:
    with pytest.raises(PipelineError, match=r"a whole number is beyond 64 bits: -?\d+\. Cast to double first"):
        run_stage(Sql(query=query), {**TABLES, "low": pl.DataFrame({"m": [-(2**63)]})})


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_that_tie__are_in_one_order(parts: int) -> None:
    found = run_stage(Sql(query="select k, i from t order by k limit 4"), TABLES, parts)[""]
    assert found.rows() == [(1, 7), (1, None), (2, -7), (2, 2)]


def test_division_by_zero__is_missing() -> None:
    found = run_stage(Sql(query="select i / 0 as q, i % 0 as r, i // 0 as w, f / 0.0 as x from t"), TABLES)[""]
    assert found.null_count().row(0) == (6, 6, 6, 6)


PRICED = pl.DataFrame({"k": [1, 1, 2, 3, 3, None], "s": [7, 8, 7, 7, 7, 7], "at": [1, 2, 3, None, 5, 6]})
MOVED = [
    "select t.at, u.at as other from t, u where t.k = u.k and not exists (select * from t as o where o.k = u.k and o.s > u.s)",
    "select t.at, u.at as other from (select * from t where s = 7) as t join u on t.k = u.k join (select * from u) as w on t.k = w.k",
    "select t.at, w.at as other from (select * from t where s = 7) as t join t as w on t.k = w.k",
    "select k, s, p from t where p > 2 and s < 9 and exists (select * from t as o where o.k = t.k and o.s <> t.s)",
    "select t.p, sum(u.p) as total from t, u, t as w where t.k = u.k and w.k = u.k and t.p > 1 and u.s = 7 and w.s + t.s > 2 and not "
    "exists (select * from t as o where o.k = u.k and o.s > u.s and o.p is not null) group by t.p",
    "select t.k, u.p from t left join u on t.k = u.k and u.p > 2 where t.s = 7 and exists (select * from t as o where o.k = t.k)",
    "select t.k, u.p * t.p as q from t left join u on t.k = u.k and u.s = 8 and t.s = 7",
]

FEWER = {  # what becomes of them: a text that Polars is given
    "select t.at, u.at as other from t, u, t as w where t.k = u.k and u.k = w.k and (t.s = 7 and w.s = 8 or w.s = 7 and t.s = 8)": (
        '("t"."s" = 7 OR "t"."s" = 8)'
    ),
    "select t.at, u.at as other from t, u where t.k = u.k and (t.s in (7, 9) and u.at > 1 and t.p > 2 or (t.s = 8 and u.at < 3))": (
        '("t"."s" IN (7, 9)'
    ),
    "select t.at, u.at as other from t, u where t.k = u.k and (t.s = 7 or u.s = 8 and t.at > 1)": '("t"."s" = 7 OR "t"."at" > 1)',
    "select t.at, t.s from t, u, t as w where t.k = u.k and t.k = w.k and w.s = 8": 'FROM "t" AS "t" JOIN "t" AS "w"',
    "select t.at, u.s from t, u where t.k = u.k and u.s = 7 and t.p > (select avg(p) from t as o where o.k = u.k)": "SELECT DISTINCT",
    "select t.at from t where t.s = 7 and t.at > (select count(o.p) from u as o where o.k = t.k and o.s > 6)": "SELECT DISTINCT",
    "select t.at from t left join u on t.at = u.at where u.s is null and t.s = (select min(o.s) from u as o where o.k = t.k)": "LEFT JOIN",
    "with few as (select * from t where s = 7) select u.at from u, few where u.k = few.k and few.at > 1 and u.p < "
    "(select max(o.p) from u as o where o.k = few.k)": "SELECT DISTINCT",
}


def twice(table: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The table under two names, with prices."""
    return {name: table.with_columns(p=(pl.col("at") * 1.25).cast(pl.Decimal(9, 2))) for name in ("t", "u")}


def assert_is_duckdbs(query: str, tables: dict[str, pl.DataFrame]) -> None:
    """Rows, of which there are some, in the order that DuckDB has for all columns."""
    import duckdb

    with duckdb.connect() as there:
        for name, rows in tables.items():
            there.register(name, rows.to_arrow())
        expected = there.execute(f"select * from ({query}) order by all nulls last").fetchall()
    assert expected
    stage = Sql(query=query)
    assert run_stage(stage, tables)[""].rows() == expected
    needs = stage.needs({name: Schema(rows.schema) for name, rows in tables.items()}, frozenset())
    fewer = {name: rows.select(column for column in rows.columns if column in needs[name]) for name, rows in tables.items()}
    assert run_stage(stage, fewer)[""].rows() == expected


NEEDS = {
    "select t.k from t where exists (select * from u where u.s = t.s)": {"t": {"k", "s"}, "u": {"s"}},
    "select k from t where not exists (select u.*, 1 as one from u where u.k > 2)": {"t": {"k"}, "u": {"k"}},
    "select * from t": {"t": {"k", "s", "p", "w"}, "u": set()},
    "select count(*) as n from t": {"t": set(), "u": set()},
    "with few as (select k, p from u where s > 1) select few.k from few join t using (k)": {"t": {"k"}, "u": {"k", "p", "s"}},
    "select regexp_replace(w, 'a', 'b') as v from t where p > (select avg(p) from u where k = t.k)": {
        "t": {"k", "p", "w"},
        "u": {"k", "p"},
    },
    "select k from t union all select s from u order by k": {"t": {"k"}, "u": {"s"}},
}


@pytest.mark.parametrize("query", NEEDS)
def test_needs__are_the_columns_that_a_query_reads(query: str) -> None:
    schema = Schema(pl.Schema({"k": pl.Int64(), "s": pl.Int64(), "p": pl.Int64(), "w": pl.String()}))
    found = Sql(query=query).needs({"t": schema, "u": schema}, frozenset())
    assert {name: set(columns) for name, columns in found.items()} == NEEDS[query]


@pytest.mark.parametrize("query", FEWER)
def test_rows_that_conditions_leave__are_joined_first_and_change_nothing(query: str) -> None:
    table = pl.DataFrame({"k": [1, 1, 2, 3, 3, None, 3, 2], "s": [7, 8, 7, 7, 8, 7, None, 9], "at": [1, 2, 3, None, 5, 6, 7, 8]})
    tables = twice(table)
    assert_is_duckdbs(query, tables)
    assert FEWER[query] in written(query, {name: rows.schema for name, rows in tables.items()}, "cpu")[0]


@pytest.mark.parametrize("query", MOVED)
def test_conditions_of_one_table__are_asked_first_and_change_nothing(query: str) -> None:
    assert_is_duckdbs(query, twice(PRICED))


def test_what_is_asked_beside_exists__is_asked_before_it() -> None:
    text, *_ = written(MOVED[3], {"t": pl.Schema({"k": pl.Int64(), "s": pl.Int64(), "p": pl.Int64()})}, "cpu")
    assert 'FROM "t" AS "t" WHERE "t"."p" > 2 AND "t"."s" < 9) AS "_m_0" WHERE EXISTS(' in text


def test_functions_of_polars__need_no_dialect_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of a compiled sqlglot, which some other package may bring, cannot be inherited."""
    query = "select g, median(x) m, round(log(2, x), 1) r, hour(try_cast(s as timestamp)) h from t group by all"
    schema = {"t": pl.Schema({"g": pl.Int64, "x": pl.Float64, "s": pl.String})}
    for name in ("duckdb", "postgres"):  # which imports them
        assert Dialect.get(name)

    def refuse(cls: type) -> None:
        """As its classes do."""
        raise TypeError(f"{cls.__name__}: interpreted classes cannot inherit from compiled")

    for compiled in (Generator, Dialect):
        monkeypatch.setattr(compiled, "__init_subclass__", classmethod(refuse))
    _KNOWN.clear()
    assert "LOG2(" in written(query, schema, "cpu").text


def test_logarithms__have_the_base_that_the_query_says() -> None:
    found = run_stage(
        Sql(query="select log10(v) as a, log2(v) as b, log(10, v) as c, log(v) as d, log(3, v) as e from u where v = 10"), TABLES
    )[""]
    assert found.row(0) == pytest.approx((1.0, 3.321928, 1.0, 1.0, 2.095903), abs=1e-6)


def test_aggregates_of_a_whole_table__are_one_row() -> None:
    found = run_stage(Sql(query="select corr(k, v) as a, covar_samp(k, v) as b, quantile_cont(v, 0.5) as c from u"), TABLES)[""]
    assert found.rows() == [pytest.approx((0.999595, 29.833333, 21.0), abs=1e-5)]


def test_date_trunc__is_the_beginning_of_the_step() -> None:
    rows = pl.DataFrame({"s": [datetime(1969, 11, 3, 5, 6, 7, 8), datetime(2024, 12, 31, 23, 59, 59), None]})
    parts = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]
    columns = [f"date_trunc('{part}', s) as {part}_" for part in parts]
    query = f"select {', '.join(columns)}, 1 as o from t"
    found = run_stage(Sql(query=query), {"t": rows})[""]
    every = {"second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y"}
    assert_frame_equal(found.drop("o"), rows.select(pl.col("s").dt.truncate(every[part]).alias(f"{part}_") for part in parts))


def test_infinities__are_missing_and_counted() -> None:
    rows = pl.DataFrame({"f": [1e300, 2.0]})
    assert run_stage(Sql(query="select f * 1e300 as r from t"), {"t": rows})[""]["r"].to_list() == [None, 2e300]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("select k frm t", "line 1, column 14"),
        ("select k from t; select 1 as o from t", "one SELECT"),
        ("create table a as select 1", "one SELECT"),
        ("select k from tt", "no table 'tt' in `from`. Did you mean 't'"),
        ("select k from 'a.parquet'", "no table"),
        ("select k from read_parquet('a.parquet')", "is no table of `from`"),
        ("select kk from t", "no column 'kk'.*Did you mean 'k'"),
        ("select t.kk from t", "no column 'kk'"),
        ("select i + 1 from t", "a result has no name: .*Name it"),
        ("select t.k, u.k from t, u", "two results are named 'k'"),
        ("select k from t, u", "'k' is in several tables"),
        ("select f // 2 as r from t", "of whole numbers only"),
        ("select k from t where i > 1 and date '2024-01-01' > date '2023-01-01'", "is the same for every row"),
        ("select (select v from u where u.k = t.k) as r from t", "reads columns of the query around it"),
        ("select k, string_agg(cast(i as varchar), ',') as r from t group by k", "depends on the order in which rows come"),
        ("select k, first(i) as r from t group by k", "depends on the order in which rows come"),
        ("select now() as n from t", "another answer every time"),
        ("select lag(i) over (order by k) as n from t", "Use the stage window"),
        ("select row_number() over (partition by k) as n from t", "depends on the order in which rows come"),
        ("select k from t qualify row_number() over (partition by k) = 1", "depends on the order in which rows come"),
        ("select last_value(i) over () as n from t", "depends on the order in which rows come"),
        ("select corr(i, f) over (partition by k) as n from t", "has other answers in Polars"),
        ("select quantile(f, 0.5) as q from t", "Write quantile_cont"),
        ("select datediff('day', date '2024-01-01', date '2024-01-03') + i as d from t", "Subtract: b - a of dates are days"),
        ("select i from t where i > all (select v from u)", "compare with the greatest or the least"),
        ("select substr(cast(i as varchar), -1) as r from t", "counts from 1.*right"),
        ("select i from t where cast(i as varchar) > 3", "compares text with a number"),
        ("select date_trunc('fortnight', date '2024-01-01') as d, i from t", "date_trunc has no part 'fortnight'"),
        ("select date_trunc('day', i) as d from t", "takes a date, or a timestamp"),
        ("with u as (select 1 as o) select o from u", "WITH names 'u'"),
        ("select (select v from u where u.v > t.i) as r from t", "reads columns of the query around it"),
        ("select w.k as k from t, lateral (select k from u where u.k = t.k) w", "reads columns of the query around it"),
        ("select frobnicate(k) as k from t", "a query has no function 'frobnicate'"),
    ],
)
def test_query__is_refused_by_what_is_wrong_with_it(query: str, problem: str) -> None:
    with pytest.raises(StageError, match=problem):
        plan_stage(Sql(query=query), TABLES)


def test_unsigned_integers__are_not_mixed_in_silence() -> None:
    with pytest.raises(StageError, match="arithmetic of UInt64"):
        plan_stage(Sql(query="select a - b as r from t"), {"t": pl.DataFrame({"a": [1], "b": [2]}, schema={"a": pl.UInt64, "b": pl.Int64})})
