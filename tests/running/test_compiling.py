"""Processes that compile what a first run wants."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.backend.compiling import alone
from pipeline.running import compiling
from pipeline.running.compiling import Prepared, shared
from pipeline.stages.genomics.variant_qc import VariantQc
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.stages.relational.select import Select
from tests.small import inside, write_small_job

ROOT = Path(__file__).parents[2]
STAGES = [
    Prepared(Derive(columns={"a": "1"}), ("rows",), lean=True),
    Prepared(Filter(where="a = 1"), ("rows",), lean=True),
    Prepared(Select(columns=("a",)), ("rows",), lean=True),
]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages of processes that would be started, in their order, and their ends."""
    seen = list[str]()

    @contextmanager
    def noted(stages: Sequence[Prepared]) -> Iterator[None]:
        """One of them."""
        seen.append(" ".join(one.stage.name for one in stages))
        yield
        seen.append("ended")

    monkeypatch.setattr(compiling, "_helper", noted)
    return seen


@pytest.mark.parametrize(
    ("cores", "expected"),
    [(1, []), (2, ["select filter derive"]), (3, ["select filter derive", "filter derive select"])],
)
def test_helpers__are_as_many_as_cores_are_left_and_begin_apart(
    cores: int, expected: list[str], started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "cores", lambda: cores)
    with shared(STAGES):
        assert started == []
        for _ in range(2):
            with alone(tmp_path / "kernel.lock"):
                assert started == expected
    assert started == expected + ["ended"] * len(expected)


def test_stages_of_others__are_for_no_other_process(started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    theirs = type("Theirs", (Derive,), {"__module__": "a_notebook"})
    with shared([Prepared(theirs(columns={"a": "1"}), ("rows",), lean=True), STAGES[1]]), alone(tmp_path / "kernel.lock"):
        assert started == ["filter"]


@pytest.mark.parametrize(("cluster", "helped"), [({"kind": "local"}, True), ({"kind": "local", "memory_limit": "2GB"}, False)])
def test_a_run__is_helped_where_its_memory_is_not_stated(
    cluster: dict[str, Any], helped: bool, started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "cores", lambda: 2)

    def compiles(_: Derive, **__: Any) -> None:
        """As if a kernel of its were not kept."""
        with alone(tmp_path / "kernel.lock"):
            pass

    monkeypatch.setattr(Derive, "prepare", compiles)
    write_small_job(tmp_path)
    with inside(tmp_path):
        pipeline.load("job.yaml", cluster=cluster).run()
    assert len(started) == (2 if helped else 0)
    assert not started or ("derive" in started[0] and started[1] == "ended")


@pytest.mark.process
@pytest.mark.parametrize("leaves", [False, True])
def test_a_helper__keeps_what_its_stages_want_and_ends_with_who_started_it(leaves: bool, tmp_path: Path) -> None:
    stage = VariantQc()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pipeline.running.compiling"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(pickle.dumps([Prepared(stage, ("genotypes",), lean=True)] * (1 if not leaves else 1_000_000)))
        process.stdin.flush()
        if not leaves:
            assert process.wait(timeout=120) == 0
        process.stdin.close()
        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == b""
    assert leaves or [*tmp_path.rglob("*.nbi")]
