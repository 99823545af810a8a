"""Partners by keys as numbers, looked up in a list of places or in a table of rows."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.backend import threads
from pipeline.tables import matched
from pipeline.tables.matched import Keyed, KeyNumbers, have_partners, partners, shared_keys
from pipeline.tables.part import Part

VALUES: dict[Any, Any] = {
    pl.String(): st.sampled_from(["", "a", "A", "ä", "b\0", "z" * 30]),
    pl.Int64(): st.sampled_from([-(2**63), 2**63 - 1, 0, -1, 5]),
    pl.UInt64(): st.sampled_from([2**64 - 1, 2**64 - 9, 2**63]),
    pl.Int8(): st.integers(-128, 127),
    pl.Boolean(): st.booleans(),
    pl.Decimal(9, 2): st.sampled_from([1, -7, 22]),
    pl.Float64(): st.sampled_from([0.25, -0.0, 0.0, -1.5, math.inf, math.nan]),
    pl.Date(): st.sampled_from([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two frames with the same columns, of any types, and missing values."""
    dtypes = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))

    def frame(height: int) -> pl.DataFrame:
        """One of them."""
        return pl.DataFrame(
            [
                pl.Series(f"c{at}", draw(st.lists(st.none() | VALUES[dtype], min_size=height, max_size=height)), dtype=dtype)
                for at, dtype in enumerate(dtypes)
            ]
        )

    return frame(draw(st.integers(0, 20))), frame(draw(st.integers(0, 12)))


@pytest.fixture
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any size and order are worth it."""
    for name in ("LEAST_ROWS", "MANY_ROWS"):
        monkeypatch.setattr(matched, name, 0)


@pytest.fixture(params=["by a list", "by a table"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a list of places, however long, or none by one."""
    monkeypatch.setattr(matched, "PLACES", 1_000 if request.param == "by a list" else 0)
    monkeypatch.setattr(matched, "FEW_PLACES", 10_000 if request.param == "by a list" else 0)


def joined(left: pl.DataFrame, right: pl.DataFrame, how: Any) -> pl.DataFrame:
    """The rows of both with equal keys, by Polars' join."""
    ours, theirs = left.with_row_index("ours"), right.with_row_index("theirs")
    return ours.join(theirs, on=right.columns, how=how, maintain_order="left_right").select("ours", "theirs")


