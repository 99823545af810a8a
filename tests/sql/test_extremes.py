"""Every function of an expression on extremes: what DuckDB says, or what docs/expressions.md says instead."""

from __future__ import annotations

import pytest

from pipeline.sql.expression import FUNCTIONS
from tests.sql.expression_page import derived
from tests.sql.extremes import differences, duckdb_says, extremes, values_of

# By function: the columns of extremes, our expression, and DuckDB's where that is another: what stands there the page says.
CALLS = r"""
abs: i abs(i); f abs(f); p abs(p); w abs(w)
sign: f sign(f); i sign(i)
ceil: f ceil(f); p ceil(p)
floor: f floor(f); p floor(p)
round: f round(f) => round_even(f, 0); f round(f, 2) => round_even(f, 2); i round(i); p round(p, 1) => round_even(p, 1)
trunc: f trunc(f); p trunc(p)
exp: f exp(f); i exp(i)
ln: f ln(f); i ln(i)
log: fg log(f, g) => log(g, f); f log(f, 2) => log2(f)
log2: f log2(f)
log10: f log10(f)
log1p: g log1p(g) => ln(1 + g)
sqrt: f sqrt(f); i sqrt(i)
cbrt: f cbrt(f)
power: fg power(f, g); ij power(i, j)
pow: fg pow(f, g); ij pow(i, j)
div: ij div(i, j) => (i::hugeint - REMAINDER) // j
mod: ij mod(i, j) => REMAINDER
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
greatest: ij greatest(i, j); fg greatest(f, g); tu greatest(t, u); de greatest(d, e)
least: ij least(i, j); fg least(f, g); tu least(t, u); de least(d, e)
coalesce: ij coalesce(i, j, 0); tu coalesce(t, u)
ifnull: ij ifnull(i, j); tu ifnull(t, u)
nullif: ij nullif(i, j); fg nullif(f, g); tu nullif(t, u)
if: btu if(b, t, u); tu if(t > u, t, u)
lower: t lower(t)
upper: t upper(t)
initcap: u initcap(u) => upper(u)
trim: t trim(t); t trim(both 'a' from t) => trim(t, 'a')
ltrim: t ltrim(t); t ltrim(t, 'a-'); tu ltrim(t, u)
rtrim: t rtrim(t); t rtrim(t, 'c-'); tu rtrim(t, u)
length: t length(t); l length(l)
len: t len(t); l len(l)
array_length: l array_length(l)
octet_length: t octet_length(t) => octet_length(encode(t))
left: tn left(t, n); t left(t, 0); t left(t, -1); t left(t, 3); t left(t, 100); n left('Zürich', n)
right: tn right(t, n); t right(t, 0); t right(t, -1); t right(t, 3); t right(t, 5); n right('Zürich', n)
substr: tk substr(t, k); t substr(t, 2); tk substr(t, 2, k); tkn substr(t, k, greatest(n, 0));
    tn substr(t, n) => case when n is not null then substr(t, greatest(n, 1)) end
substring: t substring(t from 2 for 3); tk substring(t, k, 2); t substring(t, 1, 0)
replace: t replace(t, 'a', '--'); t replace(t, '', 'x'); t replace(t, '.', '')
reverse: t reverse(t)
concat: tu concat(t, u); ti concat(t, i); td concat(t, d)
concat_ws: tu concat_ws('-', t, u); tu concat_ws('', t, u, t)
lpad: t lpad(t, 3, '*'); t lpad(t, 0, '*'); tk lpad(t, k, 'ü') => lpad(t, k::int, 'ü')
rpad: t rpad(t, 3, 'ü'); t rpad(t, 0, '*'); tk rpad(t, k, '*') => rpad(t, k::int, '*')
starts_with: tu starts_with(t, u); tu t ^@ u => starts_with(t, u)
ends_with: tu ends_with(t, u)
strpos: tu strpos(t, u) => coalesce(strpos(t, u), 0); t coalesce(strpos(t, 'r'), 0)
position: t position('b' in t) => coalesce(strpos(t, 'b'), 0); t position('.' in t) => coalesce(strpos(t, '.'), 0)
regexp_like: t regexp_like(t, '^[a-c]+') => regexp_matches(t, '^[a-c]+'); t t ~ '' => regexp_matches(t, '')
regexp_matches: t regexp_matches(t, '[a-c]+', 'i'); t regexp_matches(t, '^$'); t t !~ 'a' => not regexp_matches(t, 'a')
regexp_extract: t regexp_extract(t, '([a-z])-', 1); t regexp_extract(t, 'q?'); t regexp_extract(t, '')
regexp_replace: t regexp_replace(t, '[a-c]', 'x'); t regexp_replace(t, '', 'x', 'g'); t regexp_replace(t, '(b)?', '<\1>', 'g')
split_part: tu split_part(t, u, 1); tu split_part(t, u, 2); tn split_part(t, '-', n); t split_part(t, '', 1); t split_part(t, '-', -1)
string_split: t string_split(t, '-'); t string_split(t, ''); tn string_split(t, '-')[n]
list_extract: ln list_extract(l, n); l l[1]; ln list_extract(l, n + 1)
list_contains: ln list_contains(l, n); l list_contains(l, 3)
date: d date(cast(d as varchar)) => d;
    t coalesce(try_cast(t as date), date('2020-02-29'))
timestamp: d timestamp(cast(d as varchar) || ' 01:02:03') => cast(cast(d as varchar) || ' 01:02:03' as timestamp)
strptime: d strptime(cast(d as varchar), '%Y-%m-%d') => d::timestamp
strftime: d strftime(d, '%Y/%m/%d %j %y'); s strftime(s, '%H:%M:%S %I %p %b %B %a %A'); s strftime(s, '%-d.%-m %-H %U %W %u %w %V %G %%')
extract: d extract(year from d); s extract(hour from s); z extract(day from z)
date_part: PARTS; s date_part('epoch', s); z date_part('epoch', z); d date_part('epoch', d); z date_part('hour', z); z date_part('doy', z)
date_trunc: CUTS; ZONED; s date_trunc('hour', s at time zone 'Europe/Berlin')
cast: i cast(i as varchar); f cast(f as varchar); p cast(p as varchar); d cast(d as varchar); i cast(i as boolean); s cast(s as date)
try_cast: t try_cast(t as int); t try_cast(t as double); t try_cast(t as date); i try_cast(i as int); f try_cast(f as real)
"""
REMAINDER = "((i::hugeint % j) + j) % j"
CUT = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]
LOCAL = "(z at time zone 'Europe/Berlin')"
EACH = f"z - ({LOCAL} - date_trunc('hour', {LOCAL}))"  # of an hour that is shown twice each stays itself
PARTS = ["year", "quarter", "month", "week", "day", "doy", "dow", "isodow", "isoyear", "decade", "century"]
MADE = {
    "REMAINDER": REMAINDER,
    "PARTS": "; ".join(f"s date_part('{part}', s)" for part in PARTS),
    "CUTS": "; ".join(f"s date_trunc('{part}', s)" for part in CUT),
    "ZONED": "; ".join(f"z date_trunc('{part}', z)" for part in CUT if part != "hour") + "; z date_trunc('hour', z) => " + EACH,
}


def calls() -> dict[str, list[tuple[str, str, str]]]:
    """By function: the columns of extremes, our expression, and DuckDB's."""
    text = CALLS.replace(";\n    ", "; ")
    for word, meaning in MADE.items():
        text = text.replace(word, meaning)
    found = {}
    for line in text.strip().splitlines():
        name, _, listed = line.partition(": ")
        pairs = [call.split(" ", 1) for call in listed.split("; ")]
        found[name] = [(columns, *_both(expression)) for columns, expression in pairs]
    return found


def _both(expression: str) -> tuple[str, str]:
    ours, _, theirs = expression.partition(" => ")
    return ours, theirs or ours


def test_every_function__stands_here() -> None:
    assert set(calls()) == set(FUNCTIONS) - {"hash"}  # which is our own, and tested with the stage split


@pytest.mark.parametrize("function", sorted(calls()))
def test_function__gives_duckdbs_values_of_extremes(function: str) -> None:
    for columns, ours, theirs in calls()[function]:
        rows = extremes(columns)
        assert differences(rows, values_of(derived(ours, rows)), duckdb_says(rows, theirs)) == [], ours
