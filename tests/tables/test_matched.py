"""Partners by keys as numbers, looked up in their places or put in order and merged."""

from __future__ import annotations

from datetime import date
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.tables import matched
from pipeline.tables.matched import KeyNumbers, is_one_to_one, partners

VALUES: dict[Any, Any] = {
    pl.String(): st.sampled_from(["", "a", "A", "ä", "b\0", "z" * 30]),
    pl.Int64(): st.sampled_from([-(2**63), 2**63 - 1, 0, -1, 5]),
    pl.UInt64(): st.sampled_from([2**64 - 1, 2**64 - 9, 2**63]),
    pl.Int8(): st.integers(-128, 127),
    pl.Boolean(): st.booleans(),
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
    for name in ("LEAST_ROWS", "MANY_ROWS", "FEW"):
        monkeypatch.setattr(matched, name, 0)


@pytest.fixture(params=["looked up", "merged"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a list of places, however long, or none by one."""
    monkeypatch.setattr(matched, "PLACES", 1_000 if request.param == "looked up" else 0)
    monkeypatch.setattr(matched, "FEW_PLACES", 10_000 if request.param == "looked up" else 0)


def joined(left: pl.DataFrame, right: pl.DataFrame) -> list[int | None]:
    """The places of the partners by Polars' join."""
    return left.join(right.with_row_index("place"), on=right.columns, how="left", maintain_order="left")["place"].to_list()


@pytest.mark.usefixtures("of_any_size", "way")
def test_partners__are_those_of_a_join() -> None:
    @settings(max_examples=300, deadline=None)
    @given(pairs())
    def check(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
        """Of frames of any columns."""
        left, right = both
        once = right.unique(keep="first", maintain_order=True)
        found = partners(left, once, once.columns)
        if found is None:  # too wide for numbers of 62 bits
            assert KeyNumbers.of(left, once, once.columns) is None
            return
        assert found.to_list() == joined(left, once)
        known = left.drop_nulls().join(once, on=once.columns, how="semi")
        assert is_one_to_one(found, once.height) == (known.n_unique() == known.height)

    check()


@pytest.mark.usefixtures("of_any_size", "way")
def test_a_key_that_comes_twice_on_the_right__has_no_partner_to_speak_of() -> None:
    left = pl.DataFrame({"k": [1, 2, 3]})
    assert partners(left, pl.DataFrame({"k": [1, 2, 2]}), ["k"]) is None
    found = partners(left, pl.DataFrame({"k": [2, None, None, 1]}), ["k"])
    assert found is not None
    assert found.to_list() == [3, 0, None]


def test_small_tables__and_wide_keys_in_any_order_are_joined_by_hash() -> None:
    rows = pl.DataFrame({"k": 1_000 * pl.int_range(60_000, eager=True)})
    mixed = rows.sample(fraction=1, shuffle=True, seed=1)
    assert partners(rows.head(10), rows, ["k"]) is None
    assert partners(rows, mixed, ["k"]) is None
    assert partners(mixed, rows, ["k"]) is None
    both = partners(pl.concat([rows.slice(30_000), rows.head(30_000)]), rows, ["k"])
    assert both is not None
    assert both.to_list() == [*range(30_000, 60_000), *range(30_000)]


def test_near_numbers__are_looked_up_in_any_order() -> None:
    rows = pl.DataFrame({"k": pl.int_range(60_000, eager=True)}).sample(fraction=1, shuffle=True, seed=1)
    found = partners(rows, rows.head(1_000), ["k"])
    assert found is not None
    assert found.to_list() == [*range(1_000), *[None] * 59_000]
    assert partners(rows, pl.concat([rows, rows.head(1)]), ["k"]) is None


def test_many_texts_in_any_order__are_joined_by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matched, "MANY_ROWS", 1_000)
    rows = pl.DataFrame({"k": [str(number * 7_919 % 60_000) for number in range(60_000)]})
    assert partners(rows, rows, ["k"]) is None
    assert partners(rows, rows.head(900), ["k"]) is not None
