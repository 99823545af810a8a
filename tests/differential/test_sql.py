"""Queries of the stage sql give what DuckDB gives."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import polars as pl
import pytest

from pipeline.stages.relational.sql import Sql
from pipeline.testing.examples import Between
from pipeline.testing.stages import run_stage
from tests.differential.oracle import assert_same

LEFT = pl.DataFrame(
    {
        "k": [1, 1, 2, 2, 3, None],
        "i": [7, None, 2, -7, 9, 4],
        "j": [2, 3, 0, 2, None, 4],
        "f": [1.5, 2.5, None, 0.0, -1.0, 9.0],
        "s": ["a", "b", None, "A", "ab", "a"],
        "yes": [True, False, None, True, True, False],
        "d": [Decimal("1.25"), Decimal("0.05"), None, Decimal("-3.10"), Decimal("99999.99"), Decimal("1.25")],
    },
    schema_overrides={"d": pl.Decimal(10, 2)},
)
RIGHT = pl.DataFrame(
    {"k": [1, 2, 2, None, 5], "v": [10, 20, 21, 30, 50], "p": [Decimal("0.125")] * 4 + [Decimal("-7.001")]},
    schema_overrides={"p": pl.Decimal(8, 3)},
)
WHOLE = pl.DataFrame({"x": [2**62, 2**62 - 5, -(2**62)], "n": pl.Series([40_000, -40_000, 7], dtype=pl.Int32)})
TABLES = {"t": LEFT, "u": RIGHT, "big": WHOLE}

QUERIES = """
select i / j as r, i / 4 as q from t where j <> 0
select k from t where k not in (select k from u)
select k from t where k not in (select k from u where k is not null)
select k, i from t where k not in (select k from u where v > 100) and i > 0
select s from t where s like 'a%b' or s like '_' or s not like '%a_%'
select i, timestamp '2024-01-31 10:00:00' > cast('2024-01-31' as date) as later from t
select cast(w as date) as d from (select '2024-02-29' as w from u) q
select k from t where k in (select k from u) order by k
select k, i from t where not exists (select 1 from u where u.k = t.k)
select k, i from t where exists (select 1 from u where u.k = t.k and u.v > t.i)
select k, i, (select max(v) from u where u.k = t.k) as m from t
select k, i, (select count(*) from u where u.k = t.k) as m from t
select k, i from t where i > (select avg(v) from u where u.k = t.k) / 10
select k, i from t where i > (select avg(i) from t as o where o.k = t.k)
select i from t where i > (select avg(v) from u) / 10
select x, n, n * 2 as a, n + n as b, n - 1 as c, -x as e from big
select sum(n) as s, avg(x) as a, min(x) as lo, count(*) - 5 as c, sum(n * 2) as w from big
select sum(x) as s from big
select d * p as a, d + p as b, d - p as c, d / p as e, d * 2 as f, 1 - d as g from t join u on t.k = u.k
select sum(d * p) as s, max(d * (1 - p)) as m, avg(d) as a from t, u
select sum(case when yes then d * p else 0 end) * 3 as s, sum(d) as w from t cross join u
select q.worth * p as a from (select k, d * d as worth from t) q join u on q.k = u.k
with w as (select t.k, d * p as worth from t, u), z as (select worth * 2 as w2 from w) select w2 * p as r from z, u
select worth * 3 as r from (select d as worth from t union all select p from u) q
select f, s from t order by f desc, s
select s from t order by s
select k, count(*) as c, count(i) as ci, count(distinct j) as cd, sum(i) as s, avg(i) as a, min(s) as mi from t group by k
select k, sum(i) as s from t group by all having sum(i) > 3
select t.k, v from t left join u on t.k = u.k and v > 20 order by v
select t.k, v from t join u on t.k = u.k and v > 10 and i > 0
select k, v from t full join u using (k)
select t.k as a, u.k as b from t full join u on t.k = u.k
select t.k, v from u right join t on t.k = u.k
select a.k, b.v from t as a, u as b, big as c where a.k = b.k
select a.k, b.v from t as a join u as b on a.k < b.k
select case when i > 3 then 'x' else s end as c, coalesce(i, 0) + 1 as o, nullif(i, 7) as n from t
select s || 'z' as c, upper(s) as u, length(s) as l, substring(s, 1, 1) as x from t where s like 'a%' or s is null
with w as (select k, max(i) as m from t group by k) select w.k, w.m from w where m > 2
select k from t union select k from u
select k from t union all select k from u
select k from t intersect select k from u
select k from t except select k from u
select distinct k from t order by k nulls first limit 3
select max(i) as m from t where false
select sum(i) filter (where yes) as c, count(*) filter (where i > 3) as n from t
select sum(f) as s, stddev(f) as sd, var_samp(f) as va from t
select cast(f as integer) as c, cast(d as bigint) as e, round(f * 0.31, 1) as r from t
select s from t where s not like 'a%' and s not like '%b' and not s like '%A%' and s not ilike 'x%'
select s, s like '%b' as e, s like 'a%' as st, s like '%b%' as c, s like 'a_' as u, s like '%' as w, s like 'a%b' as m from t
select strpos(s, 'b') as p, s like 'a.%' as x, s like '%.%' as y from t
select k, i from t where k in (select k from u where v > 10) and i in (select o.i from t as o where o.i > 2)
select extract(year from date '2024-01-31') as y, date '2024-01-31' - date '2024-01-01' as n from t
select k, i, sum(i) over (partition by k) as s, count(*) over () as n from t
select i % j as r, i // j as q, f % 2 as g2, -i % 3 as h, abs(i) as a, greatest(i, j) as g from t where j <> 0
select * exclude (f, s, yes, d) from t where j between 2 and 3
select k, sum(d * f) * 3 as v, max(d * f) + min(d) as w, -sum(d * f) + 1 as x from t group by k
select k, coalesce(d * f, 0) + d as v, case when k = 1 then d * f else d end + d as w, abs(d * f - d) + d as x, (d * f) * d as y from t
select k, v * 2 as w from (select k, sum(d * f) as v from t group by k) q
select k, sum(v) * 2 as w from (select k, d as v from t union all select k, d * f as v from t) q group by k
select k, d from t where d > (select sum(d * f) * 2 from t where k = 1) order by k, d
select k, sum(d * f) over (partition by k) + d as v, sum(d * f) filter (where k = 1) over () + d as w from t
select k, max(f) + k as v, case when k = 1 then sum(f) else max(f) * k end as w from t group by k
select k, i, max(f) + k * i as v from t group by k, i
select k + 1 as n, max(f) * (k + 1) as v from t group by k + 1
select k, max(f) as v from t group by k having max(f) + k > 2.5
select s, count(*) || s as v, max(yes) and s = 'a' as w from t group by s
""".strip().splitlines()


def answered(query: str) -> pl.DataFrame:
    """What DuckDB says."""
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table.to_arrow())
        found = pl.from_arrow(connection.sql(query).to_arrow_table())
    assert isinstance(found, pl.DataFrame)
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_query__gives_duckdbs_rows(query: str) -> None:
    expected = answered(query)
    found = run_stage(Sql(query=query), TABLES, 2)[""]
    assert_same(found, expected, ordered="order by" in query)


@pytest.mark.parametrize("query", QUERIES[3::6])
def test_query__has_the_same_rows_in_the_same_order_of_any_parts(query: str) -> None:
    one = run_stage(Sql(query=query), TABLES)[""]
    assert run_stage(Sql(query=query), TABLES, 7)[""].equals(one)
    assert run_stage(Sql(query=query), TABLES, 2, Between())[""].equals(one)
