"""Every function of a whole query on extremes: what DuckDB says, or what the stage's page says instead."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import polars as pl
import pytest
import sqlglot
from sqlglot import exp

from pipeline.errors import PipelineError, StageError
from pipeline.sql.queries.functions import FUNCTIONS
from pipeline.stages.relational.sql import Sql
from pipeline.testing.stages import plan_stage, run_stage
from tests.sql.extremes import differences, duckdb_says, extremes, values_of

# By what the tree calls a function: the columns of extremes and the expression, and DuckDB's where the page says something else.
CALLS = r"""
abs: i abs(i); f abs(f); p abs(p); w abs(w)
sign: i sign(i); f sign(f)
ceil: f ceil(f); p ceiling(p)
floor: f floor(f); p floor(p)
round: f round(f) => round_even(f, 0); f round(f, 2) => round_even(f, 2); i round(i); p round(p, 1) => round_even(p, 1)
trunc: f trunc(f)
exp: f exp(f); i exp(i)
ln: f ln(f); i ln(i)
log: f log2(f); f log10(f); f log(f); fg log(g, f)
log1p: g log1p(g) => ln(1 + g)
sqrt: f sqrt(f); i sqrt(i)
cbrt: f cbrt(f)
pow: fg power(f, g); ij pow(i, j); fg f ** g
pi: f pi()
degrees: f degrees(f)
radians: f radians(f)
sin: f sin(f)
cos: f cos(f)
tan: f tan(f)
cot: f cot(f)
asin: f asin(f)
acos: f acos(f)
atan: f atan(f)
atan2: fg atan2(f, g)
bit_count: w bit_count(w)
greatest: ij greatest(i, j); fg greatest(f, g); tu greatest(t, u); de greatest(d, e)
least: ij least(i, j); fg least(f, g); tu least(t, u); de least(d, e)
coalesce: ij coalesce(i, j, 0); tu ifnull(t, u)
nullif: ij nullif(i, j); tu nullif(t, u); f nullif(f, 0)
if: b if(b, 1, 2); b case when b then 1 end
case: b case b when true then 'x' else 'y' end; i case i when 1 then 'a' when null then 'n' else 'z' end
cast: i cast(i as varchar); f cast(f as varchar); s cast(s as varchar); p cast(p as varchar); b cast(b as varchar); s cast(s as date);
    CASTS
trycast: t try_cast(t as int); t try_cast(t as double); t try_cast(t as date); i try_cast(i as int); f try_cast(f as real)
lower: t lower(t); t lcase(t)
upper: t upper(t); t ucase(t)
initcap: u initcap(u) => upper(u)
trim: t trim(t); t ltrim(t); t rtrim(t); t trim(t, 'a'); t ltrim(t, 'a-'); t rtrim(t, 'c-'); t trim(both 'a' from t);
    t trim(trailing 'c' from t)
length: t length(t); t len(t); t char_length(t)
bitlength: t bit_length(t)
octet_length: t octet_length(t) => octet_length(encode(t))
left: tn left(t, n); t left(t, 0); t left(t, -1); t left(t, 3); n left('Zürich', n)
right: tn right(t, n); t right(t, 0); t right(t, -1); t right(t, 3); t right(t, 5); n right('Zürich', n)
substring: t substr(t, 2); tk substr(t, 2, k); t substring(t from 2 for 3); t substr(t, 1, 0); t substr(t, 1, null)
replace: t replace(t, 'a', '--'); t replace(t, '', 'x'); t replace(t, 'b', null); tu replace(t, 'a', u)
reverse: t reverse(t)
concat: tu concat(t, u); ti concat(t, i); ts concat(t, s); ts t || s; tu t || u; td t || d; ti t || i
concatws: tu concat_ws('-', t, u)
pad: t lpad(t, 3, '*'); t lpad(t, 0, '*'); t rpad(t, 3, 'ü'); tk lpad(t, k, 'ü') => lpad(t, k::int, 'ü')
startswith: tu starts_with(t, u); tu prefix(t, u); t t like 'a%'
endswith: tu ends_with(t, u); tu suffix(t, u); t t like '%c'
strposition: tu strpos(t, u); t strpos(t, 'r'); t strpos(t, '.'); t strpos(t, ''); tu position(u in t); tu instr(t, u)
regexplike: t regexp_matches(t, '^[a-c]+'); t t ~ '^a' => regexp_matches(t, '^a'); t t like '_'; t t like 'a%c'; t t not like '%a%';
    t t like ''
