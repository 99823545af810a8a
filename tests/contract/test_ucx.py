"""UCX carries the parts of whole jobs, from host to host, and of one that loses a worker; between CPUs, since there is no GPU here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.hosts import Host, cluster_over, published_bytes, two_hosts
from tests.shipped import JOBS, ROOT, from_loans, job_file, ran

pytestmark = [pytest.mark.contract, pytest.mark.process]

UCX = {
    "UCX_TLS": "tcp",  # between network namespaces memory is not shared
    "UCX_WARN_UNUSED_ENV_VARS": "n",
    "UCX_KEEPALIVE_INTERVAL": "2s",
    "DASK_DISTRIBUTED_UCXX__PROGRESS_MODE": "blocking",  # the others keep a core busy with looking
    "PYTHONPATH": str(ROOT),
}


def run_on(host: Host, address: str, results: Path, job: str = "loans", told: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A job, begun on a host by the command line."""
    pytest.importorskip("distributed_ucxx")
    words = ["-m", "pipeline.run", str(job_file(job)), "--out", str(results), "--set", f"cluster={{address: '{address}', insecure: true}}"]
    words += [word for key, value in (told or {}).items() for word in ("--set", f"{key}={value}")]
    environment: Any = {**os.environ, **UCX}
    return subprocess.Popen(
        host.command(sys.executable, *words), env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the loans job publishes in one process."""
    place = tmp_path_factory.mktemp("one")
    ran("loans", str(place))
    return place


@pytest.fixture(scope="module")
def expected(loans: Path) -> dict[str, str]:
    """What the job gives in one process."""
    return published_bytes(loans)


def test_loans__over_ucx_between_two_hosts_give_the_bytes_of_one_process(expected: dict[str, str], tmp_path: Path) -> None:
    results = tmp_path / "results"
    with (
        two_hosts() as hosts,
        cluster_over(hosts, "ucxx", tmp_path, environment=UCX) as (address, _),
        run_on(hosts[0], address, results) as run,
    ):
        said, _ = run.communicate(timeout=600)
    assert run.returncode == 0, said
    assert published_bytes(tmp_path / "results") == expected


def test_loans__over_ucx_give_the_same_when_a_worker_is_lost(expected: dict[str, str], tmp_path: Path) -> None:
    with two_hosts() as hosts, cluster_over(hosts, "ucxx", tmp_path, environment=UCX) as (address, workers):
        said = list[str]()
        with run_on(hosts[0], address, tmp_path / "results") as run:
            assert run.stdout is not None
            for line in run.stdout:
                said.append(line)
                if "tasks," in line:  # a stage is done, and others are not
                    workers[1].kill()
    assert run.returncode == 0, "".join(said)
    assert workers[1].returncode == -9
    assert published_bytes(tmp_path / "results") == expected


@pytest.mark.soak
@pytest.mark.parametrize("job", JOBS)
def test_shipped_job__over_ucx_between_two_hosts_gives_the_bytes_of_one_process(job: str, loans: Path, tmp_path: Path) -> None:
    told = from_loans(job, str(loans))
    ran(job, str(tmp_path / "one"), **told)
    with (
        two_hosts() as hosts,
        cluster_over(hosts, "ucxx", tmp_path, environment=UCX) as (address, _),
        run_on(hosts[0], address, tmp_path / "two", job, told) as run,
    ):
        said, _ = run.communicate(timeout=1_800)
    assert run.returncode == 0, said
    assert published_bytes(tmp_path / "two") == published_bytes(tmp_path / "one")
