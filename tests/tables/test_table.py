"""Tables: verbs, fusion into one query, and exchanges in one process and over several."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, RunError
from pipeline.formats.parquet import ParquetInput
from pipeline.tables.exchange import buckets, join_pieces, overlap_groups, split_part
from pipeline.tables.pairs import together
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.steps import lazy_of
from pipeline.tables.table import Table
from pipeline.tables.wire import register_with_dask


def table_of(session: Session, parts: int, rows: int = 60) -> Table:
    frame = pl.DataFrame({"k": [i * 7 % 11 for i in range(rows)], "v": list(range(rows))})
    bounds = [rows * i // parts for i in range(parts + 1)]
    pieces = [frame.slice(low, high - low) for low, high in pairwise(bounds)]
    return Table.of(session, "t", [Part(piece, {"calls": piece.to_numpy().astype(np.uint8)}) for piece in pieces])


def sums(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.group_by("k").agg(pl.col("v").sum(), pl.len().cast(pl.Int64).alias("n"))


def collected(table: Table) -> pl.DataFrame:
    parts = table.futures()
    return concat_parts([part if isinstance(part, Part) else part.result() for part in parts]).frame


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_exchange__gives_the_same_groups_for_any_parts(parts: int, workers: ClusterSession) -> None:
    expected = collected(table_of(Session(), 1).map(sums)).sort("k")
    for session in (Session(), workers):
        table = table_of(session, parts).exchange(["k"]).map(sums)
        assert collected(table).sort("k").equals(expected)


def test_exchange__over_workers_carries_the_arrays(workers: ClusterSession) -> None:
    parts = [future.result() for future in table_of(workers, 5).exchange(["k"]).futures()]
    whole = concat_parts(parts)
    assert len(parts) > 1
    assert whole.frame.height == 60
    assert np.array_equal(whole.arrays["calls"], whole.frame.to_numpy().astype(np.uint8))


def test_together__pairs_equal_keys_over_workers(workers: ClusterSession) -> None:
    left, right = together(table_of(workers, 5), table_of(workers, 3), ["k"])
    for one, other in zip(left.futures(), right.futures(), strict=True):
        assert set(one.result().frame["k"]) == set(other.result().frame["k"])


class CountedTasks(Session):
    """Two workers of one thread, whose tasks run here and are counted."""

    workers = 2

    def __init__(self) -> None:
        self.tasks = 0

    def submit(self, function: Callable[..., Any], *arguments: Any, stage: str, on_host: bool = False) -> Any:
        self.tasks += 1
        return super().submit(function, *arguments, stage=stage, on_host=on_host)


@pytest.mark.parametrize("parts", [7, 28])
def test_exchanges_in_a_row__take_few_tasks_a_stage(parts: int) -> None:
    session = CountedTasks()
    table, stages = table_of(session, parts), 20
    for _ in range(stages):  # a map that does not say what it writes, so that rows move every time
        table = table.exchange(["k"]).map(lambda rows: rows)
    assert sum(part.frame.height for part in table.futures()) == 60
    settled = len(table.blocks)  # after the first exchange a stage's tasks do not depend on the parts of the input
    assert settled <= 4 * session.workers
    assert session.tasks <= parts * (3 + buckets(parts, 2)) + stages * settled * (settled + 3)


def test_exchange__moves_nothing_where_one_before_has_put_the_rows_together() -> None:
    session = CountedTasks()
    table = table_of(session, 7).exchange(["k"])
    tasks = session.tasks
    kept = table.map(lambda rows: rows.with_columns(w=pl.col("v") + 1), writes=frozenset({"w"}))
    assert kept.exchange(["k", "v"]) is kept
    assert all(one is kept for one in together(kept, kept, ["k", "w"]))
    assert session.tasks == tasks
    changed = table.map(lambda rows: rows.with_columns(k=pl.col("k") // 2), writes=frozenset({"k"}))
    unsure = table.map(lambda rows: rows)
    assert [len(changed.exchange(["k"]).spread), unsure.spread, kept.exchange(["v"]).spread] == [1, (), ("v",)]
    assert session.tasks > tasks
    parts = [set(part.frame["k"]) for part in changed.exchange(["k"]).futures()]
    assert not parts[0] & parts[1]


@pytest.mark.parametrize("other", [1, 3, 40])
def test_together__brings_another_table_to_one_that_is_spread(other: int) -> None:
    session = CountedTasks()
    left, right = table_of(session, 7).exchange(["k"]), table_of(session, other, rows=80)
    for one, two in (together(left, right, ["k"]), together(right, left, ["k"])):
        assert len(one.blocks) == len(two.blocks)
        pairs = zip(one.futures(), two.futures(), strict=True)
        found = [row for a, b in pairs for row in a.frame.join(b.frame, on="k").rows()]
        assert len(found) == table_of(session, 1).futures()[0].frame.join(table_of(session, 1, rows=80).futures()[0].frame, on="k").height


@pytest.mark.parametrize("parts", [2, 7, 16, 33, 1000])
@pytest.mark.parametrize("threads", [1, 2, 16])
def test_buckets__give_every_thread_one_and_keep_parts_small(parts: int, threads: int) -> None:
    found = buckets(parts, threads)
    assert min(parts, threads) <= found <= min(parts, 4 * threads)
    assert parts <= 4 * found or found == 4 * threads


def test_join_pieces__notices_rows_lost_on_the_way() -> None:
    pieces = split_part(Part(pl.DataFrame({"k": [1, 2, 3]})), ["k"], 1)
    with pytest.raises(RunError, match=r"sent 4 rows and 3 arrived"):
        join_pieces((4, pieces[0][1]))


def test_overlap_groups__pairs_neighbours_and_leaves_no_side_empty() -> None:
    assert overlap_groups([(0, 9), (10, 19)], [(0, 4), (5, 9), (10, 30)]) == [([0], [0, 1]), ([1], [2])]
    assert overlap_groups([(0, 9), (10, 19)], [(5, 12)]) == [([0, 1], [0])]
    groups = overlap_groups([(0, 1), (4, 5)], [(0, 1), (2, 3)])
    assert sorted(i for a, _ in groups for i in a) == [0, 1]
    assert sorted(i for _, b in groups for i in b) == [0, 1]
    assert all(a and b for a, b in groups)


def test_maps__fuse_into_one_query_that_reaches_the_file(tmp_path: Path) -> None:
    pl.DataFrame({"a": range(100), "b": range(100), "c": ["x"] * 100}).write_parquet(tmp_path / "x.parquet")
    source = ParquetInput(path=str(tmp_path / "x.parquet")).sources(1)
    table = Table.of(Session(), "t", source).map(_above).map(_doubled).map(_only)
    text = lazy_of(table.blocks[0], "cpu").query.explain()
    assert "PROJECT 1/3 COLUMNS" in text
    assert "SELECTION:" in text.split("Parquet SCAN")[1]
    assert collected(table)["d"].to_list() == [2 * i for i in range(91, 100)]


def _above(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.filter(pl.col("a") > 90)


def _doubled(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.with_columns(d=2 * pl.col("a"))


def _only(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select("d")


def test_footers__show_that_keys_are_together_already(tmp_path: Path) -> None:
    for i in range(3):
        pl.DataFrame({"k": [2 * i, 2 * i + 1], "v": [i, i]}).write_parquet(tmp_path / f"{i}.parquet")
    reader = ParquetInput(path=str(tmp_path), parts=3)
    table = Table.of(Session(), "t", reader.sources(1))
    assert len(table.exchange(["k"]).blocks) == 3
    assert len(table.exchange(["v"]).blocks) == 3
    assert len(table.map(_above_zero).exchange(["k"]).blocks) == 1  # a map that may write any column
    assert len(table.map(_above_zero, writes=frozenset({"v"})).exchange(["k"]).blocks) == 3
    assert len(table.map(_above_zero, writes=frozenset({"k"})).exchange(["k"]).blocks) == 1
    assert len(table.hold().exchange(["k"]).blocks) == 3


def _above_zero(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.filter(pl.col("v") >= 0)


def test_reduce__combines_in_a_tree() -> None:
    table = table_of(Session(), 30)
    assert table.reduce(_height, sum) == 60


def _height(part: Part) -> int:
    return part.frame.height


def test_gather__refuses_what_is_too_large() -> None:
    with pytest.raises(DataError, match=r"stage t: a table of .* would be gathered .* Aggregate, filter or sample it first"):
        table_of(Session(), 3).gather(limit_bytes=10)


def test_task_errors__name_the_stage() -> None:
    with pytest.raises(RunError, match=r"stage t: .*InvalidOperation|stage t: .*conversion"):
        table_of(Session(), 1).map(_bad_cast).futures()


def _bad_cast(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(pl.lit("x").cast(pl.Int64))


@pytest.mark.process
def test_spilling__brings_parts_back_whole(tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    register_with_dask()
    options = {"memory_limit": "600MB", "local_directory": str(tmp_path), "host": "127.0.0.1"}
    options |= {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        client.run(register_with_dask)  # without the sizes of parts a worker does not know what to spill, and hangs
        session = ClusterSession(client, "cpu", 1, 1)
        table = Table.of(session, "t", [Part(pl.DataFrame({"i": [i]})) for i in range(30)]).map(_large).hold()
        total = table.reduce(_sum, sum).result(timeout=300)
    assert total == sum(i * 3_000_000 for i in range(30))


def _large(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(pl.col("i").repeat_by(3_000_000).explode())


def _sum(part: Part) -> int:
    return int(part.frame["i"].sum())