splitpart: tu split_part(t, u, 1); tn split_part(t, '-', n); t split_part(t, '-', -1); t split_part(t, '', 1)
regexpreplace: t regexp_replace(t, '[a-c]', 'x'); t regexp_replace(lower(t), '(b)?', '<\1>', 'g'); t upper(regexp_replace(t, 'a', 'b'))
regexpextract: t regexp_extract(t, '([a-z])-', 1); t length(regexp_extract(t, '[a-z]+'))
timetostr: d strftime(d, '%Y-%m'); s strftime(s, '%H:%M'); d strftime(d, '%Y-%m') || '-01'
strtotime: d strptime(cast(d as varchar), '%Y-%m-%d')
date: s date(s); d date(d); d date(cast(d as varchar))
year: d year(d); s year(s)
month: d month(d)
day: d day(d); d dayofmonth(d)
quarter: d quarter(d)
week: d week(d)
weekofyear: d weekofyear(d)
dayofyear: d dayofyear(d)
dayofweek: d dayofweek(d)
dayofweekiso: d isodow(d)
hour: s hour(s)
minute: s minute(s)
second: s second(s)
extract: EXTRACTS; d extract(epoch from d); s date_part('epoch', s); s microsecond(s); s extract(millisecond from s); d century(d);
    d isoyear(d)
timetounix: s epoch(s); d epoch(d)
timestamptrunc: CUTS; d date_trunc('month', d) => date_trunc('month', d)::date; d date_trunc('week', d) => date_trunc('week', d)::date
datetrunc: d date_trunc('month', date '2024-05-17') => date '2024-05-01'
dateadd: d date_add(d, interval 1 day) => d + 1; s s + interval '1 hour'; d d + 1; d d - 1;
    d d + interval '1 month' => (d + interval '1 month')::date
"""
PARTS = ["year", "quarter", "month", "week", "day", "doy", "dow", "isodow", "isoyear", "decade", "century"]
MADE = {
    "CASTS": "d cast(d as timestamp); i cast(i as boolean); f try_cast(f as bigint); b cast(b as int); p cast(p as double)",
    "EXTRACTS": "; ".join(f"s extract({part} from s)" for part in PARTS),
    "CUTS": "s date_trunc('day', s at time zone 'Europe/Berlin'); z date_trunc('day', z); z extract(hour from z at time zone 'UTC'); "
    + "z date_trunc('month', z at time zone 'Asia/Tokyo'); "
    + "; ".join(f"s date_trunc('{part}', s)" for part in ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]),
}
AGGREGATES = """
count: count(*); count(i); count(distinct i); count(distinct t); count(*) filter (where b)
sum: sum(i); sum(f); sum(p); sum(b); sum(distinct i); sum(distinct f); sum(i) filter (where b); sum(f) filter (where false)
avg: avg(i); avg(f); avg(p); avg(distinct i); mean(f); avg(f) filter (where f > 0)
min: min(i); min(t); min(b); min(d); min(t) filter (where b)
max: max(i); max(f); max(b); max(p); max(i) - min(i)
median: median(i); median(f)
stddev: stddev(f); stddev(i); stddev(f) filter (where b)
stddevsamp: stddev_samp(f)
stddevpop: stddev_pop(f); stddev_pop(i) filter (where b)
variance: variance(f); var_samp(i)
variancepop: var_pop(f); var_pop(f) filter (where b)
corr: corr(f, g)
covarsamp: covar_samp(f, g)
covarpop: covar_pop(f, g)
percentilecont: quantile_cont(i, 0.25); quantile_cont(f, 0.9); percentile_cont(0.25) within group (order by f); PERCENTILE
logicaland: bool_and(b); bool_and(b) filter (where f > 0)
logicalor: bool_or(b); bool_or(b) filter (where f > 0)
""".replace("PERCENTILE", "percentile_cont(0.25) within group (order by i desc)")
NOT_OVER = {"corr", "covarsamp", "covarpop", "percentilecont"}
ROWS = pl.DataFrame(
    {
        "k": [1, 1, 1, 1, 2, 2, 3, None, None],
        "i": [7, None, -7, 7, None, None, 0, 2**40, 4],
        "f": [1.5, None, -2.5, 1.5, None, None, 0.0, 9.0, 1e15],
        "g": [2.0, 1.0, None, 4.5, 3.0, None, 1.0, 2.0, 3.0],
        "t": ["b", None, "", "é", "ü", None, "a", "a", "b"],
        "b": [True, None, False, True, None, None, True, False, False],
        "p": pl.Series(["1.25", None, "2.50", "0.05", None, None, "0.05", "-3", "7"]).cast(pl.Decimal(12, 2)),
        "d": pl.Series([-400, None, 19_000, 5, None, None, 0, 11_000, -700_000], dtype=pl.Int32).cast(pl.Date),
    }
)


@cache
def calls(text: str) -> dict[str, list[str]]:
    """By function: what is written in the table."""
    text = text.replace(";\n    ", "; ")
    for word, meaning in MADE.items():
        text = text.replace(word, meaning)
    return {name: listed.split("; ") for name, _, listed in (line.partition(": ") for line in text.strip().splitlines())}


def test_every_function__stands_here() -> None:
    assert set(calls(CALLS)) | set(calls(AGGREGATES)) == set(FUNCTIONS)


@pytest.mark.parametrize("function", sorted(calls(CALLS)))
def test_function__gives_duckdbs_values_of_extremes(function: str) -> None:
    for call in calls(CALLS)[function]:
        columns, expression = call.split(" ", 1)
        ours, _, theirs = expression.partition(" => ")
        rows = extremes(columns)
        found = run_stage(Sql(query=f'select "row", {ours} as r from x'), {"x": rows})[""]
        assert differences(rows, values_of(found.sort("row")["r"]), duckdb_says(rows, theirs or ours)) == [], ours


def asked(query: str) -> list[tuple[Any, ...]]:
    """DuckDB's rows."""
    with duckdb.connect() as connection:
        connection.register("x", ROWS.to_arrow())
        rows = connection.sql(query).fetchall()
    return [tuple(None if isinstance(value, float) and math.isnan(value) else value for value in row) for row in rows]


