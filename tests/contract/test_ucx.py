"""UCX carries the parts of a whole job, from host to host, and of one that loses a worker; between CPUs, since there is no GPU here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import api
from tests.clusters.hosts import Host, cluster_over, published_bytes, two_hosts

pytestmark = [pytest.mark.contract, pytest.mark.process]

ROOT = Path(__file__).parents[2]
JOB = ROOT / "jobs" / "loans.yaml"
UCX = {
    "UCX_TLS": "tcp",  # between network namespaces memory is not shared
    "UCX_WARN_UNUSED_ENV_VARS": "n",
    "UCX_KEEPALIVE_INTERVAL": "2s",
    "DASK_DISTRIBUTED_UCXX__PROGRESS_MODE": "blocking",  # the others keep a core busy with looking
    "PYTHONPATH": str(ROOT),
}


def run_on(host: Host, address: str, results: Path) -> subprocess.Popen[str]:
    """The loans job, begun on a host by the command line."""
    pytest.importorskip("distributed_ucxx")
    words = ("-m", "pipeline.run", str(JOB), "--out", str(results), "--set", f"cluster={{address: '{address}', insecure: true}}")
    environment: Any = {**os.environ, **UCX}
    return subprocess.Popen(
        host.command(sys.executable, *words), env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the job gives in one process."""
    place = tmp_path_factory.mktemp("one")
    api.load(JOB, results=str(place), cluster__dashboard=False).run()
    return published_bytes(place)


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
                if "round 1 of" in line:
                    workers[1].kill()
    assert run.returncode == 0, "".join(said)
    assert workers[1].returncode == -9
    assert published_bytes(tmp_path / "results") == expected
