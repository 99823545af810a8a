"""The expressions of filter and derive: docs/expressions.md holds, and what is wrong is refused with a clear message."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from collections.abc import Callable

import duckdb
import polars as pl
import pytest

from pipeline.errors import ExpressionError
from pipeline.sql.expression import FUNCTIONS, check_filter, check_value, finite, value_of
from tests.sql.expression_page import EXAMPLES, Example, derived, frame_of, yaml_value

SCHEMA = pl.DataFrame(
    {"x": [1.5], "y": [0.0], "i": [1], "t": ["a"], "u": ["b"], "a": [True], "d": [dt.date(2020, 6, 1)], "s": [dt.datetime(2020, 6, 1)]}
    | {"sex": ["f"], "age": [40], "blob": [b"a"], "many": [[1]]},
    schema_overrides={"age": pl.Int32},
).schema


def test_page__has_examples_of_everything() -> None:
    assert len(EXAMPLES) > 150
    assert {"null", "[null, null, null]"} <= {example.result for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.expression} of {example.columns}")
def test_page__says_what_comes_out(example: Example) -> None:
    wanted = yaml_value(example.result)
    wanted = wanted if isinstance(wanted, list) else [wanted]
    got = derived(example.expression, frame_of(example.columns)).to_list()
    assert [type(value) for value in got] == [type(value) for value in wanted]
    assert got == [pytest.approx(value, rel=1e-14) if isinstance(value, float) else value for value in wanted]


def test_page__lists_exactly_the_functions() -> None:
    listed = {example.function: (example.gives, not example.runs_on) for example in EXAMPLES if example.function}
    assert listed == {name: (function.meaning, function.gpu) for name, function in FUNCTIONS.items()}
    for example in EXAMPLES:
        assert f"{example.function}(" in example.expression if example.function else True


REFUSED = {
    "": "the expression is empty",
    "  -- x": "the expression is empty",
    "1; drop table": "take ';' away",
    "select 1": "queries and subqueries are not allowed",
    "(select 1)": "queries and subqueries are not allowed",
    "x in (select 1)": "queries and subqueries are not allowed",
    "exists (select 1)": "queries and subqueries are not allowed",
    "a.b": "a column has no table before it",
    "count(*)": r"count\(\) looks at other rows: its answer would depend on how the rows are divided",
    "sum(x)": r"sum\(\) looks at other rows",
    "x / Max(x)": r"max\(\) looks at other rows",
    '"sum"(x)': r"sum\(\) looks at other rows",
    "sum/* */(x)": r"sum\(\) looks at other rows",
    "row_number() over (order by x)": r"row_number\(\) looks at other rows",
    "abs(x) over (partition by t)": "'over' makes a window over rows",
    "abs(x) filter (where a)": "'filter' makes a window over rows",
    "lag(x)": r"lag\(\) looks at other rows",
    "cum_sum(x)": r"cum_sum\(\) looks at other rows",
    "*": "stands for many columns",
    "greatest(x, *)": "stands for many columns",
    '"*"': "stands for many columns",
    '"^x.*$"': "stands for many columns",
    "columns('x')": "unknown function 'columns'",
    "$1": "there are no placeholders",
    "?": "there are no placeholders",
    ":x": "there are no placeholders",
    "lowr(t) = 'f'": "unknown function 'lowr'. Did you mean 'lower'",
    "year(d)": r"unknown function 'year': write date_part\('year', d\)",
    "random()": "changes from run to run",
    "read_csv('x')": "unknown function 'read_csv'",
    "agee > 35": "there is no column 'agee'. Did you mean 'age'",
    "x as z": "a value has no name here",
    "x y": "a value has no name here",
    "x, y": "Polars refuses the expression: .*unexpected token ','",
    "x +": "Polars refuses the expression: unable to parse",
    "1_000": "'1_000' is not a number",
    "1e999": "out of the range of a float",
    "t = 'a": "a text that begins with ' has no end",
    '"t': "begins with a double quote has no end",
    "i & 1": "bits are not supported",
    "[1, 2]": r"'\[' has no meaning",
    "x'ff'": "bytes, queries and the like are not supported",
    "x\0": "control character",
    "t = '\ud800'": "control character or half a character",
    "a is not true": "'is not true' is not supported",
    "null": "its type is Null",
    "blob": "its type is Binary",
    "many": "its type is List",
    "t = 1": r"both sides of `=` must be of one kind, and are the column 't' \(String\) and 1 \(Int32\)",
    "i < 'a'": "both sides of `<` must be of one kind",
    "x between 'a' and 'b'": "both sides of `>=` must be of one kind",
    "d < '2020-06-01'": "write a date as date '2020-06-01'",
    "d = i": "both sides of `=` must be of one kind",
    "a = 1": "both sides of `=` must be of one kind",
    "i in ('a')": "is_in",
    "date '2020-02-30'": "'2020-02-30' is no date: write it as '2020-06-01'",
    "timestamp '2020-02-30 10:00:00'": "'2020-02-30 10:00:00' is no timestamp",
    "case when i then 1 end": "a condition is needed where the column 'i' stands, which is Int64",
    "if(t, 1, 2)": "a condition is needed where the column 't' stands",
    "case when a then t else i end": "the values of case, if or nullif must be of one kind",
    "case when a then d else 'never' end": "the values of case, if or nullif must be of one kind",
    "coalesce(t, 0)": "the values of coalesce, ifnull, greatest or least must be of one kind",
    "greatest(i, t)": "the values of coalesce, ifnull, greatest or least must be of one kind",
    "i and a": "a condition beside `and` is needed where the column 'i' stands",
    "not i": "a condition after `not` is needed",
    "t + u": "a number beside `[+]` is needed where the column 't' stands, which is String",
    "a * 2": "a number beside `[*]` is needed",
    "sqrt(t)": "a number is needed where the column 't' stands",
    "lower(i)": "a text is needed where the column 'i' stands",
    "date_part('year', t)": "a date or timestamp is needed",
    "date_part('time', s)": "the part Time of a date is not supported",
    "date_part('hour', d)": "Polars refuses the expression",
    "t ~ '['": "Polars refuses the expression: regex",
    "cast(t as time)": "a cast to Time is not supported",
    "x" + "+x" * 5_000: "10,001 characters, at most 2,000 are allowed",
    "x" + "+x" * 900: "nested too deeply or is too long a chain",
    "nullif(" * 40 + "x" + ",1)" * 40: "nested too deeply or is too long a chain",
    "x/(" * 18 + "x" + ")" * 18: "nested too deeply or is too long a chain",
    "(" * 900 + "x" + ")" * 900: "Polars refuses the expression",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30].encode("unicode_escape").decode())
def test_check_value__refuses_with_a_reason(text: str) -> None:
    with pytest.raises(ExpressionError, match=REFUSED[text]) as caught:
        check_value(text, SCHEMA)
    assert len(str(caught.value)) < 700
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["x", "age + 1", "'a'", "case when a then 1 end"])
def test_check_filter__refuses_what_is_no_condition(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"a filter needs a condition, true or false, and this is (Float64|Int64|String)"):
        check_filter(text, SCHEMA)


def test_check_filter__keeps_the_rows_where_it_is_true() -> None:
    frame = pl.DataFrame({"age": [40, 30, None, 50], "sex": ["F", "f", "f", "m"]})
    kept = frame.lazy().filter(check_filter("age > 35 and lower(sex) = 'f'", frame.schema)).collect()
    assert kept.rows() == [(40, "F")]


def test_check_filter__does_not_take_a_division_by_zero_for_large() -> None:
    frame = pl.DataFrame({"balance": [5.0, 0.0, 3.0], "amount": [0.0, 0.0, 1.0]})
    assert frame.filter(check_filter("balance / amount > 2", frame.schema))["balance"].to_list() == [3.0]
    assert frame.filter(pl.sql_expr("balance / amount > 2")).height == 3, "Polars changed: infinity and NaN are no longer above 2"


def test_check_value__finds_functions_in_code_only() -> None:
    quiet = """t = 'sum(x); select ?' and "sum(x)" > 1 /* count(*) */ -- max(x)"""
    value, _ = check_value(quiet, pl.Schema({"sum(x)": pl.Int64(), "t": pl.String()}))
    assert sorted(value.meta.root_names()) == ["sum(x)", "t"]


def test_check_value__gives_whole_numbers_as_int64() -> None:
    frame = pl.DataFrame({"small": [100], "d": [dt.date(2020, 12, 1)], "t": ["abc"]}, schema_overrides={"small": pl.Int8})
    for text, wanted in {"small * 100": 10_000, "date_part('month', d) * 100": 1_200, "length(t) - 5": -2, "1": 1, "-small": -100}.items():
        column = derived(text, frame)
        assert column.dtype == pl.Int64
        assert column.to_list() == [wanted], text


def test_check_value__takes_casts_that_fail_only_on_the_data() -> None:
    frame = pl.DataFrame({"t": ["12", "x"]})
    value, _ = check_value("cast(t as int)", frame.schema)
    with pytest.raises(pl.exceptions.InvalidOperationError, match=r"check failed: .*cast to Int32: a value does not fit"):
        frame.select(value)


def test_check_value__keeps_regular_expressions_that_look_like_like() -> None:
    frame = pl.DataFrame({"t": ["a.c", "abc", "xa.c", "a", "a%"]})
    for text in (
        "t like 'a.%'",
        "t like '%.c'",
        "t like '%b%'",
        "t like 'a_c'",
        "t like '%'",
        "t like 'a%c'",
        "t like 'a'",
        "t ~ '^(?s)a\\.*$'",
    ):
        plain = frame.select(z=pl.sql_expr(text))["z"].to_list()
        assert frame.select(z=check_filter(text, frame.schema))["z"].to_list() == plain, text


def test_check_value__divides_decimals_by_zero_to_null() -> None:
    frame = pl.DataFrame({"q": ["1.50", "0.00"]}).select(pl.col("q").cast(pl.Decimal(10, 2)))
    assert [value is None for value in derived("1 / q", frame).to_list()] == [False, True]


def test_value_of__is_worked_out_once_for_the_same_columns() -> None:
    """Every part of a table asks for it: it takes milliseconds, and a part of a few rows less than that."""
    schema = {"x": pl.Float64(), "i": pl.Int64()}
    assert value_of("x / i + 41", pl.Schema(schema)) is value_of("x / i + 41", pl.Schema(schema))
    assert value_of("x / i + 41", pl.Schema(schema)) is not value_of("x / i + 41", pl.Schema(schema | {"i": pl.Float64()}))
    for _ in range(2):
        with pytest.raises(ExpressionError, match="there is no column 'y'"):
            value_of("y + 1", pl.Schema(schema))


def test_check_value__takes_a_frame_without_columns() -> None:
    value, dtype = check_value("1 + 1", pl.Schema())
    assert dtype == pl.Int64
    assert pl.select(value).item() == 2


def test_finite__nulls_what_is_no_number() -> None:
    frame = pl.DataFrame({"x": [1.0, math.nan, math.inf, -math.inf, None], "i": [1, 2, 3, 4, None]})
    assert frame.select(finite(pl.col("x"), frame.schema["x"])).to_series().to_list() == [1.0, None, None, None, None]
    assert frame.select(finite(pl.col("i"), frame.schema["i"])).to_series().to_list() == [1, 2, 3, 4, None]


PIECES = [*FUNCTIONS, *re.findall(r"\S+", "x y i t u a d s and or not in like between is null case when then else end from over select as")]
PIECES += re.findall(r"\S+", "( ( ( ) ) ) , , + - * / // % = <> < > || :: ~ ; ? $1 . ' \" ` [ ] -- /* */ 1 2.5 1e3 0 'a' 'x%' é \0 💥")


def jumble(rng: random.Random) -> str:
    return rng.choice(["", " "]).join(rng.choices(PIECES, k=rng.randint(1, 12)))


def sentence(rng: random.Random, depth: int = 3) -> str:
    """A text that parses, of types that may or may not fit."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(["x", "y", "i", "t", "u", "a", "d", "s", "1", "0", "2.5", "'a'", "null", "date '2020-01-01'", "5e-8"])
    one, two, three = (sentence(rng, depth - 1) for _ in range(3))
    function = rng.choice(list(FUNCTIONS))
    operator = rng.choice(["+", "-", "*", "/", "//", "%", "=", "<>", "<", ">=", "and", "or", "||", "<=>", "in"])
    forms = [f"({one} {operator} {two})", f"{function}({one})", f"{function}({one}, {two})", f"not {one}", f"{one} is null"]
    forms += [
        f"case when {one} then {two} else {three} end",
        f"coalesce({one}, {two})",
        f"cast({one} as {rng.choice(['double', 'date', 'varchar'])})",
    ]
    return rng.choice([*forms, *forms[:1] * 4])


