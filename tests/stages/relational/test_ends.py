"""Single rows among others: their values keep their types."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.stages.relational._ordered.ends import alike, like, one_of


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_equal_values_of_several_types__are_literals_of_their_own(engine: str) -> None:
    for number in range(-40, 40):  # Polars takes -4 and -4.0 for the same
        row = pl.DataFrame({"whole": [number], "float": [float(number)]}).with_columns(exact=pl.col("whole").cast(pl.Decimal(20, 2)))
        asked = pl.LazyFrame({"place": [1, 2]}).with_columns(one_of(row, name).alias(name) for name in row.columns)
        found = asked.collect(engine=engine)  # type: ignore[call-overload]
        assert found.drop("place").schema == row.schema
        assert found.drop("place").equals(pl.concat([row, row]))


def test_rows_like_one__have_what_it_has_missing_ones_too() -> None:
    rows = pl.DataFrame({"key": [None, 1, 1], "word": ["a", "a", None]})
    assert rows.select(like(rows[1:2], ["key"])).to_series().to_list() == [False, True, True]
    assert rows.select(like(rows[2:], ["key", "word"])).to_series().to_list() == [False, False, True]
    assert alike(rows[:1], rows[:1], ["key", "word"])
    assert not alike(rows[:1], rows[1:2], ["key"])
