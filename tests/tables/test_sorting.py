"""Rows in order by one number a row: the order of Polars' own sort, whatever fits into the number and whatever ties."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pipeline.backend import threads
from pipeline.tables import sorting
from pipeline.tables.infinities import counting
from pipeline.tables.names import Order
from pipeline.tables.sorting import ordered, put_in_order, sorted_frame
from tests.tables.test_packed import frames

TURNED = st.lists(st.booleans(), min_size=5, max_size=5)
FLOATS = st.lists(st.sampled_from([None, float("nan"), -0.0, 0.0, 1.5, float("inf")]), min_size=30, max_size=30)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames(), st.integers(1, 5), TURNED, FLOATS, st.sampled_from([1, 2**10, 2**62]))
def test_sorted_rows__are_in_the_order_of_polars(
    monkeypatch: pytest.MonkeyPatch, frame: pl.DataFrame, named: int, turned: list[bool], floats: list[float | None], most: int
) -> None:
    monkeypatch.setattr(sorting, "MANY", 1)
    monkeypatch.setattr(sorting, "MOST", most)
    monkeypatch.setattr(threads, "BLOCK", 7)
    frame = frame.with_columns(pl.Series("real", floats[: frame.height], dtype=pl.Float64))
    names, rows = frame.columns, frame.with_columns(row=pl.int_range(frame.height), list=pl.concat_list(pl.int_range(frame.height)))
    order = Order(f"-{name}" if down else name for name, down in zip(names[:named], turned, strict=False))
    expected = rows.sort(names, descending=[*order.descending, *[False] * (len(names) - len(order))], nulls_last=True, maintain_order=True)
    assert_frame_equal(sorted_frame(order, names[len(order) :], rows), expected)


@pytest.mark.parametrize(
    ("order", "ties"), [(("a", "-b"), ()), (("-word",), ()), (("a",), ("b", "real")), (("b", "word"), ("real",)), (("row",), ())]
)
def test_a_query__that_sorts_many_rows_may_be_asked_for_less(order: tuple[str, ...], ties: tuple[str, ...]) -> None:
    rng, height = random.Random(7), 3 * sorting.MANY
    rows = pl.DataFrame(
        {
            "a": [rng.choice([None, *range(20)]) for _ in range(height)],
            "b": [rng.randrange(-3_000, 3_000) for _ in range(height)],
            "word": [rng.choice([None, "x", "yy", "é", ""]) for _ in range(height)],
            "real": [rng.random() for _ in range(height)],
            "row": range(height),
        }
    )
    with counting("cpu"):
        query = put_in_order(rows.lazy(), Order(order), ties)
    assert query.collect_schema() == rows.schema
    expected = Order(order).then(ties).sort(rows.lazy()).collect()
    assert_frame_equal(query.collect(), expected)
    for engine in ("in-memory", "streaming"):
        assert_frame_equal(
            query.filter(pl.col("b") > 5).select("row").head(9).collect(engine=engine),
            expected.filter(pl.col("b") > 5).select("row").head(9),
        )


@pytest.mark.parametrize("bits", [1, 20, 50, 62])
@pytest.mark.parametrize("kept", [62, 4])
def test_ordered_numbers__are_those_of_a_stable_sort_whatever_they_lose_for_their_places(
    monkeypatch: pytest.MonkeyPatch, bits: int, kept: int
) -> None:
    monkeypatch.setattr(threads, "BLOCK", 7_000)
    rng = np.random.default_rng(bits + kept)
    numbers = rng.integers(0, 1 << bits, 30_000)
    lower = max(0, bits - kept)  # numbers of which the first bits are mostly alike
    numbers = (numbers >> lower << lower) + rng.integers(0, 1 << min(lower, 9), 30_000)
    found, places = ordered(pl.Series(numbers))
    expected = np.argsort(numbers, kind="stable")
    assert places is not None
    assert np.array_equal(places, expected)
    assert np.array_equal(found, numbers[expected])


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("height", [0, 1, 9, 20_000])
@pytest.mark.parametrize("power", [1, 9])
def test_keys__come_in_order_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch, threads: int, height: int, power: int) -> None:
    monkeypatch.setattr(pl, "thread_pool_size", lambda: threads)
    monkeypatch.setattr(sorting, "MANY", 1)
    keys = (np.random.default_rng(height).random(height) ** power * 2.0**62).astype(np.uint64) + np.arange(height, dtype=np.uint64)
    expected = sorted(keys.tolist())
    assert sorting.put_up(keys).tolist() == expected