@pytest.mark.usefixtures("of_any_size", "way")
@pytest.mark.parametrize("more", [0, 1 << 40], ids=["of the left", "of the right"])
@pytest.mark.parametrize("shared", [False, True])
def test_partners__are_those_of_a_join(monkeypatch: pytest.MonkeyPatch, more: int, *, shared: bool) -> None:
    monkeypatch.setattr(matched, "MORE", more)

    @settings(max_examples=100, deadline=None)
    @given(pairs())
    def check(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
        """Of frames of any columns."""
        left, right = both
        keyed = Keyed.of(right, right.columns, shared=shared)
        found = None if keyed is None else keyed.partners(left)
        if found is None:  # too wide for numbers of 62 bits
            assert KeyNumbers.of(left, right, right.columns) is None
            return
        for how, alone in (("inner", False), ("left", True)):
            ours, theirs = found.pairs(alone=alone)
            ours = pl.int_range(left.height, eager=True) if ours is None else ours
            wanted = joined(left, right, how)
            assert ours.to_list() == wanted["ours"].to_list()
            assert theirs.to_list() == wanted["theirs"].to_list()
        kept = left.with_row_index("ours").join(right, on=right.columns, how="semi")["ours"]
        assert found.first.is_not_null().arg_true().to_list() == sorted(kept)
        wanted = joined(left, right, "inner")
        once = wanted["ours"].n_unique() == wanted["theirs"].n_unique() == wanted.height and not found.repeat
        assert found.is_one_to_one(right.height) == once

    check()


@pytest.mark.usefixtures("of_any_size", "way")
@pytest.mark.parametrize("more", [0, 1 << 40], ids=["of the left", "of the right"])
def test_have_partners__are_the_rows_of_a_semi_join(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matched, "MORE", more)
    monkeypatch.setattr(threads, "BLOCK", 5)

    @settings(max_examples=100, deadline=None)
    @given(pairs())
    def check(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
        """Of frames of any columns."""
        left, right = both
        kept = left.with_row_index("ours").join(right, on=right.columns, how="semi")["ours"]
        found = have_partners(left, right, right.columns)
        if found is None:
            assert partners(left, right, right.columns) is None
            return
        assert found.dtype == pl.Boolean
        assert found.null_count() == 0
        assert found.arg_true().to_list() == sorted(kept)

    check()


@pytest.mark.usefixtures("of_any_size", "way")
def test_a_key_that_comes_twice_on_the_right__has_several_partners() -> None:
    left = pl.DataFrame({"k": [2, 1, None, 3, 2]})
    found = partners(left, pl.DataFrame({"k": [1, 2, None, 2]}), ["k"])
    assert found is not None
    ours, theirs = found.pairs(alone=False)
    assert ours is not None
    assert list(zip(ours, theirs, strict=True)) == [(0, 1), (0, 3), (1, 0), (4, 1), (4, 3)]
    ours, theirs = found.pairs(alone=True)
    assert ours is not None
    assert list(zip(ours, theirs, strict=True)) == [(0, 1), (0, 3), (1, 0), (2, None), (3, None), (4, 1), (4, 3)]


@pytest.mark.usefixtures("of_any_size", "way")
def test_a_key_of_few_left_rows__has_its_partners_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "BLOCK", 5)
    random = np.random.default_rng(3)
    left = pl.DataFrame({"k": random.permutation(40)}).with_columns(pl.when(pl.col("k") != 7).then(pl.col("k")))
    right = pl.DataFrame({"k": pl.Series(random.integers(0, 60, 500)).set(pl.Series(random.random(500) < 0.1), None)})
    found = partners(left, right, ["k"])
    assert found is not None
    assert found.repeat
    for how, alone in (("inner", False), ("left", True)):
        ours, theirs = found.pairs(alone=alone)
        assert ours is not None
        assert list(zip(ours, theirs, strict=True)) == joined(left, right, how).rows()


def test_shared_keys__are_made_once_and_leave_with_their_part() -> None:
    part = Part(pl.DataFrame({"k": [1, 2], "l": [3, 4]}))
    keyed = shared_keys(part, ("k",))
    assert keyed is not None
    assert shared_keys(part, ("k",)) is keyed
    assert shared_keys(part, ("l",)) is not keyed
    assert shared_keys(Part(part.frame), ("k",)) is not keyed
    before = len(matched._SHARED)
    del part
    assert len(matched._SHARED) == before - 2


def test_shared_keys__are_worth_a_table_once_many_rows_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matched, "LEAST_ROWS", 1)
    monkeypatch.setattr(matched, "MANY_ROWS", 200)
    right = pl.DataFrame({"k": [number * 1_000_000 for number in range(100)]})
    once, shared = Keyed.of(right, ["k"]), Keyed.of(right, ["k"], shared=True)
    assert once is not None
    assert shared is not None
    assert [once.partners(right.head(60)) is None for _ in range(2)] == [True, True]
    assert [shared.partners(right.head(60)) is None for _ in range(2)] == [True, False]


def test_small_tables__are_joined_by_polars() -> None:
    rows = pl.DataFrame({"k": 1_000 * pl.int_range(60_000, eager=True)})
    assert partners(rows.head(10), rows, ["k"]) is None
    assert partners(rows, rows, ["k"]) is None


def test_near_numbers__are_looked_up_in_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matched, "MANY_ROWS", 1 << 40)
    rows = pl.DataFrame({"k": pl.int_range(60_000, eager=True)}).sample(fraction=1, shuffle=True, seed=1)
    found = partners(rows, rows.head(1_000), ["k"])
    assert found is not None
    assert found.first.to_list() == [*range(1_000), *[None] * 59_000]
    assert partners(rows, pl.concat([rows, rows.head(1)]), ["k"]) is None


def test_texts_that_hardly_repeat__are_joined_by_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matched, "MANY_ROWS", 1_000)
    rows = pl.DataFrame({"k": [str(number * 7_919 % 600_000) for number in range(600_000)]})
    assert partners(rows, rows, ["k"]) is None
    assert partners(rows, rows.head(900), ["k"]) is not None
