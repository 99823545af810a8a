"""Workers out of memory: what is said of tasks that workers died with, of a process beyond its limit, and of workers that stand still."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local
from pipeline.clusters.spilling import LOG, TOPIC, tell_of_full_disks
from pipeline.clusters.workers import DEATHS, blame_soon
from pipeline.errors import OutOfMemoryError, RunError
from pipeline.running.killed import OUT_OF_MEMORY, of_killed_workers, stage_of
from pipeline.running.memory import STUCK_S, Memory, Used
from pipeline.tables.budget import STATED_PARTS, Budget
from tests.small import inside, run_main, write_small_job

GWAS = "gwas.scan-3-" + "0f" * 16


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("job")
    write_small_job(folder)
    with inside(folder):
        return pipeline.load("job.yaml").plan()


FULL = "the disk of /tmp/dask is full (0 bytes of 1.0 MB are free). Make room there, or let DASK_TEMPORARY_DIRECTORY name a larger disk."


def cluster(told: list[int], full: str = "", **keys: Any) -> Any:
    """One whose nannies have ended workers of so many bytes, and whose workers said that."""
    events = {OUT_OF_MEMORY: [(0.0, {"rss": size}) for size in told], TOPIC: [(0.0, {"text": full})] * 2 if full else []}
    return SimpleNamespace(spec=Local(**keys), client=SimpleNamespace(get_events=events.__getitem__))


def killed_by(key: str, limit: int) -> Any:
    from distributed import KilledWorker

    return KilledWorker(key, SimpleNamespace(address="tcp://10.0.0.7:1", memory_limit=limit), 2)


def test_killed__task_is_named_with_its_stage_its_number_its_need_and_the_limit(plan: Any) -> None:
    error = RunError("write associations: KilledWorker: ...")
    error.__cause__ = killed_by(GWAS, 600_000_000)
    failure = of_killed_workers(error, cluster([540_000_000, 571_000_000]), plan, {"memory_bytes": 2.4e9})
    assert str(failure) == (
        "job.yaml:14:5: stages.gwas: 3 workers died one after another with its task 3. Out of memory: they had 571 MB where the limit is "
        "600 MB; a worker was expected to need 2.4 GB. Give workers more memory (cluster.memory_limit), "
        "or have fewer of them, or fewer threads in each."
    )


def test_killed__worker_that_crashes_was_not_out_of_memory(plan: Any) -> None:
    failure = of_killed_workers(killed_by("strange", 600_000_000), cluster([]), plan, {})
    assert str(failure) == (
        "stage strange: 3 workers died one after another with a task. A library may have crashed, or the system have ended them for want "
        "of memory (dmesg says so)."
    )
    assert of_killed_workers(ValueError("other"), cluster([]), plan, {}) is None


def test_killed__workers_that_could_not_spill_are_said_to_have_a_full_disk(plan: Any) -> None:
    failure = of_killed_workers(killed_by(GWAS, 600_000_000), cluster([571_000_000], FULL), plan, {})
    assert failure is not None
    assert failure.text == (
        f"3 workers died one after another with its task 3. Out of memory: they had 571 MB where the limit is 600 MB, and {FULL}"
    )


def test_blame__takes_three_deaths_or_fewer_where_the_cluster_says_so() -> None:
    ours, strict = SimpleNamespace(allowed_failures=3), SimpleNamespace(allowed_failures=0)
    blame_soon(DEATHS, ours)
    blame_soon(DEATHS, strict)
    assert (ours.allowed_failures, strict.allowed_failures) == (2, 0)


def test_killed__task_that_takes_more_than_any_worker_has_is_said_in_our_words(plan: Any) -> None:
    said = (
        "Task '" + GWAS + "' has 921.25 MiB worth of input dependencies, but worker tcp://127.0.0.1:37055 has memory_limit set to "
        "667.57 MiB. It seems like you called client.compute() on a huge collection."
    )
    error = RunError(f"rows of gwas: MemoryError: {said}")
    error.__cause__ = MemoryError(said)
    assert str(of_killed_workers(error, cluster([]), plan, {})) == (
        "job.yaml:14:5: stages.gwas: its task 3 takes 921.25 MiB at once, and no worker has more than 667.57 MiB. Give workers more memory "
        "(cluster.memory_limit), or have fewer of them, or fewer threads in each."
    )
    assert of_killed_workers(MemoryError("other"), cluster([]), plan, {}) is None


def deadly(deaths: str) -> None:
    with Path(deaths).open("a") as file:
        file.write("one\n")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.process
def test_blame__a_task_that_ends_its_worker_is_tried_three_times(tmp_path: Path, plan: Any) -> None:
    with open_cluster(Local(workers=2, threads=1, dashboard=False), "cpu") as found:
        future = found.session().submit(deadly, str(tmp_path / "deaths"), stage="gwas")
        failure = of_killed_workers(future.exception(), found, plan, {})
    assert (tmp_path / "deaths").read_text() == "one\n" * 3
    assert "stages.gwas: 3 workers died one after another with its task 1. A library may have crashed" in str(failure)


def test_spilling__worker_says_that_its_disk_is_full_and_of_which_folder(tmp_path: Path) -> None:
    said: list[tuple[str, dict[str, str]]] = []
    worker = SimpleNamespace(local_directory=str(tmp_path / "worker-1"), log_event=lambda topic, event: said.append((topic, event)))
    log = logging.getLogger(LOG)
    before = log.level, log.propagate, log.handlers
    try:
        tell_of_full_disks(worker)
        tell_of_full_disks(worker)
        for error in (OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "Input/output error")):
            try:
                raise error
            except OSError:
                log.error("Spill to disk failed; keeping data in memory", exc_info=True)
    finally:
        log.level, log.propagate, log.handlers = before
    ((topic, event),) = said
    assert topic == TOPIC
    assert event["text"].startswith(f"the disk of {tmp_path} is full (")
    assert "DASK_TEMPORARY_DIRECTORY" in event["text"]


def test_memory__workers_that_stand_still_beside_a_full_disk_say_which(plan: Any) -> None:
    memory, stuck = Memory(cluster([], workers=2), plan), Used(850_000_000, 1_000_000_000, True, (), FULL)
    memory.check([replace(stuck, running=(GWAS,))], 0.0)
    memory.check([stuck], 1.0)
    with pytest.raises(RunError, match=r"they have 850 MB of 1\.0 GB, and the disk of /tmp/dask is full .* larger disk\.$"):
        memory.check([stuck], STUCK_S + 2)


def test_killed__stage_is_known_by_its_tasks_key(plan: Any) -> None:
    assert [stage_of(key, plan) for key in (GWAS, "cohort.read-12-" + "a" * 32, "cohort.read-" + "a" * 32)] == ["gwas", "cohort", "cohort"]


def test_memory__process_beyond_its_limit_fails_with_the_stage_that_works(plan: Any) -> None:
    memory = Memory(cluster([], memory_limit="1GB"), plan)
    memory.check([Used(900_000_000, 1_000_000_000, True, (GWAS,))], 0.0)
    with pytest.raises(RunError, match=r"stages\.gwas: .* this process has 1\.1 GB where cluster\.memory_limit is 1\.0 GB\. Give it more"):
        memory.check([Used(1_100_000_000, 1_000_000_000, True, (GWAS,))], 1.0)
    Memory(cluster([], workers=2), plan).check([Used(1_100_000_000, 1_000_000_000, False, (GWAS,))], 0.0)


def test_memory__of_this_process_is_looked_at_between_what_workers_say(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told, has = [Used(100_000_000, 1_000_000_000, False, (GWAS,))], iter([5, 9, 12, 12, 8, 12, 12, 12])
    monkeypatch.setattr("pipeline.running.memory.resident_bytes", lambda: next(has) * 100_000_000)
    memory = Memory(cluster([], memory_limit="1GB"), plan)
    memory.cluster.client.run_on_scheduler = lambda _: told
    memory.look()
    memory.next += 3600.0  # long before workers are asked again
    memory.look()
    memory.look()  # 1.2 GB, of which 0.4 are given back
    with pytest.raises(RunError, match=r"this process has 1\.2 GB where cluster\.memory_limit is 1\.0 GB"):
        memory.look()


def test_memory__workers_that_all_stand_still_fail_after_some_time(plan: Any) -> None:
    memory, full = Memory(cluster([], workers=2), plan), Used(850_000_000, 1_000_000_000, True, ())
    memory.check([full, Used(850_000_000, 1_000_000_000, True, (GWAS,))], 0.0)
    memory.check([full, full], 1.0)
    memory.check([full, Used(600_000_000, 1_000_000_000, False, ())], STUCK_S)
    memory.check([full, full], STUCK_S + 2)
    memory.check([full, full], STUCK_S + 3)
    with pytest.raises(
        RunError, match=r"stages\.gwas: .*no worker can go on: they have 850 MB of 1\.0 GB and nothing left to spill\. Give"
    ):
        memory.check([full, full], 2 * STUCK_S + 2)


def test_memory__a_worker_of_this_process_that_stands_still_goes_on_up_to_its_limit(plan: Any) -> None:
    manager = SimpleNamespace(memory_pause_fraction=0.8)
    memory, full = Memory(cluster([], memory_limit="1GB"), plan), Used(850_000_000, 1_000_000_000, True, ())
    memory.cluster.client.cluster = SimpleNamespace(workers={0: SimpleNamespace(memory_manager=manager)})
    memory.check([replace(full, running=(GWAS,))], 0.0)
    assert manager.memory_pause_fraction == 0.8
    memory.check([full], 1.0)
    assert manager.memory_pause_fraction == float("inf")
    with pytest.raises(RunError, match=r"this process has 1\.1 GB where cluster\.memory_limit is 1\.0 GB"):
        memory.check([replace(full, memory=1_100_000_000)], 2.0)


@pytest.mark.process
def test_memory__one_process_is_held_to_its_limit_by_the_job(tmp_path: Any) -> None:
    from tests.small import last_record, run_process

    write_small_job(tmp_path)
    ended = run_process("job.yaml", "--quiet", "--set", "cluster={kind: local, memory_limit: 50MB}", cwd=tmp_path)
    assert ended.code == 1
    assert "where cluster.memory_limit is 50 MB. Give it more (cluster.memory_limit), or worker processes" in ended.err
    assert last_record(tmp_path / "results")["status"] == "failed"


GROWS = """
job: grows
results: out
report: false
cluster: {kind: local, memory_limit: 8GB}
inputs:
  rows: {format: parquet, path: rows.parquet}
