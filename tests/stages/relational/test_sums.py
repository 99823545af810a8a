"""Sums and means of extremes: what DuckDB's 128-bit sums say, or an error by name."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pytest

from pipeline.errors import DataError
from pipeline.stages.relational._aggregates import totals
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import Between
from pipeline.testing.stages import assert_same_for_any_parts, run_stage

INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
EXTREMES = pl.DataFrame(
    {
        "key": [1, 1, 1, 2, 2, 3],
        "i": [2**63 - 1, -(2**63), 5, -(2**63), 2**62, None],
        "u": pl.Series([2**63, 2**63 - 1, 0, 12345678901234567891, 1, None], dtype=pl.UInt64),
        "d": pl.Series(["0.10", "0.20", "99999999.99", "-0.07", "0.07", None]).cast(pl.Decimal(15, 2)),
    }
)


def aggregate(compute: dict[str, Any]) -> Aggregate:
    return Aggregate.model_validate({"by": ["key"], "compute": compute})


def by_duckdb(frame: pl.DataFrame, columns: str) -> list[tuple[Any, ...]]:
    relation = duckdb.connect().from_arrow(frame.to_arrow())
    rows: list[tuple[Any, ...]] = relation.aggregate(f"key, {columns}", "key").order("key").fetchall()
    return rows


def values_of(dtype: Any) -> list[int]:
    low, high = (pl.select(value).item() for value in (dtype.min(), dtype.max()))
    return [low, high, low + 1, high - 1, 0, 1, high // 2, low // 2]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("times", [1, 3])
def test_sums_and_means_of_extremes__are_those_of_duckdb_or_fail(dtype: Any, times: int) -> None:
    """Keys of one, two and more of the extremes: a sum that DuckDB's 128 bits hold and 64 do not fails, a mean never does."""
    values = values_of(dtype)
    keys = [*range(8), *[8] * 8, *[9, 10] * 4] * times
    frame = pl.DataFrame({"key": keys, "x": pl.Series(values * 3 * times, dtype=dtype)})
    found = assert_same_for_any_parts(aggregate({"mean": "mean(x)"}), {"rows": frame}, ["key"])
    expected = by_duckdb(frame, "cast(sum(x::hugeint) as double) / count(x), sum(x::hugeint)")
    assert found["mean"].to_list() == pytest.approx([mean for _, mean, _ in expected], rel=1e-15)
    low, high = (0, 2**64 - 1) if dtype == pl.UInt64 else (-(2**63), 2**63 - 1)
    within = [key for key, _, total in expected if low <= total <= high]
    sums = aggregate({"sum": "sum(x)"})
    kept = assert_same_for_any_parts(sums, {"rows": frame.filter(pl.col("key").is_in(within))}, ["key"])
    assert kept["sum"].to_list() == [int(total) for key, _, total in expected if key in within]
    for key, _, total in expected:
        if key not in within:
            with pytest.raises(DataError, match=rf"compute.sum: the sum is beyond U?Int64 for key {key}\. .*sum\(cast\(x as double\)\)"):
                run_stage(sums, {"rows": frame.filter(pl.col("key") == key)}, 3)
            assert abs(total) >= 2**63


def test_sums__of_decimals_are_exact() -> None:
    found = assert_same_for_any_parts(aggregate({"sum": "sum(d)", "mean": "mean(d)"}), {"rows": EXTREMES}, ["key"])
    assert found.schema["sum"] == pl.Decimal(38, 2)
    expected = by_duckdb(EXTREMES, "coalesce(sum(d), 0), cast(sum(d) as double) / count(d)")
    assert [row[:2] for row in found.rows()] == [row[:2] for row in expected]
    assert found["mean"].to_list() == [expected[0][2], expected[1][2], None]
    many = pl.DataFrame({"key": [1] * 10_000, "d": [Decimal("0.10")] * 10_000})
    assert run_stage(aggregate({"sum": "sum(d)"}), {"rows": many})[""]["sum"].to_list() == [Decimal("1000.00")]


