"""What docs/expressions.md says of GPUs holds: what it does not mark translates for cuDF, and what it marks does not."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.backend.engines import refusals
from pipeline.sql.expression import FUNCTIONS, check_value, finite
from tests.sql.expression_page import EXAMPLES, Example, frame_of, on_cpu_only

pytestmark = pytest.mark.contract

SCHEMA = pl.Schema({"i": pl.Int64(), "t": pl.String(), "u": pl.String(), "s": pl.Datetime("us")})
CPU_ONLY = ["greatest(t, u)", "left(t, i)", "right(t, i)", "substr(t, i, 2)", "lpad(t, i, '0')", "strpos(t, u)", "regexp_like(t, 'a', 'i')"]
CPU_ONLY += ["regexp_extract(t, 'a', 0, 'i')", "regexp_extract(t, '[[:alpha:]]')", "regexp_matches(t, 'a', 'i')"]
CPU_ONLY += ["cast(t as decimal(10, 2))", "cast(cast(i as double) as decimal(38, 10))", "cast(s as varchar)", "s - interval '1 hour'"]


def refused(text: str, frame: pl.DataFrame) -> list[str]:
    value, dtype = check_value(text, frame.schema)
    return refusals(frame.lazy().with_columns(finite(value, dtype).alias("answer")))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.expression} of {example.columns}")
def test_an_example_of_the_page__translates_where_it_says_so(example: Example) -> None:
    assert bool(refused(example.expression, frame_of(example.columns))) == on_cpu_only(example)


@pytest.mark.parametrize("text", CPU_ONLY)
def test_a_form_that_the_page_marks__is_refused(text: str) -> None:
    assert refused(text, SCHEMA.to_frame().clear(1))


EXACT = ["i * i + i", "-i", "abs(i)", "i // i", "n % 12345678901234567891", "n // 3 + 1", "n in (18446744073709551615, 5)", "small * small"]
EXACT += ["p * p", "p / 3", "p * (1 - p) + i", "p > q", "coalesce(p, q)", "cast(z as date)", "cast(z as timestamp)", "cast(m as bigint)"]

EXACT += [f"date_trunc('{part}', {column})" for part in ("minute", "hour", "day", "week", "quarter") for column in ("z", "m", "k", "mz")]
EXACT += ["m at time zone 'America/Havana'", "z at time zone 'Asia/Tokyo'", "k at time zone 'UTC' at time zone 'Asia/Tokyo'"]
EXACT += ["s.x * 2", "s.inner.y || 'a'"]
EXACT += ["regexp_extract(t, '^(a+)(b)?', 2)", "date_trunc('year', d)", "date_trunc('quarter', d)"]

CASTS = [
    f"{how}({column} as {to})"
    for how in ("cast", "try_cast")
    for to in ("tinyint", "bigint", "bigint unsigned", "real", "double", "decimal(7, 2)", "decimal(38, 0)", "date", "timestamp")
    for column in ("i", "n", "x", "p", "wide", "t", "m")
    if not (column in "xp wide" and to in {"date", "timestamp"})
    and not (column == "t" and "decimal" in to)
    and (column, to) not in {("m", "real"), ("x", "decimal(38, 0)")}
]
EXACT += ["case when x < 100 then cast(x as tinyint) end", "coalesce(try_cast(t as int), cast(x as int))", "wide + wide", "wide - p"]
EXACT += [
    "t ~ '^[0-9]+$' and cast(t as int) > 1",
    "1 / (x * 2 + x)",
    "x * x > 1",
    "date(t)",
    "date_part('epoch', m)",
    "k < m",
    "k - m",
    "k < d",
    "coalesce(m, k)",
]


@pytest.mark.parametrize("text", [*EXACT, *CASTS])
def test_exact_numbers_and_local_clocks__translate(text: str) -> None:
    numbers: dict[str, pl.DataType] = {"i": pl.Int64(), "small": pl.Int32(), "n": pl.UInt64(), "p": pl.Decimal(9, 2), "q": pl.Decimal(9, 5)}
    numbers |= {"x": pl.Float64(), "wide": pl.Decimal(38, 2), "t": pl.String()}
    schema = pl.Schema(numbers | {"z": pl.Datetime("us", "Europe/Berlin"), "m": pl.Datetime("ms"), "k": pl.Datetime("ns"), "d": pl.Date()})
    schema["s"] = pl.Struct({"x": pl.Float64(), "inner": pl.Struct({"y": pl.String()})})
    schema["mz"] = pl.Datetime("ms", "America/Havana")
    assert refused(text, schema.to_frame().clear(1)) == []


def test_the_page__has_an_example_of_every_function_that_a_gpu_runs() -> None:
    shown = {example.function for example in EXAMPLES if example.function and not on_cpu_only(example)}
    assert shown == {name for name, function in FUNCTIONS.items() if function.gpu}
