"""Processes that compile what a first run wants."""

from __future__ import annotations

import json
import os
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
from pipeline.stages.genomics.ld_prune import LdPrune
from pipeline.stages.genomics.sample_qc import SampleQc
from pipeline.stages.genomics.variant_qc import VariantQc
from pipeline.stages.relational.derive import Derive
from pipeline.testing.examples import StageExample
from tests.small import inside, write_small_job
from tests.stage_examples import EXAMPLES

ROOT = Path(__file__).parents[2]
GENOMICS = [one for one in EXAMPLES if type(one.stage).__module__.startswith(compiling.DEAR)]
STAGES = [Prepared(stage, ("genotypes",), lean=True) for stage in (VariantQc(), LdPrune(r2=0.5, window_kb=100), SampleQc())]


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
    ("cores", "memory", "expected"),
    [
        (1, 8, []),
        (2, 8, ["sample_qc ld_prune variant_qc"]),
        (3, 8, ["sample_qc ld_prune variant_qc", "ld_prune variant_qc sample_qc"]),
        (3, 3, ["sample_qc ld_prune variant_qc"]),
        (3, 1, []),
    ],
)
def test_helpers__are_as_many_as_there_is_room_for_and_begin_apart(
    cores: int, memory: int, expected: list[str], started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "cores", lambda: cores)
    monkeypatch.setattr(compiling, "host_bytes", lambda: memory << 30)
    with shared(STAGES):
        assert started == []
        for _ in range(2):
            with alone(tmp_path / "kernel.lock"):
                assert started == expected
    assert started == expected + ["ended"] * len(expected)


def test_stages_of_few_kernels__are_for_no_other_process(started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    monkeypatch.setattr(compiling, "host_bytes", lambda: 8 << 30)
    derive = Prepared(Derive(columns={"a": "1"}), ("rows",), lean=True)
    with shared([derive, STAGES[1]]), alone(tmp_path / "kernel.lock"):
        assert started == ["ld_prune"]
    with shared([derive]), alone(tmp_path / "another.lock"):
        assert started == ["ld_prune", "ended"]


@pytest.mark.parametrize("example", GENOMICS, ids=lambda example: example.stage.name)
def test_a_stage__is_told_as_it_is(example: StageExample) -> None:
    told = Prepared(example.stage, tuple(example.tables), lean=True)
    if told.is_dear:
        assert Prepared.of(*json.loads(json.dumps(told.told()))) == told
    else:
        assert example.stage.name == "site_gwas_sums"  # it has secrets


@pytest.mark.parametrize(("cluster", "helped"), [({"kind": "local"}, True), ({"kind": "local", "memory_limit": "2GB"}, False)])
def test_a_run__is_helped_where_its_memory_is_not_stated(
    cluster: dict[str, Any], helped: bool, started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    monkeypatch.setattr(compiling, "host_bytes", lambda: 8 << 30)

    def compiles(_: Derive, **__: Any) -> None:
        """As if a kernel of its were not kept."""
        with alone(tmp_path / "kernel.lock"):
            pass

    monkeypatch.setattr(Derive, "prepare", compiles)
    write_small_job(tmp_path)
    with inside(tmp_path):
        pipeline.load("job.yaml", cluster=cluster).run()
    assert len(started) == (2 if helped else 0)
    assert started in ([], ["linear_gwas variant_qc", "ended"])


@pytest.mark.process
@pytest.mark.parametrize("leaves", [False, True])
def test_a_helper__keeps_what_its_stages_want_and_ends_with_who_started_it(leaves: bool, tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pipeline.running.compiling"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        told = [Prepared(VariantQc(), ("genotypes",), lean=True).told()] * (1 if not leaves else 100_000)
        process.stdin.write(json.dumps(told).encode() + b"\n")
        process.stdin.flush()
        if not leaves:
            assert process.wait(timeout=120) == 0
        process.stdin.close()
        assert process.wait(timeout=120) == (1 if leaves else 0)  # 1: before it had prepared all
        assert process.stderr.read() == b""
    assert leaves or [*tmp_path.rglob("*.nbi")]
