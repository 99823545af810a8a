"""Engines: what is not worth a way to the GPU and back."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline.backend.engines
from pipeline.backend.engines import collect, only_picks

FRAME = pl.DataFrame({"id": [1, 2, 3], "x": [0.5, None, 2.5], "text": ["a", "b", None]})


@pytest.mark.parametrize(
    "query",
    [FRAME.lazy(), FRAME.lazy().select("x"), FRAME.lazy().select("text", "id"), FRAME.lazy().drop("id"), FRAME.lazy().head(2)],
    ids=["all", "a column", "columns in another order", "all but one", "first rows"],
)
def test_a_query_that_only_picks__is_not_sent_to_the_gpu(query: pl.LazyFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(_backend: Any) -> Any:
        raise AssertionError("the GPU's engine was asked for")

    monkeypatch.setattr(pipeline.backend.engines, "engine", unwanted)
    assert_frame_equal(collect(query, "gpu"), query.collect())


@pytest.mark.parametrize(
    "query",
    [
        FRAME.lazy().filter(pl.col("id") > 1),
        FRAME.lazy().filter(pl.col("id") > 1).select("x"),
        FRAME.lazy().with_columns(pl.col("x") * 2),
        FRAME.lazy().sort("x").select("x"),
        pl.concat([FRAME.lazy(), FRAME.lazy()]),
        pl.scan_csv(__file__),
    ],
    ids=["filter", "filter and pick", "arithmetic", "sort", "concat", "scan"],
)
def test_a_query_that_works_on_rows__is_no_picking(query: pl.LazyFrame) -> None:
    assert not only_picks(query)
