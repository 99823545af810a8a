"""Groups by the order of rows, where hardly any row shares its keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import polars as pl
import polars.testing
import pytest

from pipeline.backend.engines import collect
from pipeline.stage import Context
from pipeline.stages.relational._aggregates import in_order, repeated
from pipeline.stages.relational._aggregates.grouped import Grouped
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.tables import stretch
from pipeline.tables.budget import Size
from pipeline.tables.infinities import counting
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table

ROWS, MANY = 30_000, ("a", "b", "c", "d")
COMPUTE = {
    "total": "sum(n)",
    "mean": "mean(x)",
    "least": "min(text)",
    "rows": "size()",
    "sd": "std(x)",
    "late": {"function": "count", "of": "x", "where": "x > 0.5"},
    "middle": "median(x)",
    "kinds": "n_unique(n)",
}
ASKED = (
    "coalesce(sum(n), 0)::bigint total, avg(x) mean, min(text) least, count(*) as rows, stddev_samp(x) sd, "
    "count(x) filter (where x > 0.5) late, median(x) middle, count(distinct n) kinds"
)


def rows(repeats: int, letters: int) -> pl.DataFrame:
    """Keys of every kind, with nulls, that come about so often; texts of so many letters."""
    random = np.random.default_rng(repeats)
    keys = ROWS // repeats
    frame = pl.DataFrame(
        {
            "a": pl.Series(random.integers(0, keys, ROWS)).cast(pl.String).str.zfill(letters),
            "b": pl.Series(random.integers(-1, 1, ROWS)).cast(pl.Int16),
            "c": random.random(ROWS) < 0.5,
            "d": pl.Series(random.integers(18_000, 18_003, ROWS), dtype=pl.Int32).cast(pl.Date),
            "e": pl.Series(random.integers(-2, 3, ROWS) * 0.5),
            "f": pl.Series(random.integers(0, 3, ROWS)).cast(pl.Decimal(9, 2)),
            "g": pl.Series(random.integers(0, 3, ROWS).astype(np.uint64) + 2**63),
            "n": random.integers(-(2**62), 2**62, ROWS) // 10**5,
            "x": random.random(ROWS).round(3),
            "text": pl.Series(random.integers(0, 99, ROWS)).cast(pl.String),
        }
    )
    gaps = [pl.when(pl.Series(random.random(ROWS) < 0.05)).then(None).otherwise(pl.col(name)).alias(name) for name in frame.columns]
    return frame.with_columns(gaps)


def grouped(by: tuple[str, ...], compute: dict[str, Any] = COMPUTE) -> Grouped:
    stage = Aggregate.model_validate({"by": by, "compute": compute})
    return Grouped(stage.by, stage.compute, in_order=True)


@pytest.mark.parametrize(("repeats", "letters"), [(1, 1), (20, 12), (3_000, 1)], ids=["hardly", "some", "often"])
@pytest.mark.parametrize("by", [("b", "a"), ("d", "b", "c", "a"), ("c", "d"), ("e", "a", "f", "g")], ids=["two", "four", "few", "wide"])
def test_groups_in_order__are_those_of_duckdb(by: tuple[str, ...], repeats: int, letters: int) -> None:
    given = rows(repeats, letters)
    with counting("cpu"):
        found = collect(grouped(by).apply(given.lazy()), "cpu")
    keys = ", ".join(by)
    order = ", ".join(f"{name} nulls last" for name in by)
    expected = duckdb.sql(f"select {keys}, {ASKED} from given group by {keys} order by {order}").pl()
    pl.testing.assert_frame_equal(found, expected.select(found.columns), check_dtypes=False, rel_tol=1e-12)


def test_groups_in_order__of_texts_that_hardly_repeat_or_of_names_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.tables.packed.SAMPLE", 1_000)
    given = rows(1, 9).with_columns(pl.int_range(ROWS).cast(pl.String).alias("a"), kind=pl.col("text").cast(pl.Categorical))
    for by in (("b", "a"), ("b", "kind")):
        with counting("cpu"):
            found = collect(grouped(by, {"rows": "size()"}).apply(given.lazy()), "cpu")
        plain = given.group_by(by).agg(pl.len().cast(pl.Int64).alias("rows"))
        pl.testing.assert_frame_equal(found, plain, check_row_order=False)


def test_rows_a_group__are_those_of_all() -> None:
    numbers = pl.Series(np.repeat(np.arange(40_000), 5)).shuffle(3)
    assert in_order._rows_a_group(numbers) == 5
    assert in_order._rows_a_group(pl.Series([], dtype=pl.Int64)) == 0


def test_aggregate__groups_in_order_where_large_tables_hardly_repeat_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    given, session = rows(1, 1), Session()
    table = Table.of(session, "given", [Part(given)], schema=Schema(given.schema))
    done, ordered = list[int](), in_order._grouped

    def watched(by: list[str], steps: list[pl.Expr], given: pl.DataFrame) -> pl.DataFrame:
        done.append(given.height)
        return ordered(by, steps, given)

    monkeypatch.setattr(in_order, "_grouped", watched)
    monkeypatch.setattr(repeated, "LARGE", ROWS)
    for by, size, times in ((MANY, ROWS, 1), (("b", "c"), ROWS, 0), (("a",), ROWS, 0), (MANY, ROWS - 1, 0)):
        stage = Aggregate.model_validate({"by": by, "compute": COMPUTE})
        done.clear()
        stage.run({"rows": replace(table, size=Size(size, 80))}, Context("made", 1, session)).tables[""].futures()
        assert done == [ROWS, stretch.ROWS] * times  # and of the audit