@pytest.mark.parametrize(("make", "answers"), [(jumble, 1), (sentence, 100)])
def test_check_value__answers_or_refuses_random_texts(make: Callable[[random.Random], str], answers: int) -> None:
    rng = random.Random(20261121)
    refused: list[str] = []
    for text in (make(rng) for _ in range(500)):
        try:
            expr, dtype = check_value(text, SCHEMA)
        except ExpressionError as error:
            refused.append(str(error))
        else:
            assert pl.LazyFrame(schema=SCHEMA).select(z=expr).collect_schema()["z"] == dtype, text
    assert all(refused)
    assert len(refused) > 50
    assert 500 - len(refused) >= answers


@pytest.mark.parametrize("other", ["'b'", "'.'", "'('", "'7é'", "''", "u"])
def test_strpos__counts_characters_up_to_the_text_as_it_is_written(other: str) -> None:
    texts = ["a.b", "Zür.b", "🧬(7é", "", "bb", None]
    frame = pl.DataFrame({"t": texts * 4, "u": [text for text in ("b", ".", "", None) for _ in texts]})
    expected = duckdb.from_arrow(frame.to_arrow()).select(f"coalesce(strpos(t, {other}), 0)").fetchall()
    assert frame.select(check_value(f"strpos(t, {other})", frame.schema)[0]).to_series().to_list() == [place for (place,) in expected]


@pytest.mark.parametrize("column", ["x", "i"])
def test_nested_divisions__grow_as_their_levels_do(column: str) -> None:
    """A guard repeats what it guards; the tests of infinities within it are made once."""
    text = f"{column}/(" * 6 + column + ")" * 6
    found = value_of(text, pl.Schema({"x": pl.Float64(), "i": pl.Int64()}))
    assert derived(text, pl.DataFrame({"x": [4.0, 0.0], "i": [4, 0]})).to_list() == [4.0, None]
    assert found.infinite is None or len(found.infinite.meta.serialize(format="json")) < 60_000
