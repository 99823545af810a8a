"""Workers as jobs of Slurm: its commands stand in for it, and the script that dask-jobqueue writes is really run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.encryption import in_files
from pipeline.clusters.slurm import Slurm
from pipeline.errors import PlaceError
from tests.clusters.slurm_of_one_machine import REFUSES, SBATCH, slurm_commands
from tests.clusters.sshd import python_of_hosts
from tests.small import current_run, inside, last_record, published_job, run_main

pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
ALL: dict[str, Any] = {
    "threads": 8,
    "memory_limit": "16GB",
    "interface": "lo",
    "queue": "short",
    "account": "acme",
    "walltime": "02:00:00",
    "job_extra_directives": ["--gres=gpu:1"],
    "job_script_prologue": ["module load cuda"],
    "python": "/opt/pipeline/bin/python",
    "local_directory": "/scratch",
}


def commands(folder: Path, monkeypatch: pytest.MonkeyPatch, sbatch: str = SBATCH) -> Path:
    monkeypatch.setenv("PATH", f"{slurm_commands(folder, sbatch)}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_slurm__a_job_is_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dask_jobqueue import SLURMCluster

    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)  # Dask leaves its own behind in a process that starts workers
    spec, folder = Slurm(**ALL), commands(tmp_path / "slurm", monkeypatch)
    with in_files(spec.security(), str(tmp_path)) as security, SLURMCluster(**spec.options("cpu"), security=security) as cluster:
        script = cluster.job_script()
        assert cluster.scheduler.address.startswith("tls://127.0.0.1:")
    assert not list((folder / "jobs").iterdir())
    for line in ("-p short", "-A acme", "-n 1", "--cpus-per-task=8", "--mem=15G", "-t 02:00:00", "--gres=gpu:1"):
        assert f"#SBATCH {line}\n" in script
    before, command = script.split("/opt/pipeline/bin/python -m distributed.cli.dask_worker ")
    assert before.endswith("export MALLOC_TRIM_THRESHOLD_=134217728\nexport POLARS_MAX_THREADS=8\nmodule load cuda\n")
    assert command.startswith("tls://127.0.0.1:")
    for option in ("--nthreads 8", "--nanny", "--local-directory /scratch", "--interface lo", "--protocol tls://", "--tls-key "):
        assert f" {option}" in command
    assert "PRIVATE KEY" not in script
    assert "--nthreads 9" not in command
    assert Slurm(**ALL).options("gpu")["cores"] == 9


def test_slurm__runs_no_commands_of_a_job_that_the_user_has_not_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = published_job(tmp_path)
    commands(tmp_path / "slurm", monkeypatch)
    plain = {key: value for key, value in ALL.items() if key != "job_script_prologue"}
    assert Slurm(**plain).commands() == []
    assert Slurm(**ALL).commands() == ["job_script_prologue"]
    for key, value in {"queue": "short; rm x", "python": "$(x)", "account": "a\nb", "job_extra_directives": ["-x", "a b"]}.items():
        assert Slurm(**{**plain, key: value}).commands() == [key]
    with inside(folder):
        keys = {"kind": "slurm", **ALL, "python": "/nowhere/`touch`"}
        refused = run_main("job.yaml", "--check", "--set", f"cluster={keys}")
        assert refused.code == 2
        assert "cluster slurm: job_script_prologue, python would have commands run that stand in the job file. Read them; if" in refused.err
        assert run_main("job.yaml", "--check", "--allow-code", "--set", f"cluster={keys}").code == 0


@pytest.mark.process
def test_slurm__gives_the_result_of_this_machine_and_cancels_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, folder = commands(tmp_path / "slurm", monkeypatch), published_job(tmp_path)
    keys = {"kind": "slurm", "workers": 1, "threads": 1, "memory_limit": "2GB", "interface": "lo", "python": python_of_hosts(tmp_path)}
    with inside(folder):
        ended = run_main("job.yaml", "--quiet", "--fresh", "--out", "other", "--set", f"cluster={keys}")
    assert (ended.code, ended.err) == (0, "")
    assert last_record(folder / "other")["cluster"] == {"kind": "slurm", "workers": 1, "threads_per_worker": 1, "dask": True}
    for name in ("associations", "people"):
        here, there = (pl.read_parquet(current_run(folder / made) / name / "*.parquet") for made in ("results", "other"))
        assert_frame_equal(here, there, rel_tol=1e-12, abs_tol=1e-12)
    assert len(list((place / "jobs").iterdir())) == 1
    assert not list((place / "pids").iterdir())
    assert not list(folder.glob(".certificates*"))


def test_slurm__says_what_sbatch_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands(tmp_path / "slurm", monkeypatch, REFUSES)
    monkeypatch.chdir(tmp_path)
    told = r"cluster slurm: it could not be started: .*invalid partition specified: nowhere"
    with pytest.raises(PlaceError, match=told), open_cluster(Slurm(**ALL), "cpu"):
        raise AssertionError


def test_slurm__says_how_many_workers_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands(tmp_path / "slurm", monkeypatch, '#!/bin/sh\necho "Submitted batch job 1"\n')
    monkeypatch.chdir(tmp_path)
    told, few = r"cluster slurm: 0 of 3 workers came in 1 s\. Do the jobs wait \(squeue\)", Slurm(**ALL, workers=3, wait_s=0.2)
    with pytest.raises(PlaceError, match=told), open_cluster(few, "cpu"):
        raise AssertionError


def test_slurm__is_refused_where_no_jobs_are_submitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlaceError, match="cluster slurm: sbatch is not found on this machine"):
        Slurm(**ALL).check()
