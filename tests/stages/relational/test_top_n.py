"""top_n."""

from __future__ import annotations

import math
import random
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.relational._ordered import near
from pipeline.stages.relational.top_n import TopN
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_parts, run_stage
from tests import example_tables as examples
from tests.harness import genotypes

RANDOM = random.Random(6)
FRAME = pl.DataFrame(
    {
        "k": [RANDOM.choice(["a", "b", "c", None]) for _ in range(60)],
        "t": [RANDOM.choice([None, 0, 1, 2]) for _ in range(60)],
        "row": range(60),
    }
)
EXAMPLES = [
    StageExample(TopN(by="key", n=1, order=["-n"]), {"rows": examples.MIXED}),
    StageExample(TopN(by=["k"], n=4, order=["-t"], with_ties=True), {"rows": FRAME}),
    StageExample(TopN(n=7, order=["t"]), {"rows": FRAME}, ordered=True),
]


def pandas(order: str, n: int) -> list[int]:
    """The rows that pandas keeps, by group."""
    frame = FRAME.to_pandas().sort_values([order.removeprefix("-"), "row"], ascending=[not order.startswith("-"), True])
    return [int(row) for _, rows in frame.groupby("k", dropna=False) for row in rows["row"].head(n)]


@pytest.mark.parametrize("n", [1, 3, 100])
@pytest.mark.parametrize("order", ["t", "-t"])
def test_top_n__keeps_the_first_rows_of_each_group(order: str, n: int) -> None:
    found = run_stage(TopN(by="k", n=n, order=order), {"rows": FRAME}, 3)[""]
    assert found["row"].to_list() == pandas(order, n)
    assert found.columns == FRAME.columns


def test_top_n__is_the_same_for_any_parts_and_order() -> None:
    for stage in (TopN(by="k", n=3, order="-t"), TopN(n=5, order="t"), TopN(by="k", n=3, order="-t", with_ties=True)):
        assert_same_for_any_parts(stage, {"rows": FRAME}, ["row"])


ODD = [float("nan"), None, -math.inf, math.inf, 1.5, 1.5, -2.0]


@pytest.mark.parametrize("many", [near.MANY_ROWS, 1])
@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32, pl.Int8, pl.Int64, pl.UInt64, pl.Date, pl.String, pl.Decimal(9, 1)])
def test_top_n__of_odd_values_is_that_of_duckdb(dtype: pl.DataType, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    monkeypatch.setattr(near, "MANY_ROWS", many)
    values = pl.Series("t", [RANDOM.choice(ODD) for _ in range(200)])
    floats, size = dtype in {pl.Float64, pl.Float32}, abs if dtype == pl.UInt64 else float
    finite = values.map_elements(lambda x: size(x) if math.isfinite(x) else None, pl.Float64)
    plain = values.cast(dtype) if floats else finite
    plain = plain.cast(pl.Int32).cast(pl.Date) if dtype == pl.Date else plain.cast(dtype)
    frame = pl.DataFrame({"k": [RANDOM.choice(["a", "b", None, *"cdefghij"]) for _ in range(200)], "t": plain, "row": range(200)})
    there = duckdb.from_arrow(frame.to_arrow())
    for n, order, ties in ((1, "t", "nulls last"), (3, "-t", "desc nulls last"), (40, "t", "nulls last")):
        ranked = there.project(f"row, row_number() over (partition by k order by t {ties}, row) as place").filter(f"place <= {n}")
        found = run_stage(TopN(by="k", n=n, order=order), {"rows": frame}, 3)[""]
        assert sorted(found["row"].to_list()) == sorted(row for row, _ in ranked.fetchall())


WIDE: dict[Any, list[Any]] = {
    pl.Int64: [-(1 << 63), (1 << 63) - 1, 0, -1, 5, None],
    pl.Int16: [-(1 << 15), (1 << 15) - 1, 0, None],
    pl.Float64: [-math.inf, math.inf, 0.0, -0.0, 5e-324, 1.7e308, float("nan"), None],
    pl.Datetime("us"): [datetime(1, 1, 1), datetime(9999, 12, 31), datetime(1970, 1, 1), None],
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_rows_near_the_top__are_those_that_the_engine_finds(dtype: pl.DataType, n: int, descending: bool) -> None:
    """Extremes of each type, in few groups and in many, of one row and of hundreds; a missing key is a group."""
    random = np.random.default_rng(n)
    values = pl.Series([WIDE[dtype][i] for i in random.integers(0, len(WIDE[dtype]), 900)], dtype=dtype)
    groups = pl.Series(np.minimum(random.geometric(0.05, 900), 60)).replace(7, None)
    words = pl.Series([f"w{i}" for i in random.integers(0, 2, 900)])
    found = near._compiled(n, descending, [groups, words], values)
    assert found is not None
    assert found.to_list() == near._joined(n, descending, [groups, words], values).to_list()
    assert 0 < found.sum() < 900


def test_rows_of_very_many_groups__are_found_by_the_engine() -> None:
    values = pl.Series(range(300))
    assert near._compiled(3, False, [values], values) is None
    assert near._compiled(1, False, [values * (1 << 50)], values) is None
    assert near._compiled(1, False, [values // 30], values.cast(pl.UInt64)) is None


def test_with_ties__keeps_all_rows_that_tie_with_the_last() -> None:
    ranks = FRAME.with_columns(rank=pl.col("t").fill_null(9).rank("min").over("k"))
    found = run_stage(TopN(by="k", n=2, order="t", with_ties=True), {"rows": FRAME}, 2)[""]
    assert sorted(found["row"].to_list()) == ranks.filter(pl.col("rank") <= 2)["row"].to_list()


def test_top_n__keeps_the_calls_of_its_rows() -> None:
    table, axes = genotypes()
    (part,) = run_parts(TopN(by="chromosome", n=2, order="-base_pair_location"), {"rows": [table]}, axes=axes)[""]
    places = [table.frame["base_pair_location"].to_list().index(place) for place in part.frame["base_pair_location"]]
    np.testing.assert_array_equal(part.arrays["calls"], table.arrays["calls"][places])


def test_top_n__refuses_float_keys_and_unknown_columns() -> None:
    with pytest.raises(StageError, match="a fraction is no key"):
        plan_stage(TopN(by="x", n=1, order="n"), {"rows": examples.MIXED})
    with pytest.raises(StageError, match="order: the table has no column 'nn'"):
        plan_stage(TopN(by="key", n=1, order="nn"), {"rows": examples.MIXED})