@pytest.mark.parametrize("form", ["of all", "of none", "by key", "over"])
@pytest.mark.parametrize("function", sorted(calls(AGGREGATES)))
def test_aggregate__gives_duckdbs_values(function: str, form: str) -> None:
    for call in calls(AGGREGATES)[function]:
        if form == "over" and (
            function in NOT_OVER or " - " in call or "(distinct f" in call or (function in {"sum", "avg"} and "distinct" in call)
        ):
            continue
        query = {
            "of all": f"select 0 as k, {call} as r from x",
            "of none": f"select 0 as k, {call} as r from x where i > 1000 and i < 1000",
            "by key": f"select k, {call} as r from x group by k order by k",
            "over": f"select k, i, f, g, {call} over (partition by k) as r from x order by k, i, f, g",
        }[form]
        found = run_stage(Sql(query=query), {"x": ROWS}, 2)[""].rows()
        for mine, other in zip(found, asked(query), strict=True):
            assert mine[:-1] == other[:-1]
            assert mine[-1] == (
                pytest.approx(float(other[-1]), rel=1e-12) if isinstance(mine[-1], float) and other[-1] is not None else other[-1]
            )


@pytest.mark.parametrize("call", ["abs(i)", "i + i", "-i", "power(i, 2) * i = 1 or i * i > 0"])
def test_integers_that_have_no_answer__fail_the_run(call: str) -> None:
    with pytest.raises(PipelineError, match="beyond 64 bits"):
        run_stage(Sql(query=f"select {call} as r from x"), {"x": pl.DataFrame({"i": [-(2**63)]})})


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, int | float | Decimal) else value


QUERIES = """
select count(*) as r from x having count(*) > 1
select count(*) as r, sum(i) as s from x having count(*) > 100
select max(i) as r from x where i < 0 having max(k) is null
select k from x where i > (select avg(i) as m from x having count(*) > 3)
select a.k as k, b.f as f from x a join x b on a.i = b.f
select a.k as k, b.f as f from x a join x b on a.i < b.f
select a.k as k, b.f as f from x a left join x b on a.k = b.k and a.i >= b.f
select a.k as k, b.p as p from x a join x b on a.i = b.p
select a.k as k, b.p as p from x a join x b on a.f = b.p
select a.k as k, b.f as f from x a join x b on a.i between b.f and b.g
select a.k as k, b.f as f from x a join x b on a.k = b.k and a.i between b.f and 100
select sum(i) over () as r from x
select count(*) over () as r, max(f) over () as m from x
select k, sum(distinct i) as s, avg(distinct f) as a from x group by k
select strftime(d, '%Y') as y, count(*) as n from x group by 1
select regexp_replace(a.t, 'a', 'z') as y, count(*) as n from x a join x b on a.k = b.k where regexp_replace(a.t, 'a', 'z') > 'b' group by 1
select k from x group by k having bool_or(b) and not bool_and(b)
select k, percentile_cont(0.5) within group (order by f) as m, stddev_pop(f) as s from x group by k
""".strip().splitlines()


