"""Shipped jobs whose frames stay on the GPU give what they give by way of the host, and fewer bytes cross the bus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.api import Run, load, open_run
from tests.standin.counts import Counts, measured
from tests.standin.machine import gpu

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]


def ran(job: str, frames: str, folder: Path) -> tuple[Run, Counts]:
    """A shipped job's run on the stand-in, and what it counted."""
    place = folder / f"{job}-{frames}"
    with gpu(), measured() as found:
        load(ROOT / "jobs" / f"{job}.yaml", backend="gpu", cluster="local", frames=frames, results=str(place)).run()
    return open_run(place), found


@pytest.mark.parametrize(("job", "sent", "fetched"), [("loans", 0.02, 0.35), pytest.param("genomics", 0.98, 0.98, marks=pytest.mark.soak)])
def test_a_shipped_job__sends_few_frames_and_gives_the_same(
    job: str, sent: float, fetched: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xgboost")
    monkeypatch.chdir(ROOT)
    (by_host, crossing), (staying, left) = (ran(job, frames, tmp_path) for frames in ("host", "device"))
    assert by_host.outputs == staying.outputs
    for output in by_host.outputs:
        ours, theirs = (of.table(output).to_polars() for of in (staying, by_host))
        assert_frame_equal(ours, theirs, check_exact=True)
    assert staying.metrics == by_host.metrics
    assert left.frames_sent <= sent * crossing.frames_sent
    assert left.frames_fetched <= fetched * crossing.frames_fetched


def test_a_run_on_a_cpu__has_its_frames_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    job = tmp_path / "job.yaml"
    pl.DataFrame({"x": [1, 2]}).write_parquet(tmp_path / "a.parquet")
    job.write_text(
        f"job: a\nframes: device\ninputs:\n  a: {{format: parquet, path: {tmp_path}/a.parquet}}\n"
        "stages:\n  - {use: derive, from: a, as: b, columns: {y: x + 1}}\n"
        f"outputs:\n  b: {{from: b, format: parquet}}\nresults: {tmp_path}/r\n",
        encoding="utf-8",
    )
    found: Any = load(job).run()
    assert found.table("b").to_polars()["y"].to_list() == [2, 3]
