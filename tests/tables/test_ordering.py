"""Where rows go that are put in order beyond memory: as many places are before each as Polars' sort of both says."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from pipeline.tables.names import Order
from pipeline.tables.ordering import AMID, SIDE, _by_numbers, _by_search, _places
from pipeline.tables.part import Part

ROWS = 3_000
RANDOM = np.random.default_rng(20261130)
COLUMNS = {
    "text": pl.Series([f"key-{number:04d}-é" if number % 3 else "the hot one" for number in RANDOM.integers(0, 900, ROWS)]),
    "empty": pl.Series([["", "a", "B", "é", "\U0001f600"][number] for number in RANDOM.integers(0, 5, ROWS)]),
    "whole": pl.Series(RANDOM.integers(-(2**62), 2**62, ROWS)),
    "small": pl.Series(RANDOM.integers(0, 7, ROWS)).cast(pl.Int8),
    "day": pl.Series([date(2020, 1, 1) + timedelta(days=int(number)) for number in RANDOM.integers(0, 40, ROWS)]),
    "float": pl.Series(RANDOM.choice([0.0, -0.0, 1.5, -2.5, 1e300], ROWS)),
    "flag": pl.Series(RANDOM.random(ROWS) < 0.3),
    "decimal": pl.Series(RANDOM.integers(-50, 50, ROWS)).cast(pl.Decimal(10, 2)),
    "wide": pl.select(pl.lit(pl.Series(RANDOM.integers(-(2**62), 2**62, ROWS))).cast(pl.Int128) * 8).to_series(),
    "bytes": pl.Series([f"{number}".encode() for number in RANDOM.integers(0, 90, ROWS)]),
    "kind": pl.Series([f"{number}" for number in RANDOM.integers(0, 20, ROWS)]).cast(pl.Categorical),
    "moment": pl.Series(RANDOM.integers(0, 10**15, ROWS)).cast(pl.Datetime("us", "UTC")),
    "unsigned": pl.Series(RANDOM.integers(0, 2**63, ROWS).astype(np.uint64) * np.uint64(2)),
}


def expected(rows: pl.DataFrame, order: Order, places: pl.DataFrame) -> list[int]:
    """How many places are before each row, by one sort of all."""
    ours = rows.select(order.names).with_columns(pl.lit(AMID, pl.Int8).alias(SIDE), pl.int_range(rows.height).alias("at"))
    both = pl.concat([places.with_columns(pl.lit(None, pl.Int64).alias("at")), ours])
    in_order = both.sort([*order.names, SIDE], descending=[*order.descending, False], nulls_last=True)
    found = in_order.with_columns(number=pl.col("at").is_null().cum_sum()).filter(pl.col("at").is_not_null()).sort("at")
    return found["number"].to_list()


@pytest.mark.parametrize("nulls", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("name", COLUMNS)
def test_rows__go_between_the_places_that_a_sort_puts_them_between(name: str, nulls: float) -> None:
    rows = pl.DataFrame({name: COLUMNS[name], "u": RANDOM.integers(0, 50, ROWS)})
    rows = rows.with_columns(pl.when(pl.Series(RANDOM.random(ROWS) >= nulls)).then(name).alias(name))
    for order in (Order([name]), Order([f"-{name}"]), Order([f"-{name}", "u"]), Order([name, "-u"])):
        for pieces in (2, 5, 40):
            places = _places(Part(rows.select(order.names).gather_every(3)), order, pieces)
            wanted = expected(rows, order, places)
            assert _by_search(rows, order, places).to_list() == wanted
            if (numbers := _by_numbers(rows, order, places)) is not None:
                assert numbers.to_list() == wanted


def test_rows_of_places_of_another_part__go_where_they_belong() -> None:
    rows, others = pl.DataFrame({"s": ["b", None, "d", "a"]}), pl.DataFrame({"s": ["c", "c", "c", "b", "e", "f"]})
    order = Order(["s"])
    places = _places(Part(others), order, 6)
    assert _by_search(rows, order, places).to_list() == expected(rows, order, places)
    assert _by_search(rows.clear(), order, places).to_list() == []
    assert _by_search(rows, order, places.clear()).to_list() == [0] * 4
