"""Whole queries, on random tables: the same text for the stage sql and for DuckDB."""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline.stages.relational.sql import Sql
from tests.differential.cases import Case
from tests.differential.tables import tables

LEFT, RIGHT = ("key", "word", "flag", "ratio", "day", "price", "small", "int32"), ("key", "word", "price", "small", "day")
# Integers meet Int64 first: DuckDB fails where 32 bits are not enough, and we do not.
QUERIES = """
select key, count(*) as n, count(word) as w, count(distinct small) as d, sum(cast(small as bigint)) as s from l group by key
select key, avg(small) as m, length(max(word)) as n from l group by key
select word, min(ratio) as lo, max(price) as hi, sum(price) as p from l group by word having count(*) > 1
select l.row, r.row as other, l.price * r.price as p, l.price - r.price as q from l join r on l.key = r.key
select l.row, r.row as other from l left join r on l.key = r.key and r.small > 0
select l.row, r.row as other from l full join r on l.key = r.key and l.word = r.word
select l.row, r.row as other from l, r where l.key = r.key and l.small < r.small
select l.row, r.row as other from l join r on l.key < r.key
select row from l where key in (select key from r where small >= 0)
select row from l where key not in (select key from r)
select row from l where key not in (select key from r where key is not null) and flag
select row from l where word not in (select word from r where small > 50)
select row from l where exists (select 1 from r where r.key = l.key)
select row from l where not exists (select 1 from r where r.key = l.key and r.word = l.word)
select row, (select max(price) from r where r.key = l.key) as m, (select count(*) from r where r.key = l.key) as n from l
select row from l where price > (select avg(price) from r where r.key = l.key)
select row from l where small > (select min(small) from r)
with t as (select key, sum(price) as p from l group by key), u as (select key, count(*) as n from r group by key) \
select t.key, p, n, p * n as w from t join u on t.key = u.key
select key, word from l union select key, word from r
select key from l union all select key from r
select key from l intersect select key from r
select key from l except select key from r
select distinct flag, day from l
select row, case when flag then price else -price end as c, coalesce(ratio, 0) + 1 as x, nullif(small, 0) as z from l
select row, cast(small as bigint) * 3 as a, small % 7 as b, cast(int32 as bigint) // 10 as c, -cast(int32 as bigint) as d from l
select row, price / 3 as a, price * cast(0.5 as double) as b, price + small as c, cast(price as bigint) as e from l where price < 100000
select row, sum(cast(small as bigint)) over (partition by key) as s, count(*) over () as n from l
select row, word like 'a%' as a, word like '%é%' as b, word not like '%z' as c, word like '_a%' as d, upper(word) as u from l
select day, count(*) filter (where flag) as n, sum(price) filter (where small > 0) as p from l group by day
select q.key, max(q.p) as m from (select key, price * price as p from l) q group by q.key
select row, price / (select count(*) from r) as share, price * (select max(small) from r) as w from l
select key, count(*) * 100.0 / (select count(*) from l) as share from l group by key
select extract(year from day) as y, extract(month from day) as m, count(*) as n from l \
group by extract(year from day), extract(month from day)
select row, cast(date_trunc('year', day) as date) as y, cast(date_trunc('quarter', day) as date) as q, \
cast(date_trunc('month', day) as date) as m, cast(date_trunc('week', day) as date) as w from l
select row, flag is true as a, flag is not true as b, flag is false as c, flag is not false as d from l
select row from l where (small > 0) is not true
select quantile_cont(small, 0.25) as q, count(*) as n from l
select quantile_cont(small, 0.25) as q from l
select row, quarter(day) as q, dayofyear(day) as d, isodow(day) as w, try_cast(word as int) as t from l
select row, day - date '2000-01-01' as since, extract(year from day) as y from l where day < date '2100-01-01'
""".strip().splitlines()


@st.composite
def query(draw: st.DrawFn) -> Case:
    """One of the queries."""
    text = draw(st.sampled_from(QUERIES))
    return Case(Sql(query=text), {"l": draw(tables(LEFT, most=24)), "r": draw(tables(RIGHT, most=24))}, text)
