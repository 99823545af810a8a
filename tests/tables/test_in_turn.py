"""Large queries, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock
from typing import Any

import polars as pl
import pytest

from pipeline.tables.budget import Budget, Size, row_bytes
from pipeline.tables.in_turn import query_in_turn
from pipeline.tables.part import Part, Schema
from pipeline.tables.pool import Pool
from pipeline.tables.pool_session import PoolSession
from pipeline.tables.table import Table

WAIT_S = 60.0
ROWS = 1_000


class Seen:
    """What begins and ends; who has begun waits a little for another one."""

    def __init__(self) -> None:
        self.order, self.lock, self.both = list[str](), Lock(), Event()

    def asked(self, name: str) -> Callable[..., pl.LazyFrame]:
        """A query of one table that is seen to run."""

        def run(rows: pl.DataFrame) -> pl.DataFrame:
            with self.lock:
                self.order.append(f"{name} begins")
                if len(self.order) == 2:
                    self.both.set()
            self.both.wait(0.2)
            with self.lock:
                self.order.append(f"{name} ends")
            return rows.select(pl.col("i").sum())

        return lambda rows, _: rows.map_batches(run, schema=pl.Schema({"i": pl.Int64}), streamable=False)


@pytest.mark.parametrize(("memory", "in_turn"), [(64_000, False), (63_999, True)])
def test_queries__of_tables_of_an_eighth_of_the_memory_run_one_after_the_other(tmp_path: Path, memory: int, in_turn: bool) -> None:
    session, seen = PoolSession(pool := Pool(2), "cpu"), Seen()
    session.budget = Budget(memory, 2, str(tmp_path))
    frame = pl.DataFrame({"i": range(ROWS)})
    schema = Schema(frame.schema)
    given = Table.of(session, "given", [Part(frame)], schema=schema, size=Size(ROWS, row_bytes(schema)))
    found: list[Any] = [query_in_turn([given.named(name)], seen.asked(name)).futures()[0] for name in ("a", "b")]
    assert [session.value(part).frame.item() for part in found] == [sum(range(ROWS))] * 2
    assert (seen.order == ["a begins", "a ends", "b begins", "b ends"]) is in_turn
    pool.close(WAIT_S)
