"""Lists and structures in expressions: what DuckDB answers, and the nearest name of a field that is not there."""

from __future__ import annotations

import datetime as dt

import duckdb
import polars as pl
import pytest

from pipeline.errors import ExpressionError
from pipeline.sql.expression import check_value
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.explode import Explode
from pipeline.testing.stages import run_stage
from tests.sql.expression_page import derived
from tests.sql.test_dates import duckdb_says

LISTS = pl.DataFrame(
    {
        "l": [[1, None, -5, 127], [], None, [-128], [None]],
        "n": [1, -1, 0, None, 2**40],
        "w": [["a", "B"], [None, "日本"], [], None, ["a"]],
        "t": ["a", "日本", "", None, "x"],
        "d": [[dt.date(2020, 6, 1)], [None], [], None, [dt.date(1, 1, 1)]],
        "f": [[0.5, 2.0], [None], [], None, [-1.0]],
        "s": [{"x": 1, "inner": {"my field": "a"}}, {"x": None, "inner": None}, None, {"x": -3, "inner": {"my field": None}}, None],
        "of": [[{"x": 1}], [], None, [{"x": None}, {"x": 4}], [None]],
    },
    schema_overrides={"l": pl.List(pl.Int8)},
)
ALIKE = [
    *(f"{name}[{n}]" for name in "lwdf" for n in (1, 2, -1, -4, 0, 99, "n")),
    *("l[n + 1]", "list_extract(w, 2)", "list_extract(l, n)", "w[1] || t", "l[1] = l[-1]", "(l)[1]", "l [ -1 ]"),
    *(f"{name}({value})" for name in ("len", "length") for value in ("l", "w", "t")),
    *("array_length(w)", "len(string_split(t, 'b'))"),
    *(f"list_contains(l, {value})" for value in ("1", "-5", "n", "300", "0.5", "-5.0", "null", "cast(n as double)")),
    *(f"list_contains(w, {value})" for value in ("'a'", "t", "w[2]")),
    *("list_contains(d, date '2020-06-01')", "list_contains(f, 2)", "list_contains(f, n)"),
    *("s.x", "s.x + 1", 's.inner."my field"', "of[1].x", "coalesce(s.x, of[-1].x)", "abs(s.x)"),
]


@pytest.mark.parametrize("text", ALIKE)
def test_lists_and_structures__are_those_of_duckdb(text: str) -> None:
    expected = duckdb.from_arrow(LISTS.to_arrow(compat_level=pl.CompatLevel.oldest())).project(text).fetchall()
    assert derived(text, LISTS).to_list() == [value for (value,) in expected]


TEXTS = pl.DataFrame({"t": ["a,b", "", ",", "a,,b,", "日本,x", "abc", ", ", None]})


@pytest.mark.parametrize("by", [",", "", ", ", "b", "本,"])
def test_string_split__gives_the_pieces_that_duckdb_gives(by: str) -> None:
    text = f"string_split(t, '{by}')"
    assert derived(text, TEXTS).to_list() == duckdb_says(TEXTS, "UTC", text)
    for n in (1, 2, -1, 9):
        assert derived(f"{text}[{n}]", TEXTS).to_list() == duckdb_says(TEXTS, "UTC", f"{text}[{n}]")
        part = f"split_part(t, '{by}', {n})"
        assert derived(part, TEXTS).to_list() == duckdb_says(TEXTS, "UTC", part)


def test_a_list_that_was_split__becomes_rows() -> None:
    (split,) = run_stage(Derive(columns={"pieces": "string_split(t, ',')"}), {"rows": TEXTS.head(1)}).values()
    (rows,) = run_stage(Explode(columns=("pieces",)), {"rows": split}).values()
    assert rows["pieces"].to_list() == ["a", "b"]


def test_floats_of_lists_and_structures__are_never_nan() -> None:
    frame = pl.DataFrame({"f": [[float("nan")], [1.0]], "s": [{"x": float("inf")}, {"x": 1.0}]})
    for text in ("f[1] > 0.5", "s.x > 0.5"):
        assert derived(text, frame).to_list() == [None, True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s.amuont", r"the column 's' has no field 'amuont'\. Did you mean 'amount'"),
        ("s.of.y", r"a part of it has no field 'y'\..*"),
        ("t.x", "the column 't' is String and has no fields; a column has no table before it: write its name alone"),
        ("loans.s", "there is no column 'loans'.* a column has no table before it"),
        ("s.", "a column has no table before it"),
        ("1 + .x", "a column has no table before it"),
        ("t[1]", "the column 't' is String, which is no list"),
        ("l['a']", "the place in a list is a whole number, and 'a' is String"),
        ("l[1", r"'\[' has no end"),
        ("[1, 2]", r"'\[' has no meaning in an expression but in l\[1\]"),
        ("t in [1]", r"'\[' has no meaning"),
        ("l[1:2]", "there are no placeholders"),
        ("list_contains(l, 'a')", r"list_contains looks for 'a' \(String\) in a list of Int64: cast it"),
        ("string_split(t, u)", "the separator of string_split is a text in quotes that is the same for all rows"),
        ("string_split(l, ',')", "a text is needed where the column 'l' stands"),
        ("list_extract(l)", r"list_extract\(\) has 1 arguments: write list_extract\(l, 1\)"),
        ("s", "its type is Struct"),
        ("string_splt(t, ',')", r"unknown function 'string_splt'\. Did you mean 'string_split'"),
    ],
)
def test_what_is_no_list_or_field__is_refused(text: str, reason: str) -> None:
    fields = pl.Struct({"amount": pl.Float64(), "of": pl.Struct({"x": pl.Int64()})})
    with pytest.raises(ExpressionError, match=reason):
        check_value(text, pl.Schema({"t": pl.String(), "u": pl.String(), "l": pl.List(pl.Int64()), "s": fields}))
