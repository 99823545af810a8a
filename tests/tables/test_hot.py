"""Keys of very many rows: found, whatever parts they stand in, and their rows put to all parts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.tables.exchange import split_part
from pipeline.tables.hot import AWAY, COPY, HOME, NORMAL, ROWS, added, divided, heavy, hot_keys, is_hot, of_hot_keys, with_copies
from pipeline.tables.part import Part

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("rows", [400, 400_000])
def test_hot_keys__are_those_of_more_rows_than_half_an_even_part(rows: int) -> None:
    keys = RANDOM.integers(0, 1_000, rows)
    keys[: rows // 5] = 7
    parts = [Part(pl.DataFrame({"k": some})) for some in np.array_split(RANDOM.permutation(keys), 5)]
    found = hot_keys(added([heavy(part, ["k"], 8) for part in parts]), rows, 8)
    assert found["k"].to_list() == [7]
    assert found[ROWS].to_list() == [pytest.approx(rows / 5, rel=0.05)]
    assert hot_keys(added([heavy(part, ["k"], 2) for part in parts]), rows, 2).height == 0


def test_hot_keys__may_be_missing_ones() -> None:
    part = Part(pl.DataFrame({"k": [None] * 5 + [1, 2, 3], "s": ["a"] * 8}))
    found = hot_keys(heavy(part, ["k", "s"], 2), 8, 2).drop(ROWS)
    assert found.rows() == [(None, "a")]
    assert is_hot(part.frame, found).to_list() == [True] * 5 + [False] * 3
    assert of_hot_keys(part.frame.lazy(), found).collect().height == 0
    assert of_hot_keys(part.frame.lazy().select("k"), found.select("k")).collect().height == 0


@pytest.mark.parametrize("kind", [pl.Int64, pl.String, pl.Datetime("ns"), pl.Decimal(20, 2), pl.Categorical()])
@pytest.mark.parametrize("count", [1, 3, 12])
@pytest.mark.parametrize("first", [0, 5])
def test_rows_of_few_hot_keys__are_those_that_a_join_finds(kind: pl.DataType, count: int, first: int) -> None:
    given = pl.Series("k", [None if number % 7 == 0 else number % 31 for number in range(300)])
    keys = given.cast(pl.String).cast(kind) if kind in {pl.Categorical()} else given.cast(kind)
    hot = keys.unique(maintain_order=True)[first : first + count].to_frame()
    numbers = given.unique(maintain_order=True)[first : first + count].to_list()  # a value of Python's has no nanoseconds
    assert is_hot(keys.to_frame(), hot).to_list() == [number in numbers for number in given.to_list()]


def test_hot_keys_of_two_tables__are_of_that_with_more_rows_of_them() -> None:
    ours = pl.DataFrame({"k": [1, 2, None], ROWS: [5, 5, 5]})
    theirs = pl.DataFrame({"k": [None, 2, 3], ROWS: [4, 6, 1]})
    assert [None if found is None else found["k"].to_list() for found in divided(ours, theirs)] == [[1, None], [2, 3]]
    assert divided(ours.clear(), theirs.clear()) == (None, None)


def test_split_part__puts_rows_of_hot_keys_to_all_pieces_in_turn() -> None:
    part = Part(pl.DataFrame({"k": [7] * 9 + [1, 2, 1], "x": range(12)}))
    pieces = [piece.frame for _, piece in split_part(part, ["k"], 3, pl.DataFrame({"k": [7]}))]
    assert [piece.filter(pl.col("k") == 7).height for piece in pieces] == [3, 3, 3]
    assert sorted(pl.concat(pieces)["x"]) == list(range(12))
    assert sum(1 in piece["k"] for piece in pieces) == 1


def test_copies__are_told_from_a_parts_own_rows() -> None:
    hot, part = pl.DataFrame({"k": [7, 8]}), Part(pl.DataFrame({"k": [7, 1, None], "y": [1, 2, 3]}))
    copies = Part(pl.DataFrame({"k": [7, 8], "y": [1, 9]}))
    assert with_copies(part, hot, copies).frame.select("y", COPY).rows() == [(2, NORMAL), (3, NORMAL), (1, HOME), (9, AWAY)]
