"""Threads are limited before NumPy, Polars and XGBoost load, through every door: the command line, the API, and workers.

A `sitecustomize` in front of the path writes down, in each process, what the environment was when such a library was first looked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from pipeline.backend import threads
from pipeline.backend.glibc import ARENAS
from pipeline.backend.threads import (
    JEMALLOC,
    MEMORY,
    POLARS,
    SETTINGS,
    cores,
    limit_threads,
    settings,
    started_with,
    worker_environment,
)
from tests.clusters.running import running_scheduler

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
OURS = settings(cores())
NAMES = (*OURS, *MEMORY, ARENAS, "POLARS_MAX_THREADS", "OMP_NUM_THREADS")
LIBRARIES = {"numpy", "polars", "xgboost"}
WITNESS = f"""\
import json, os, sys


class Witness:
    seen = set()

    def find_spec(self, name, path=None, target=None):
        if name in {sorted(LIBRARIES)} and name not in self.seen:
            self.seen.add(name)
            with open(os.environ["WITNESS"], "a") as file:
                file.write(json.dumps([os.getpid(), name, {{n: os.environ[n] for n in {NAMES} if n in os.environ}}]) + "\\n")


sys.meta_path.insert(0, Witness())
"""
JOB = """\
job: threads
report: false
inputs:
  people: {format: parquet, path: people.parquet}
stages:
  - {use: xgboost, from: people, as: model, target: y, key: id, objective: regression, split: null, rounds: 2}
outputs:
  predictions: {from: model}
"""
# Imports libraries before our package, as a notebook or a user's script may, and is imported once more by every worker process.
PROGRAM = """\
import json, os, sys
import numpy, polars
from distributed import Client
from threadpoolctl import threadpool_info

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local
from pipeline.clusters.scheduler import Scheduler


def blas() -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def look() -> tuple[int, int, int]:
    import polars
    import xgboost

    return os.getpid(), polars.thread_pool_size(), blas()


if __name__ == "__main__":
    before, theirs = (dict(os.environ), blas()), []
    spec = Local(workers=2, threads=1, dashboard=False)
    if len(sys.argv) > 1:
        spec = Scheduler(address=sys.argv[1])
        with Client(spec.address) as client:
            client.wait_for_workers(1)
            theirs = list(client.run(blas).values())
    with open_cluster(spec, "cpu") as cluster:
        found = {"workers": list(cluster.client.run(look).values()), "held": blas(), "before": theirs}
    print(json.dumps({**found, "restored": before == (dict(os.environ), blas())}))
