"""Regular expressions that replace and extract give what DuckDB's give, and a bad one is refused when the job is planned."""

from __future__ import annotations

import duckdb
import polars as pl
import pytest

from pipeline.errors import ExpressionError
from pipeline.sql.expression import check_value
from tests.sql.expression_page import derived

TEXTS = pl.DataFrame({"t": ["rs42", "rs42-rs7", "", "aaa", "a.b", "$1", "back\\slash", "Zürich 日本", "x\ny", "AbAb", "2020-06-01", None]})
PATTERNS = [
    "",
    "a",
    "a*",
    "(a)(x)?",
    "[0-9]+",
    r"(\d+)-(\d+)",
    "^rs",
    "b$",
    r"\.",
    "(?i)AB",
    "(ü|日)",
    "x.y",
    "(?P<n>r)s",
    r"\bs",
    r"[[:alpha:].]+",
    "(a|ab)b?",
]
REPLACEMENTS = ["", "-", "<$1>", r"[\0]", r"a\\b", "$", "${0}", "é"]


def by_duckdb(expression: str) -> list[str | None]:
    return [value for (value,) in duckdb.from_arrow(TEXTS.to_arrow()).project(expression).fetchall()]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_regular_expressions__give_what_duckdb_gives(pattern: str) -> None:
    texts = [f"regexp_extract(t, '{pattern}'{group})" for group in ("", ", 0")] + [f"regexp_matches(t, '{pattern}')"]
    texts += [f"regexp_replace(t, '{pattern}', '{by}'{flag})" for by in REPLACEMENTS for flag in ("", ", 'g'", ", 'gi'", ", 's'")]
    if "(" in pattern.replace("(?i)", ""):
        texts += [f"regexp_extract(t, '{pattern}', 1{flag})" for flag in ("", ", 'i'")]
        texts += [rf"regexp_replace(t, '{pattern}', '\1\0\1', 'g')"]
    for text in texts:
        assert derived(text, TEXTS).to_list() == by_duckdb(text), text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("regexp_replace(t, '[', 'x')", r"'\[' is no regular expression: unclosed character class"),
        ("regexp_extract(t, '(a')", r"'\(a' is no regular expression: unclosed group"),
        ("regexp_extract(t, 'a(?=b)')", "is no regular expression: look-around"),
        ("regexp_matches(t, '*')", "regex"),
        ("regexp_extract(t, '(a)(b)', 3)", "there is no group 3 in the regular expression, which has 2: 0 is all that matches"),
        (r"regexp_replace(t, 'a', '\1')", "there is no group 1"),
        (r"regexp_replace(t, 'a', '\n')", "means nothing in what regexp_replace puts in"),
        ("regexp_replace(t, 'a', 'b', 'x')", r"'x' is no flag of a regular expression here: there are g \(every match\), i"),
        ("regexp_replace(t, t, 'b')", "a regular expression is a text in quotes that is the same for all rows, not the column 't'"),
        ("regexp_extract(t, 'a', i)", "the group of regexp_extract is a whole number that is the same for all rows"),
        ("regexp_extract(i, 'a')", "a text is needed where the column 'i' stands, which is Int64"),
        ("regexp_replace(t, 'a')", r"regexp_replace\(\) has 2 arguments: write regexp_replace\(t, 'a\+', 'b', 'g'\)"),
    ],
)
def test_what_is_no_regular_expression__is_refused(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        check_value(text, pl.Schema({"t": pl.String(), "i": pl.Int64()}))


def test_letters_of_a_regular_expression__are_those_of_any_script() -> None:
    """RE2, which DuckDB has, knows the letters of ASCII alone here."""
    assert derived(r"regexp_extract(t, '^\w+')", TEXTS.filter(pl.col("t").str.starts_with("Z"))).to_list() == ["Zürich"]