stages:
  - {use: explode, from: rows, as: days, columns: [days]}
  - {use: sort, from: days, as: sorted, by: [-days, id]}
  - {use: aggregate, from: sorted, as: added, by: id, compute: {n: size(), last: max(days)}}
outputs:
  sorted: {from: sorted}
  added: {from: added}
"""
FULL_AT_FIRST = """
import sys
from pipeline.running import memory
memory.resident_bytes = lambda: 10**15
from pipeline import run
sys.argv = ["run", "job.yaml", "--quiet", "--fresh"]
run.main()
"""


@pytest.mark.process
def test_a_run_out_of_memory__is_begun_again_on_disk_and_gives_the_same(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": range(9_000), "days": [list(range(number % 7)) for number in range(9_000)]})
    rows.write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.yaml").write_text(GROWS.replace("8GB", "8GB, table_memory: 1MB"), encoding="utf-8")
    with inside(tmp_path):
        assert run_main("job.yaml", "--quiet").code == 0
        by_disk = pipeline.open_run("out")
        assert by_disk.record["inputs"]["rows"]["parts"] == STATED_PARTS
        assert by_disk.record["stages"]["sorted"]["parts_on_disk"]
        (tmp_path / "job.yaml").write_text(GROWS, encoding="utf-8")
        found = subprocess.run([sys.executable, "-c", FULL_AT_FIRST], capture_output=True, text=True, check=False)
        again = pipeline.open_run("out")
    assert found.returncode == 0, found.stderr
    assert "this process has 1,000,000.0 GB where cluster.memory_limit is 8.0 GB" in found.stderr
    assert "The run is begun again with more of its tables on disk (cluster.table_memory=483MB)." in found.stderr  # of 8 GB less 256 MB
    assert again.record["job"]["cluster"]["table_memory"] == "483MB"
    each = rows.explode("days", empty_as_null=True)
    wanted = {
        "sorted": each.sort("days", "id", descending=[True, False], nulls_last=True),
        "added": each.group_by("id").agg(n=pl.len().cast(pl.Int64), last=pl.col("days").max()).sort("id"),
    }
    for run in (by_disk, again):
        for name, frame in wanted.items():
            assert_frame_equal(run.table(name).to_polars(), frame)


def test_a_run_out_of_memory__that_states_the_memory_of_tables_is_not_begun_again() -> None:
    assert Budget(32 << 20, 2, "").less == 2 << 20
    assert Budget(32 << 20, 2, "", stated=True).less == 0


def test_memory__of_the_machine_is_said_where_no_limit_is_stated(plan: Any) -> None:
    memory = Memory(cluster([], workers=None), plan)
    memory.check([Used(9 << 30, 10 << 30, False, (GWAS,))], 0.0)
    with pytest.raises(OutOfMemoryError, match=r"this process has 10\.1 GB where 10\.7 GB are all there is"):
        memory.check([Used(10_100_000_000, 10 << 30, False, (GWAS,))], 0.0)
