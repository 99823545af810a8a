"""What cuDF would answer otherwise than Polars is refused; forms that both answer alike are not (docs/gpu.md)."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from pipeline.backend.engines import refusals
from pipeline.sql.expression import check_value, finite

pytestmark = pytest.mark.contract

ROWS = pl.DataFrame(
    {
        "x": [1.5, -2.25],
        "f": pl.Series([1.5, 2.5], dtype=pl.Float32),
        "i": [1, 2],
        "small": pl.Series([1, 2], dtype=pl.Int16),
        "u": pl.Series([1, 2], dtype=pl.UInt64),
        "p": pl.Series(["1.50", "2.25"]).cast(pl.Decimal(9, 2)),
        "t": ["a", "b"],
        "s": [dt.datetime(2020, 1, 1), dt.datetime(1960, 1, 1)],
    }
).with_columns(z=pl.col("s").dt.replace_time_zone("Europe/Berlin"))
x, i, u, p, t, z = (pl.col(name) for name in ("x", "i", "u", "p", "t", "z"))

REFUSED = [
    (x.cast(pl.Int64), "takes what does not fit"),
    (x.cast(pl.Int64, strict=False), "takes what does not fit"),
    (p.cast(pl.Int64), "takes what does not fit"),
    (i.cast(pl.Int8), "wraps what does not fit"),
    (i.cast(pl.UInt64), "wraps what does not fit"),
    (u.cast(pl.Int64), "wraps what does not fit"),
    (t.cast(pl.Int64), "wraps numbers that are too large"),
    (x.cast(pl.Decimal(9, 2)), "wraps what has more digits"),
    (i.cast(pl.Decimal(9, 2)), "wraps what has more digits"),
    (p.cast(pl.Decimal(38, 1)), "cuts digits"),
    (pl.when(p < 9).then(p).otherwise(None).cast(pl.Decimal(38, 1)), "cuts digits"),
    (pl.when(x < 9).then(x).otherwise(None).cast(pl.Decimal(38, 16)), "leave 21 before it"),
    (pl.when(i < 9).then(x).otherwise(None).cast(pl.Int8), "takes what does not fit"),
    (pl.when(i < 9).then(pl.lit("x")).otherwise(pl.lit("700")).cast(pl.Int8), "wraps numbers that are too large"),
    (x.cast(pl.String), "writes floats with other digits"),
    (x % 0.1, "adds the divisor"),
    (u % pl.lit(2**63, dtype=pl.UInt64), "adds the divisor"),
    (i % pl.col("i"), "adds the divisor"),
    (x.round(2), "rounds 2.675"),
    (i.cast(pl.Date), "takes every number for two"),
    (pl.col("small").cast(pl.Date, strict=False), "takes every number for two"),
    (pl.when(i.is_between(0, 9)).then(i).otherwise(None).cast(pl.Date), "takes every number for two"),
    (pl.col("s").dt.date().cast(pl.Int32).cast(pl.Date), "takes every number for two"),
    (i.is_in([1, None], nulls_equal=True), "knows no nulls_equal"),
    (i.hash(), "hashes are others"),
    (z.dt.hour(), "clock of UTC"),
    (z.dt.date(), "clock of UTC"),
    (z.dt.truncate("1h"), "clock of UTC"),
    (z.dt.strftime("%H"), "clock of UTC"),
    *((t.str.contains(pattern), "regular expression") for pattern in ("[[:alpha:]]", "[a-z&&[^b]]", "[a~~b]", r"\x41", "[a[b]]", r"\<a")),
    (t.str.to_date("%Y-%m-%d", cache=False), "looks at no more than '%Y-%m-%d' says"),
    (t.str.to_datetime("%Y-%m-%d %H:%M", time_unit="us", strict=False, cache=False), "takes any that goes on"),
    (pl.when(t > "a").then(t).otherwise(None).str.to_date("%Y", strict=False, cache=False), "takes any that goes on"),
    (pl.when(t.str.contains("^2")).then(t).otherwise(None).str.to_date("%Y", strict=False, cache=False), "takes any that goes on"),
    (t.str.extract("([[:digit:]]+)"), "regular expression"),
    (t.str.count_matches("[[:digit:]]"), "regular expression"),
]


@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_cudf_answers_otherwise__is_refused(value: pl.Expr, reason: str) -> None:
    for query in (ROWS.lazy().select(value), ROWS.lazy().with_columns(new=value), ROWS.lazy().filter(value.is_not_null())):
        assert any(reason in found for found in refusals(query))


ALIKE = [
    *(i.is_in([1, 2]), i.cast(pl.Datetime("us")), pl.col("s").cast(pl.Date), pl.col("s").dt.date().cast(pl.Int32)),
    *(pl.col("small").cast(pl.Int64), i.cast(pl.Float64), x.cast(pl.Float32), p.cast(pl.Float64), p.cast(pl.Decimal(38, 4))),
    *(i % 7, i % -(2**62), x.round(0), i.round(2), t.str.len_chars().cast(pl.Int32), t.str.to_integer(strict=False)),
    *(z.dt.replace_time_zone(None).dt.hour(), z.dt.convert_time_zone("UTC").dt.hour(), pl.col("s").dt.hour(), z.dt.epoch("us")),
    *(t.str.contains(pattern) for pattern in ("^rs[0-9]+$", r"a\.b|(c|d)*?", r"\[x\]", r"[]a-]", r"[^\]a&b~c-]", r"\d{2,3}\s+\w", "ä.ö")),
    pl.when(p < 9).then(p.round(1)).otherwise(None).cast(pl.Decimal(38, 1)),
    pl.when(i < 9).then(pl.lit("x")).otherwise(pl.lit("0")).cast(pl.Int8),
    pl.when(x.is_between(-9, 9)).then(x).otherwise(None).cast(pl.Int8),
    pl.when(p.cast(pl.Int64, strict=False).cast(pl.Decimal(9, 2)) == p).then(p.cast(pl.Int64, strict=False)).otherwise(None),
]


@pytest.mark.parametrize("value", ALIKE, ids=lambda value: str(value)[:60])
def test_what_both_answer_alike__is_not_refused(value: pl.Expr) -> None:
    assert refusals(ROWS.lazy().with_columns(new=value)) == []


SQL = [
    *(f"cast({name} as {to})" for name in ("x", "f", "i", "u", "p", "t") for to in ("bigint", "int", "smallint", "bigint unsigned")),
    *(f"try_cast({name} as {to})" for name in ("x", "i", "p", "t") for to in ("bigint", "smallint")),
    *(f"{how}({name} as decimal(9, 1))" for how in ("cast", "try_cast") for name in ("x", "f", "i", "u", "p")),
    *("x % 0.3", "x % f", "i % i", "u % u", "i % 3", "u % 12345678901234567891", "round(x, 2)", "round(f, 3)", "round(x)", "round(i, 2)"),
    *("cast(t as date)", "try_cast(t as date)", "cast(t as timestamp)", "date(t)", "strptime(t, '%d.%m.%Y %H:%M')"),
    *("cast(i as date)", "try_cast(small as date)", "cast(u as date)", "cast(cast(date '2020-06-01' as int) + i as date)"),
    *("date_part('hour', z)", "extract(year from z)", "cast(z as date)", "cast(z as timestamp)"),
]


@pytest.mark.parametrize("text", SQL)
def test_sql__has_a_form_that_both_answer_alike(text: str) -> None:
    value, dtype = check_value(text, ROWS.schema)
    assert refusals(ROWS.lazy().with_columns(new=finite(value, dtype))) == []


WITHOUT = ["cast(x as varchar)", "cast(x as decimal(38, 0))", "t || x", "strptime(t, '%d.%m.%y')", "strftime(z, '%H')", "t ~ '[[:alpha:]]'"]


@pytest.mark.parametrize("text", WITHOUT)
def test_sql_without_such_a_form__is_refused(text: str) -> None:
    value, _ = check_value(text, ROWS.schema)
    assert len(refusals(ROWS.lazy().with_columns(new=value))) == 1
