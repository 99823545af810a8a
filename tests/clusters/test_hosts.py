"""The shipped jobs give the same bytes in one process, in four, and on two hosts over TLS, as deploy/README.md is written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clusters.hosts import Host, cluster_over, published_bytes, two_hosts, wait_until
from tests.deployed import ROOT, page
from tests.shipped import JOBS, from_loans, planned, ran
from tests.small import write_small_job

pytestmark = pytest.mark.process

INSTALL = re.compile(r"^.*(?: venv \.venv|bin/pip ).*\n", re.MULTILINE)
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
trap 'kill $(jobs -p)' TERM
for node in 127.0.0.1 127.0.0.2; do SLURMD_NODENAME=$node "$@" & done
wait
"""  # in the place of Slurm's: a process a node
SETTLED = {"scheduler": "Scheduler at", "worker": "Starting established connection"}


@dataclass(frozen=True)
class TwoHosts:
    """A clone, and a cluster of two hosts in it; `said` is what the page's job and its check said."""

    clone: Path
    hosts: Mapping[str, Host]
    said: str

    def run(self, host: str, *words: str) -> tuple[int, str]:
        """The command line of the clone on a host: its exit code and what it said."""
        return run_on(self.hosts[host], self.clone, ".venv/bin/python", "-m", "pipeline.run", *words)


