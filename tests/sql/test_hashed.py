"""hash(...) of an expression: the hash of keys that split has, the same for any parts and in every version."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from pipeline.errors import ExpressionError
from pipeline.sql.expression import check_value
from pipeline.stages._keys import STEP, fraction, text_hashes
from pipeline.stages.relational.derive import Derive
from pipeline.testing.stages import run_stage
from tests.sql.expression_page import derived

ROWS = pl.DataFrame(
    {
        "t": ["a", "", "日本", None, "rs42"],
        "i": [-1, 0, 2**63 - 1, 5, None],
        "u": pl.Series([0, 2**64 - 1, 7, None, 1], dtype=pl.UInt64),
        "small": pl.Series([-1, 0, 127, 5, None], dtype=pl.Int8),
        "b": [True, False, None, True, False],
        "d": [dt.date(1969, 12, 31), dt.date(1970, 1, 1), None, dt.date(9999, 12, 31), dt.date(1, 1, 1)],
        "s": [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23), None, dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1)],
    }
)
WORD = 2**64


def in_python(*values: str | int | None) -> int | None:
    """FNV-1a of texts, splitmix64 of each word added to the mix of those before."""
    z = STEP
    for value in values:
        if value is None:
            return None
        word = int(value) if not isinstance(value, str) else 0xCBF29CE484222325
        for byte in value.encode() if isinstance(value, str) else b"":
            word = (word ^ byte) * 0x100000001B3 % WORD
        z = (z + word) % WORD
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
        z ^= z >> 31
    return z


@pytest.mark.parametrize("names", [("t",), ("i",), ("u",), ("b",), ("t", "i"), ("i", "t", "b", "u")])
def test_hash__is_the_documented_one(names: tuple[str, ...]) -> None:
    assert derived(f"hash({', '.join(names)})", ROWS).to_list() == [in_python(*row) for row in ROWS.select(names).rows()]


def test_hash__is_the_one_that_split_divides_rows_by() -> None:
    known = ROWS.select("t", "u").drop_nulls()
    known = known.with_columns(pl.Series("word", text_hashes(known["t"])))
    by_split = known.select(fraction([pl.col("word"), pl.col("u")], STEP)).to_series()
    assert derived("cast(hash(t, u) // 2048 as double) / 9007199254740992", known).to_list() == by_split.to_list()


def test_hash__is_of_the_value_whatever_its_width() -> None:
    assert derived("hash(small)", ROWS).to_list() == derived("hash(cast(small as bigint))", ROWS).to_list()
    assert derived("hash(d)", ROWS).to_list() == derived("hash(cast(d as int))", ROWS).to_list()
    assert derived("hash(s)", ROWS).to_list() == derived("hash(cast(s as bigint))", ROWS).to_list()


def test_hash__is_the_same_in_every_version() -> None:
    """The first output of splitmix64 from the seed 0, as its authors publish it, and what came out when this was written."""
    assert derived("hash(0)", ROWS).to_list() == [0xE220A8397B1DCDAF] * 5
    assert derived("hash('rs42', 7)", ROWS).to_list() == [SEEN] * 5
    assert derived("hash(t, 7)", ROWS).to_list()[4] == SEEN
    assert derived("hash(t) % 10", ROWS.head(2)).to_list() == [found and found % 10 for found in (in_python("a"), in_python(""))]


SEEN = 1960945741021931825


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_hash__is_the_same_for_any_parts(parts: int) -> None:
    rows = pl.concat([ROWS] * 20)
    (found,) = run_stage(Derive(columns={"h": "hash(t || 'x', i)"}), {"rows": rows}, parts).values()
    assert found["h"].to_list() == [in_python(t and f"{t}x", i) if t != "" else in_python("x", i) for t, i in rows.select("t", "i").rows()]
    (none,) = run_stage(Derive(columns={"h": "hash(t)"}), {"rows": ROWS.clear()}, parts).values()
    assert none.height == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "hash(x)",
            "hash takes texts, whole numbers, conditions, dates and timestamps of microseconds, and the column 'x' is Float64: cast it",
        ),
        ("hash(ns)", "the column 'ns' is Datetime"),
        ("hash()", r"hash\(\) has 0 arguments: write hash\(x, y\)"),
    ],
)
def test_what_has_no_hash__is_refused(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        check_value(text, pl.Schema({"x": pl.Float64(), "ns": pl.Datetime("ns")}))
