"""What a whole job asks of its engine: only queries that do something, each of them once."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest

import pipeline.stages.relational._part_join
import pipeline.tables.steps
from pipeline.api import load
from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect, only_picks
from pipeline.tables.pool import this_promise

ROOT = Path(__file__).parents[2]


class Collects:
    """Stands in for `collect` and keeps what the tasks of a run asked; planning, which runs queries on empty frames, is no task."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, pl.LazyFrame]] = []

    def __call__(self, query: pl.LazyFrame, backend: Backend, *, in_memory: bool = False) -> pl.DataFrame:
        if this_promise() is not None:
            self.asked.append((written(query), query))
        return collect(query, backend, in_memory=in_memory)

    def identities(self) -> list[str]:
        """Those that give a frame back as it is."""
        return [plan for _, query in self.asked if only_picks(query) and "PROJECT */" in (plan := query.explain())]


def written(query: pl.LazyFrame) -> bytes:
    """A query with the rows of the frames that it is over: equal bytes are the same work."""
    plan = io.BytesIO()
    query.serialize(plan)
    return plan.getvalue()


@pytest.mark.parametrize(("job", "most"), [("genomics", 27), ("loans", 11)])
def test_a_whole_job__collects_only_what_does_something_and_nothing_twice(
    job: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collects = Collects()
    for module in (pipeline.tables.steps, pipeline.stages.relational._part_join):
        monkeypatch.setattr(module, "collect", collects)
    monkeypatch.chdir(ROOT)
    load(
        ROOT / "jobs" / f"{job}.yaml", backend="cpu", cluster={"kind": "local", "threads": 1, "dashboard": False}, results=str(tmp_path)
    ).run()
    assert 0 < len(collects.asked) <= most
    assert collects.identities() == []
    plans = [plan for plan, _ in collects.asked]
    twice = [query.explain() for plan, query in collects.asked if plans.count(plan) > 1]
    assert twice == []