def run_on(host: Host, place: Path, *words: str) -> tuple[int, str]:
    """A command on a host, in a folder: its exit code and what it said."""
    surroundings = {**os.environ, "PYTHONPATH": str(place)}
    ended = subprocess.run(host.command(*words), cwd=place, env=surroundings, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def cloned(place: Path) -> Path:
    """What a clone has, by links: compiled kernels lie beside the source."""
    for name in ("pipeline", "jobs", "deploy", "data", "pyproject.toml", "README.md", "LICENSE"):
        (place / name).symlink_to(ROOT / name)
    return place


def follow(clone: Path, hosts: Mapping[str, Host], stack: ExitStack, *, install: bool) -> str:
    """The page's commands, in order; without `install` those that make .venv are left out. Returns what the last block said."""
    said = ""
    for number, block in enumerate(page()):
        host, commands = hosts[block.host], INSTALL.sub("", block.commands)
        for found in INSTALL.finditer(block.commands) if install else ():  # not on the host, whose network reaches no registry
            subprocess.run(["sh", "-euc", found[0]], cwd=clone, check=True)
        if block.stays:
            log, kind = clone / f"{number}.log", "worker" if "dask worker" in commands else "scheduler"
            stack.enter_context(host.running("sh", "-c", f"exec {commands}", log=log, environment={"PYTHONPATH": str(clone)}))
            wait_until(log, SETTLED[kind])
        else:
            code, said = run_on(host, clone, "sh", "-euc", commands)
            assert code == 0, said
    return said


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    """The page's two hosts, with this test's own environment as .venv."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made by openssl, which is not here")
    clone = cloned(tmp_path_factory.mktemp("clone"))
    (clone / ".venv").symlink_to(sys.prefix)
    with two_hosts() as (alpha, beta), ExitStack() as stack:
        hosts = {"alpha": alpha, "beta": beta}
        yield TwoHosts(clone, hosts, follow(clone, hosts, stack, install=False))


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of four worker processes of this machine."""
    from distributed import LocalCluster

    place = tmp_path_factory.mktemp("four")
    own = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "local_directory": str(place)}
    with LocalCluster(n_workers=4, threads_per_worker=1, protocol="tcp", **own) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the loans job publishes in one process."""
    place = tmp_path_factory.mktemp("loans")
    ran("loans", str(place))
    return place


@pytest.mark.soak
def test_loans__give_the_bytes_of_one_process_on_two_hosts(two: TwoHosts, loans: Path) -> None:
    """The page has run them."""
    assert published_bytes(two.clone / "results" / "loans") == published_bytes(loans)


@pytest.mark.soak
@pytest.mark.parametrize("job", JOBS)
def test_shipped_job__gives_the_bytes_of_one_process_on_two_hosts(job: str, two: TwoHosts, loans: Path, tmp_path: Path) -> None:
    files = "{ca: certificates/ca.pem, certificate: certificates/certificate.pem, key: certificates/key.pem}"
    told = {"cluster": f"{{address: 'tls://10.77.0.1:8786', tls: {files}}}", **from_loans(job, str(loans))}
    code, said = two.run("alpha", f"jobs/{job}.yaml", *(word for key, value in told.items() for word in ("--set", f"{key}={value}")))
    assert code == 0, said
    ran(job, str(tmp_path), **from_loans(job, str(loans)))
    assert published_bytes(two.clone / planned(job, **from_loans(job, str(loans))).results) == published_bytes(tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("job", ["loans", *JOBS])
def test_shipped_job__gives_the_bytes_of_one_process_in_four(job: str, four: str, loans: Path, tmp_path: Path) -> None:
    told = from_loans(job, str(loans))
    ran(job, str(tmp_path / "four"), **{"cluster.address": four}, **told)
    ran(job, str(tmp_path / "one"), **told)
    assert published_bytes(tmp_path / "four") == published_bytes(tmp_path / "one")


def test_a_cluster_of_another_host__is_refused_in_plain_text(two: TwoHosts) -> None:
    code, said = two.run("beta", "jobs/loans.yaml", "--cluster", "tcp://10.77.0.1:8786", "--out", "results/plain")
    assert (code, said.count("\n")) == (2, 1), said
    assert "cluster scheduler: tcp://10.77.0.1:8786 is beyond this machine and in plain text" in said


@pytest.mark.soak
def test_a_job__runs_over_plain_tcp_where_it_says_insecure(tmp_path: Path) -> None:
    write_small_job(cloned(tmp_path))
    with two_hosts() as hosts, cluster_over(hosts, "tcp", tmp_path, environment={"PYTHONPATH": str(ROOT)}) as (address, _):
        words = (sys.executable, "-m", "pipeline.run", "job.yaml", "--set")
        refused, said = run_on(hosts[0], tmp_path, *words, f"cluster={address}")
        assert (refused, said.count("\n")) == (2, 1), said
        assert "tcp://10.77.0.2:" in said, "the scheduler is on this host, and a worker on the other"
        code, said = run_on(hosts[0], tmp_path, *words, f"cluster={{address: '{address}', insecure: true}}")
    assert code == 0, said
    assert (tmp_path / "results" / "current" / "manifest.json").exists()


@pytest.mark.soak
def test_the_page__works_from_nothing(tmp_path: Path) -> None:
    with two_hosts() as (alpha, beta), ExitStack() as stack:
        said = follow(cloned(tmp_path), {"alpha": alpha, "beta": beta}, stack, install=True)
    assert "every file is there and as it was written" in said


@pytest.mark.soak
def test_the_batch_script__runs_a_job_and_leaves_no_key_behind(tmp_path: Path) -> None:
    clone = cloned(tmp_path)
    (clone / ".venv").symlink_to(sys.prefix)
    (clone / "srun").write_text(SRUN)
    (clone / "srun").chmod(0o755)
    slurm = {"SUBMIT_DIR": str(clone), "JOB_ID": "7", "NNODES": "2", "CPUS_PER_TASK": "1"}
    surroundings = {**os.environ, **{f"SLURM_{name}": value for name, value in slurm.items()}, "SLURMD_NODENAME": "127.0.0.1"}
    surroundings |= {"PATH": f"{clone}:{os.environ['PATH']}", "PYTHONPATH": str(clone)}
    words = ["bash", "deploy/pipeline.sbatch", "jobs/loans.yaml"]
    ended = subprocess.run(words, cwd=clone, env=surroundings, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    record = json.loads((clone / "results" / "loans" / "current" / "run.json").read_text(encoding="utf-8"))
    assert (record["cluster"]["kind"], record["cluster"]["workers"]) == ("scheduler", 2)
    assert not list(clone.glob(".cluster-*"))
