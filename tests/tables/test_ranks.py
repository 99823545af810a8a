"""Values on which ranks fall, of counts that lie in many parts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pipeline.tables.budget import Budget, Size
from pipeline.tables.part import Part
from pipeline.tables.ranks import CELLS, Counted, Wanted, with_ranks
from pipeline.tables.session import Session
from pipeline.tables.table import Table

ROWS = 60_000
SHARES = (0.0, 0.001, 0.25, 0.5, 0.987, 1.0)
COUNTED = Counted("value", "rows", of="column")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    found = Session()
    found.budget = Budget(1, 2, str(tmp_path))
    return found


def values_of(kind: str) -> NDArray[Any]:
    random = np.random.default_rng(5)
    kinds: dict[str, NDArray[Any]] = {
        "normal": random.normal(0, 1e6, ROWS),
        "in order": np.arange(ROWS) * 0.5,
        "nearly all the same": np.where(random.random(ROWS) < 0.99, 7.0, random.normal(0, 1, ROWS)),
        "of two values": random.integers(0, 2, ROWS).astype(float),
        "far apart": np.exp(random.normal(0, 100, ROWS)) * random.choice([-1, 1], ROWS),
        "large whole numbers": random.integers(-(2**62), 2**62, ROWS),
    }
    return kinds[kind]


def counts_in_parts(session: Session, values: NDArray[Any], parts: int = 9) -> Table:
    """Counts of the values, part by part, beside rows that have none."""
    edges = [ROWS * part // parts for part in range(parts + 1)]
    frames = []
    for low, high in pairwise(edges):
        counts = pl.DataFrame({"value": values[low:high]}).group_by("value").agg(pl.len().cast(pl.Int64).alias("rows"))
        told = pl.DataFrame({"seen": [high - low]})
        frames.append(pl.concat([counts.with_columns(pl.lit("x").alias("column")), told], how="diagonal"))
    return Table.of(session, "counted", [Part(frame) for frame in frames], size=Size(ROWS, 24)).map(_same)


def _same(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows


@pytest.mark.parametrize("kind", ["normal", "in order", "nearly all the same", "of two values", "far apart", "large whole numbers"])
def test_the_values_at_ranks__are_those_of_all_values_in_order(session: Session, kind: str) -> None:
    values = values_of(kind)
    wanted = Wanted(SHARES)
    found = with_ranks(counts_in_parts(session, values), [COUNTED], wanted).futures()[0].frame
    assert found["seen"].sum() == ROWS  # rows without a value stay
    counts = found.drop_nulls("value").sort("value")
    assert counts["rows"].sum() == ROWS
    reached, inorder = counts["rows"].cum_sum().to_numpy(), np.sort(values)
    for rank in wanted.ranks(ROWS):
        assert counts["value"][int(np.searchsorted(reached, rank, side="right"))] == inorder[rank]
    assert counts.height < len(np.unique(values)) / 4 or len(np.unique(values)) < CELLS


def test_a_series_each__has_ranks_of_its_own(session: Session) -> None:
    one, two = values_of("normal"), values_of("in order")
    frames = [
        pl.DataFrame({"column": name, "value": values[low : low + ROWS // 3], "rows": 1})
        for name, values in (("one", one), ("two", two))
        for low in range(0, ROWS, ROWS // 3)
    ]
    table = Table.of(session, "counted", [Part(frame) for frame in frames], size=Size(2 * ROWS, 24)).map(_same)
    found = with_ranks(table, [COUNTED], Wanted((0.5,))).futures()[0].frame
    for name, values in (("one", one), ("two", two)):
        counts = found.filter(pl.col("column") == name).sort("value")
        reached = counts["rows"].cum_sum().to_numpy()
        assert reached[-1] == ROWS
        for rank in (ROWS // 2 - 1, ROWS // 2):
            assert counts["value"][int(np.searchsorted(reached, rank, side="right"))] == np.sort(values)[rank]


def test_decimals__come_together_as_they_are(session: Session) -> None:
    values = pl.Series("value", ["1.50", "2.25", None, "1.50"]).cast(pl.Decimal(10, 2))
    parts = [Part(pl.DataFrame([values, pl.Series("rows", [1, 2, 3, 4])])[at : at + 2]) for at in (0, 2)]
    table = Table.of(session, "counted", parts, size=Size(4, 24)).map(_same)
    found = with_ranks(table, [Counted("value", "rows")], Wanted((0.5,))).futures()[0].frame
    assert found["rows"].sum() == 10
    assert found["value"].dtype == pl.Decimal(10, 2)