def test_sums__over_workers_meet_in_halves(workers: ClusterSession) -> None:
    """No part's sum fits alone, all together do; and one that does not fit fails as in one process."""
    frame = pl.DataFrame({"key": [1] * 4, "x": [2**63 - 1, 2**63 - 1, -(2**63), -(2**63)]})
    found = run_stage(aggregate({"sum": "sum(x)", "mean": "mean(x)"}), {"rows": frame}, 2, workers)[""]
    assert found.rows() == [(1, -2, -0.5)]
    with pytest.raises(DataError, match=r"compute\.sum: the sum is beyond Int64 for key 1"):
        run_stage(aggregate({"sum": "sum(x)"}), {"rows": frame.head(2)}, 2, workers)


def test_means__of_large_integers_do_not_wrap() -> None:
    frame = pl.DataFrame({"key": [1] * 6, "x": [17 * 10**17] * 6, "u": pl.Series([2**63] * 6, dtype=pl.UInt64)})
    found = run_stage(aggregate({"x": "mean(x)", "u": "mean(u)"}), {"rows": frame}, 2)[""]
    assert found.rows() == [(1, 1.7e18, 2.0**63)]


# Polars' engines find some of these sums themselves, and wrap others.
TOO_WIDE = r"compute(\.d: the sum is beyond Decimal\(.*\) for key 1|: a sum of decimals has more than 38 digits)\. Add up floats"


@pytest.mark.parametrize("scale", [0, 4, 30])
def test_sums_of_decimals__of_more_than_38_digits_fail_by_name(scale: int) -> None:
    least = Decimal(1).scaleb(-scale)
    most = (10**37) * least
    frame = pl.DataFrame({"key": [1, 2, 2], "d": pl.Series([most * 9, most * 9, -most], dtype=pl.Decimal(38, scale))})
    for parts, session in ((1, Session()), (2, Between())):
        assert run_stage(aggregate({"d": "sum(d)"}), {"rows": frame}, parts, session)[""]["d"].to_list() == [most * 9, most * 8]
    means = run_stage(aggregate({"d": "mean(d)"}), {"rows": frame}, 2)[""]["d"].to_list()
    assert means == pytest.approx([float(most) * 9, float(most) * 4], rel=1e-14)
    large = frame.with_columns(key=pl.lit(1), d=pl.col("d").abs())
    for parts, session in ((1, Session()), (2, Between())):
        with pytest.raises(DataError, match=TOO_WIDE):
            run_stage(aggregate({"d": "sum(d)"}), {"rows": large}, parts, session)


def test_sums_of_decimals__beyond_38_digits_in_a_part_do_not_come_back_wrong() -> None:
    """The sums of both parts have 39 digits, and that of all has none."""
    most = Decimal(9 * 10**37)
    frame = pl.DataFrame({"key": [1] * 4, "d": pl.Series([most, most, -most, -most], dtype=pl.Decimal(38, 0))})
    with pytest.raises(DataError, match=TOO_WIDE):
        run_stage(aggregate({"d": "sum(d)"}), {"rows": frame}, 2, Between())


def test_sums_of_decimals__that_an_engine_wraps_fail_with_their_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDF adds up 128 bits and does not say that they were too few: here every sum that is taken of decimals is 1."""
    monkeypatch.setattr(totals, "added", lambda value: pl.when(value.count() > 0).then(value.min() * 0).otherwise(None))
    frame = pl.DataFrame({"key": [7, 7], "d": pl.Series([Decimal("9" * 38)] * 2, dtype=pl.Decimal(38, 0))})
    with pytest.raises(DataError, match=r"compute\.sum: the sum is beyond Decimal\(precision=38, scale=0\) for key 7\."):
        run_stage(aggregate({"sum": "sum(d)"}), {"rows": frame})
