"""Rows in JSON and Arrow: as they were on the way back, and refused with what is odd."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pipeline.serving.rows import BadRequestError, read_arrow, read_json, write_arrow, write_json
from tests.serving.serving import arrow

LETTERS = 'aÄ"\\\n,\u2028é😀\x00 '
VALUES = {
    pl.Int64: st.integers(-(2**63), 2**63 - 1),
    pl.Float64: st.floats(allow_nan=False, allow_infinity=False),
    pl.String: st.text(LETTERS, max_size=5),
    pl.Boolean: st.booleans(),
}


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.data())
def test_json__comes_back_as_it_was(data: st.DataObject) -> None:
    columns = {}
    for name in data.draw(st.lists(st.text(LETTERS, min_size=1, max_size=3), unique=True, min_size=1, max_size=3)):
        dtype = data.draw(st.sampled_from([*VALUES]))
        columns[name] = pl.Series([data.draw(VALUES[dtype]), None, data.draw(VALUES[dtype])], dtype=dtype)
    frame = pl.DataFrame(columns)
    assert_frame_equal(read_json(write_json(frame)), frame, check_exact=True)
    assert_frame_equal(read_arrow(write_arrow(frame)), frame, check_exact=True)


def test_json__floats_of_32_bits_come_back_the_same() -> None:
    values = pl.Series([0.1, 1 / 3, 3e38, 1e-45], dtype=pl.Float32)
    assert read_json(write_json(pl.DataFrame({"x": values})))["x"].cast(pl.Float32).to_list() == values.to_list()
    odd = pl.DataFrame({"x": [float("nan"), float("inf"), None]})
    assert json.loads(write_json(odd)) == [{"x": None}] * 3


def test_json__whole_numbers_beside_fractions_are_floats_and_lacking_keys_null() -> None:
    found = read_json(b'[{"x": 1, "y": null}, {"x": 2.5, "z": "a"}, {}]')
    expected = pl.DataFrame({"x": [1.0, 2.5, None], "y": [None, None, None], "z": [None, "a", None]}, schema_overrides={"y": pl.Null})
    assert_frame_equal(found, expected)
    assert read_json(b"[{}, {}]").height == 2
    assert read_json(b"[]").height == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is no JSON"),
        (b"[{]", "the body is no JSON"),
        (b"\xff\xfe\xfd", "the body is no JSON"),
        (b"[" * 100_000, "the body is no JSON"),
        (b'[{"x": NaN}]', "NaN is no JSON; give null"),
        (b'{"x": [1]}', "the body must be a list of rows, each an object by column, and is an object"),
        (b"[1]", "row 0 must be an object by column, and is a number"),
        (b'[{}, ["x"]]', "row 1 must be an object by column, and is a list"),
        (
            b'[{"x": 1}, {"x": "a"}]',
            "column 'x' holds a number and text; a column holds texts, numbers, lists of numbers, or true and false",
        ),
        (b'[{"x": true}, {"x": 1}]', "column 'x' holds a number and true or false"),
        (b'[{"x": {"y": 1}}]', "column 'x' holds an object"),
        (b'[{"x": [1, "a"]}]', "column 'x' holds a number and text"),
        (b'[{"x": ["a"]}]', "column 'x' holds a list"),
        (b'[{"x": [1]}, {"x": 1}]', "column 'x' holds a list and a number"),
        (b'[{"x": 99999999999999999999}]', "column 'x' has a number beyond 64 bits"),
    ],
)
def test_json__that_holds_no_rows_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        read_json(body)


def test_json__has_lists_of_numbers() -> None:
    found = read_json(b'[{"x": [1, 2], "y": [1, 0.5, null]}, {"x": null, "y": []}]')
    assert found.schema == {"x": pl.List(pl.Int64), "y": pl.List(pl.Float64)}
    assert found.rows() == [([1, 2], [1.0, 0.5, None]), (None, [])]


def broken_streams() -> list[Any]:
    whole = arrow(pl.DataFrame({"x": [1, 2, 3], "t": ["a", None, "c"]}))
    return [b"", b"[]", whole[: len(whole) // 2], whole[:-20] + b"\xff" * 10, whole[:30] + b"\x00" * 40 + whole[70:]]


@pytest.mark.parametrize("body", broken_streams())
def test_arrow__that_is_broken_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError, match="the body is no Arrow IPC stream"):
        read_arrow(body)