"""


@dataclass(frozen=True)
class Seen:
    """A library that a process looked for, and the settings of threads in its environment by then."""

    process: int
    library: str
    settings: Mapping[str, str]


class Door:
    """A folder with a job, a program and the witness, and commands run in it."""

    def __init__(self, folder: Path, **given: str) -> None:
        self.folder, self.given = folder, given
        (folder / "path").mkdir()
        (folder / "path" / "sitecustomize.py").write_text(WITNESS)
        (folder / "program.py").write_text(PROGRAM)
        (folder / "job.yaml").write_text(JOB)
        pl.DataFrame({"id": range(20), "x": [i % 7 for i in range(20)], "y": [0.5 * i for i in range(20)]}).write_parquet(
            folder / "people.parquet"
        )

    @property
    def environment(self) -> dict[str, str]:
        """Ours without what says how to thread, and what a user gives."""
        clean = {name: value for name, value in os.environ.items() if name not in NAMES}
        path = os.pathsep.join([str(self.folder / "path"), str(ROOT)])
        return {**clean, "PYTHONPATH": path, "WITNESS": str(self.folder / "witness"), **self.given}

    def run(self, *command: str) -> str:
        """What Python says to a command that succeeds."""
        done = subprocess.run(
            [sys.executable, *command], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def seen(self) -> Iterator[Seen]:
        """What the witness wrote, in every process."""
        for line in (self.folder / "witness").read_text().splitlines():
            process, library, found = json.loads(line)
            own = found.pop(JEMALLOC, "").removeprefix(POLARS).removeprefix(",")  # Polars puts its own in front when it loads
            yield Seen(process, library, found | ({JEMALLOC: own} if own else {}))


CHECK = ("-m", "pipeline.run", "--check", "job.yaml")
RUN = ("-m", "pipeline.run", "--quiet", "job.yaml")
API = ("-c", "import pipeline; pipeline.load('job.yaml').plan()")
API_RUN = ("-c", "import pipeline; pipeline.load('job.yaml', cluster__dashboard=False).run()")
USERS = {"OPENBLAS_NUM_THREADS": "2", "OMP_WAIT_POLICY": "ACTIVE"}


@pytest.mark.parametrize(
    ("command", "given"), [(CHECK, {}), (RUN, {}), (API, {}), (RUN, USERS), (API_RUN, USERS)], ids=lambda value: " ".join(value)
)
def test_command_line_and_api__set_threads_before_a_library_loads_and_keep_what_a_user_set(
    command: tuple[str, ...], given: dict[str, str], tmp_path: Path
) -> None:
    door = Door(tmp_path, **given)
    door.run(*command)
    seen = list(door.seen())
    assert {what.library for what in seen} == LIBRARIES
    assert [what for what in seen if what.settings != {**OURS, **given}] == []


@pytest.mark.parametrize(
    "given", [pytest.param({}, marks=pytest.mark.soak), {**USERS, "POLARS_MAX_THREADS": "3"}], ids=["plain", "a user's"]
)
def test_worker_processes__have_their_threads_though_they_import_the_program_that_started_them(
    given: dict[str, str], tmp_path: Path
) -> None:
    door = Door(tmp_path, **given)
    found = json.loads(door.run("program.py"))
    expected = {**settings(1), **MEMORY, ARENAS: "1", "POLARS_MAX_THREADS": "1", **given}
    workers = {process for process, _, _ in found["workers"]}
    assert len(workers) == 2
    for what in door.seen():
        if what.process in workers:
            assert {**what.settings, **expected} == what.settings, what
    pool, blas = int(expected["POLARS_MAX_THREADS"]), int(expected["OPENBLAS_NUM_THREADS"])
    assert [tuple(threads) for _, *threads in found["workers"]] == [(pool, blas)] * 2
    assert found["held"] == blas, "this process loaded NumPy before our package, and its BLAS is held during a run"
    assert found["restored"]


@pytest.mark.parametrize("nanny", ["--nanny", pytest.param("--no-nanny", marks=pytest.mark.soak)])
def test_a_users_worker__is_told_what_it_has_not_loaded_and_keeps_its_blas(nanny: str, tmp_path: Path) -> None:
    door = Door(tmp_path)
    (tmp_path / "scheduler").mkdir()
    with running_scheduler(tmp_path / "scheduler", nanny, environment=door.environment) as (address, _):
        found = json.loads(door.run("program.py", address))
    ((worker, _, blas),) = found["workers"]
    seen = {what.library: what.settings for what in door.seen() if what.process == worker}
    assert seen["numpy"].get("OPENBLAS_NUM_THREADS") == ("1" if nanny == "--nanny" else None), "loaded before our code reaches it"
    assert {**seen["polars"], **SETTINGS} == seen["polars"]
    assert {**seen["xgboost"], **SETTINGS} == seen["xgboost"]
    assert [blas] == found["before"]


def test_limit_threads__keeps_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    limit_threads()
    assert {name: os.environ[name] for name in OURS} == {**OURS, "MKL_NUM_THREADS": "7"}


def test_worker_environment__shares_the_cores_unless_a_user_said_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    limit_threads()
    monkeypatch.setenv(JEMALLOC, f"{POLARS},{os.environ[JEMALLOC]}")  # as it is once Polars is loaded
    of_three = {**settings(3), **MEMORY, ARENAS: "3", "POLARS_MAX_THREADS": "3"}
    assert worker_environment(3) == of_three
    monkeypatch.setenv("POLARS_MAX_THREADS", "8")
    monkeypatch.setenv(JEMALLOC, "narenas:1")
    assert worker_environment(3) == {**of_three, "POLARS_MAX_THREADS": "8", JEMALLOC: "narenas:1"}


def test_started_with__gives_the_environment_back_also_what_was_added_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_MAX_THREADS", "8")
    before = dict(os.environ)
    with started_with({"POLARS_MAX_THREADS": "3"}):
        assert os.environ["POLARS_MAX_THREADS"] == "3"
        os.environ["ADDED_BY_DASK"] = "1"
    assert dict(os.environ) == before


def test_cores__are_as_many_as_dask_counts() -> None:
    from dask.system import CPU_COUNT

    assert cores() == CPU_COUNT


def test_cores__of_a_container_are_its_quota_rounded_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_ROOT", tmp_path)
    monkeypatch.setattr(threads, "_GROUP", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert cores() == 16
    (tmp_path / "cgroup").write_text("0::/job\n", encoding="utf-8")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "cpu.max").write_text("max 100000\n", encoding="ascii")
    assert cores() == 16
    (tmp_path / "job" / "cpu.max").write_text("350000 100000\n", encoding="ascii")
    assert cores() == 4
    (tmp_path / "cpu,cpuacct").mkdir()
    for name, value in (("quota", -1), ("period", 100_000)):
        (tmp_path / "cpu,cpuacct" / f"cpu.cfs_{name}_us").write_text(f"{value}\n", encoding="ascii")
    assert cores() == 16
    (tmp_path / "cpu,cpuacct" / "cpu.cfs_quota_us").write_text("50000\n", encoding="ascii")
    assert cores() == 1