@pytest.mark.parametrize("query", QUERIES)
def test_query__gives_duckdbs_rows(query: str) -> None:
    order = " order by all"
    found = run_stage(Sql(query=query), {"x": ROWS}, 2)[""]
    theirs = asked(query + order)
    assert len(found) == len(theirs)
    for mine, other in zip(found.sort(found.columns, nulls_last=True).rows(), theirs, strict=True):
        assert [_plain(one) for one in mine] == pytest.approx([_plain(one) for one in other])


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("select k, count(*) as n from x", r'"x"."k" has a value a row, and COUNT\(\*\) beside it one in all. Add GROUP BY'),
        ("select i + count(*) as n from x", "has a value a row"),
        ("select k from x having count(*) > 1", "has a value a row"),
        ("select k, sum(count(*)) over () as n from x group by k", "is a window over groups. Group in a query within FROM"),
        ("select quantile_cont(i, 0.5) over (partition by k) as n from x", "has other answers in Polars"),
        ("select distinct on (k) k, i from x", "DISTINCT ON depends on the order in which rows come. Use the stage top_n"),
        *(
            (f"select k, count(*) as n from x group by {how}", "groups in several ways. Write a SELECT for each of them, with UNION ALL")
            for how in ("rollup (k)", "cube (k, t)", "grouping sets ((k), ())", "()")
        ),
        (
            "select k from x where i in (select f from x)",
            "IN, EXISTS, SEMI and ANTI JOIN compare numbers of one kind, not DOUBLE with BIGINT",
        ),
        ("select a.k from x a semi join x b on a.i = b.f", "IN, EXISTS, SEMI and ANTI JOIN compare numbers of one kind"),
        ("select i from x except select f from x", "EXCEPT of 'i', BIGINT and DOUBLE, has to compare numbers of one kind"),
        ("select p % 2 as r from x", "not there for decimals"),
        ("select try_cast(t as boolean) as r from x", "a text is no condition"),
        ("select d + interval '1 hour' as r from x", "a date has no hours. Cast it, as in cast"),
        ("select extract(julian from d) as r from x", "there is no part julian. There are epoch, century"),
        ("select string_agg_(t) as r from x", "a query has no function 'string_agg_'"),
        ("select uper(t) as r from x", "a query has no function 'uper'. Did you mean 'upper'"),
        ("select sum(distinct i) over (partition by k) as r from x", "counts each value once, and has no window"),
        ("select replace(t, cast(k as varchar), '') as r from x", "replaces one text, in quotes, for all rows"),
        ("select regexp_replace(w, 'a', '') as r from (select upper(t) as w from x) q", "is worked out on rows of one table of `from`"),
        ("select regexp_replace(trim(t), 'a', '') as r from x", r"holds TRIM.*Work that out in a stage derive before"),
        ("select strftime(d, '%H:%M') as r from x", "a date has no hours"),
        ("select mode(t) as r from x", "a query has no function 'mode'. The stage aggregate has quantile and mode"),
        ("select percentile_disc(0.5) within group (order by i) as r from x", "WITHIN GROUP is there for percentile_cont"),
    ],
)
def test_what_polars_answers_otherwise__is_refused(query: str, problem: str) -> None:
    with pytest.raises(StageError, match=problem):
        plan_stage(Sql(query=query), {"x": ROWS})


def test_calls__name_the_functions_that_they_are_for() -> None:
    for name, listed in {**calls(CALLS), **calls(AGGREGATES)}.items():
        trees = [
            sqlglot.parse_one("select " + (call.split(" ", 1)[1] if name in calls(CALLS) else call).partition(" => ")[0], read="duckdb")
            for call in listed
        ]
        keys = {node.name.lower() if isinstance(node, exp.Anonymous) else node.key for tree in trees for node in tree.find_all(exp.Func)}
        assert name in keys or listed[0].endswith(("%c'", "%'")), name
