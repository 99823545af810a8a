"""Clusters whose workers come and go: results do not show it, and no worker does while a model trains over them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.clusters.cuda import Cuda, cuda_options
from pipeline.clusters.scaling import Scaled, Scaling
from pipeline.errors import JobError, PlaceError
from pipeline.job.load import load_text
from pipeline.tables.session import ClusterSession

ROOT = Path(__file__).parents[2]


class FakeClient:
    """A client whose cluster notes between which numbers it was told to stay, and has so many workers."""

    status = "running"

    def __init__(self, there: int) -> None:
        self.there, self.cluster, self.told = there, self, list[tuple[int, int]]()

    def adapt(self, minimum: int, maximum: int) -> None:
        self.told.append((minimum, maximum))

    def wait_for_workers(self, count: int, timeout: float) -> None:
        if self.there < count:
            raise TimeoutError

    def nthreads(self) -> dict[str, int]:
        return {f"tls://10.0.0.{host}:{port}": 1 for host in range(self.there) for port in (1, 2)}

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": range(self.there)}


def test_scaled__is_fixed_at_the_maximum_until_the_last_training_ends() -> None:
    client = FakeClient(3)
    scaled = Scaled(client, Scaling(minimum=1, maximum=3), wait_s=5)
    with scaled.fixed() as first:
        with scaled.fixed() as second:
            assert (first, second) == ("", "")
        assert client.told == [(1, 3), (3, 3)]
    assert client.told == [(1, 3), (3, 3), (1, 3)]


def test_scaled__is_fixed_at_those_that_came_and_says_so() -> None:
    client = FakeClient(2)
    with Scaled(client, Scaling(minimum=1, maximum=3), wait_s=5).fixed() as missing:
        assert client.told[-1] == (2, 2)
    assert missing == "2 of 3 workers came in 5 s: how many they are shows in the last digits of a model"


@pytest.mark.parametrize(("hosts", "notes"), [(1, 0), (2, 1)])
def test_fixed_workers__of_several_hosts_note_what_is_not_encrypted(hosts: int, notes: int) -> None:
    session = ClusterSession(FakeClient(hosts), "cpu", workers=2, threads=1)
    with session.fixed_workers("risk"):
        assert len(session.notes) == notes
    assert session.notes == ["risk: what is trained over workers goes between 2 hosts in plain text: XGBoost and JAX have no TLS"][:notes]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{workers: {minimum: 3, maximum: 2}}", "minimum: 3 is more than maximum: 2"),
        ("{workers: {minimum: 0, maximum: 2}}", "0 is below the smallest value allowed, 1"),
        ("{hosts: [a], workers: {minimum: 1, maximum: 2}}", "expected a whole number, found a mapping"),
    ],
)
def test_a_range_of_workers__is_refused_where_it_is_none(written: str, problem: str) -> None:
    with pytest.raises(JobError, match=problem):
        load_text(f"job: x\ninputs: {{t: {{format: parquet, path: t}}}}\ncluster: {written}\n", "j.yaml")


def test_a_range_of_workers__is_nothing_for_gpus_of_this_machine() -> None:
    with pytest.raises(PlaceError, match="cluster cuda: workers are the GPUs, and as many as are given"):
        cuda_options(Cuda(workers=Scaling(minimum=1, maximum=2)), 2)


@pytest.mark.soak
@pytest.mark.process
def test_a_model_over_workers_that_come_and_go__is_that_of_as_many_as_there_may_be() -> None:
    pytest.importorskip("cryptography", reason="certificates are made by cryptography, which is not installed")
    # In a process of its own: its clusters have other settings of Dask's.
    done = subprocess.run(
        [sys.executable, "-m", "tests.clusters.coming_and_going"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
