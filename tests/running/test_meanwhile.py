"""What the process that drives a run does while tasks are under way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.clusters.in_use import Cluster
from pipeline.plan.plan import Plan
from pipeline.running import meanwhile
from pipeline.stages.relational.derive import Derive
from pipeline.tables.pool import Pool
from tests.small import inside, write_small_job


@pytest.mark.parametrize("report", [True, False])
def test_what_the_end_takes__is_loaded_once_tasks_are_submitted(report: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()
    prepare = meanwhile.prepare

    def watched(plan: Plan, cluster: Cluster, load: Callable[[], None]) -> None:
        assert isinstance(cluster.client, Pool)
        seen.append(f"{sum(one.tasks for one in cluster.client.seen.values()) > 0}")
        seen.extend(path.name for path in (tmp_path / "results").glob("current"))

        def page() -> None:
            seen.append("report")
            load()

        prepare(plan, cluster, page)

    def stage(self: Derive, *_: Any, **__: Any) -> None:
        seen.append(self.name)

    monkeypatch.setattr("pipeline.api.prepare", watched)
    monkeypatch.setattr(Derive, "prepare_for", stage)
    write_small_job(tmp_path)
    with inside(tmp_path):
        done = pipeline.load("job.yaml", report=report).run()
    assert seen == ["True", "derive", *(["report"] if report else [])]
    assert (Path(done.path) / "report.html").exists() == report
