"""Kinds of clusters: each is one file that the job file, its schema and a run find by themselves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.clusters.auto import Auto
from pipeline.clusters.cuda import Cuda
from pipeline.clusters.kind import ClusterKind
from pipeline.clusters.kinds import cluster_keys, cluster_kinds
from pipeline.clusters.kubernetes import Kubernetes
from pipeline.clusters.local import Local
from pipeline.clusters.scheduler import Scheduler
from pipeline.clusters.slurm import Slurm
from pipeline.clusters.ssh import Ssh
from pipeline.errors import JobError
from pipeline.job.load import load_text
from tests.small import last_record, published_job

ROOT = Path(__file__).parents[2]
CONDOR = '''\
"""A kind that a test adds."""

from typing import ClassVar, Literal

from pydantic import Field

from pipeline.clusters.kind import ClusterKind
from pipeline.clusters.kubernetes import Kubernetes
from pipeline.clusters.local import Local


class Condor(ClusterKind):
    """Threads, under another name."""

    shares_our_folder: ClassVar[bool] = False

    kind: Literal["condor"] = Field("condor", description="Workers of a batch system.")
    partition: str = Field(min_length=3, description="Where they queue.")

    def open(self, backend):
        return Local().open(backend)
'''
ADDED = """\
import sys
from importlib.metadata import EntryPoint
from pipeline import registry

sys.path.insert(0, sys.argv[1])
known = registry.entry_points
registry.entry_points = lambda group: [EntryPoint("condor", "condor", group)] if group == "pipeline.clusters" else known(group=group)
from pipeline.errors import JobError
from pipeline.job.load import load_text
from pipeline.job.schema import job_schema
from pipeline.run import main

START = "job: x\\ninputs: {t: {format: parquet, path: t}}\\ncluster: "
TEXTS = ("{kind: condor}", "{kind: condor, partition: a}", "{kind: condor, partitoin: a}", "{kind: local, partition: short}", "clondor")
for text in TEXTS:
    try:
        load_text(START + text, "j.yaml")
    except JobError as error:
        print(error)
print("Condor" in job_schema()["$defs"])
print(main(["job.yaml", "--quiet", "--out", "other", "--set", "cluster={kind: condor, partition: short}"]))
"""


@pytest.mark.process
def test_a_kind__is_one_file(tmp_path: Path) -> None:
    folder = published_job(tmp_path)
    (tmp_path / "kinds").mkdir()
    (tmp_path / "kinds" / "condor.py").write_text(CONDOR)
    command = [sys.executable, "-c", ADDED, str(tmp_path / "kinds")]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    first, bounds, absent, unknown, foreign, word, schema, code = done.stdout.splitlines()
    assert first == "j.yaml:3:10: cluster.partition: missing: partition (text)"
    assert bounds == "j.yaml:3:36: cluster.partition: 'a' is too short: at least 3 are needed"
    assert absent == first
    assert unknown.startswith("j.yaml:3:25: cluster.partitoin: unknown parameter 'partitoin' of a job. Did you mean 'partition'?")
    assert foreign == "j.yaml:3:10: cluster: partition is for kind: condor, and this is kind: local"
    assert word.endswith(
        "'clondor' is no kind of cluster (auto, local, cuda, scheduler, ssh, slurm, kubernetes, condor) and no address such as tls://HOST:8786"
    )
    assert (schema, code) == ("True", "0")
    assert last_record(folder / "other")["cluster"]["kind"] == "condor"


def test_cluster_kinds__are_in_the_order_that_messages_list_them() -> None:
    assert cluster_kinds() == {
        "auto": Auto,
        "local": Local,
        "cuda": Cuda,
        "scheduler": Scheduler,
        "ssh": Ssh,
        "slurm": Slurm,
        "kubernetes": Kubernetes,
    }


def test_auto__follows_the_backend_and_keeps_the_keys_that_its_kind_has() -> None:
    auto = Auto(workers=2, threads=3, rmm_pool_size=0.5)
    assert auto.for_backend("cpu") == Local(workers=2, threads=3)
    assert auto.for_backend("gpu") == Cuda(workers=2, threads=3, rmm_pool_size=0.5)


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ("cuda", {"kind": "cuda"}),
        ("a:8786", {"kind": "scheduler", "address": "a:8786"}),
        ({}, {"kind": "auto"}),
        ({"workers": 4}, {"kind": "auto", "workers": 4}),
        ({"hosts": ["a"], "workers": 2}, {"kind": "ssh", "hosts": ["a"], "workers": 2}),
        ({"kind": "auto", "address": "tcp://a:1"}, {"kind": "scheduler", "address": "tcp://a:1"}),
        ({"kind": "local", "rmm_pool_size": None, "protocol": "tcp"}, {"kind": "local"}),
        ({"kind": "cuda", "threads": 2, "workers": 1}, {"kind": "cuda", "threads": 2, "workers": 1}),
        ({"kind": "cloud", "size": 1}, {"kind": "cloud", "size": 1}),
    ],
)
def test_cluster_keys__say_the_kind_and_leave_out_what_makes_no_difference(written: Any, keys: dict[str, Any]) -> None:
    assert cluster_keys(written) == keys


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("5", "3:10: cluster: expected a mapping, found 5"),
        (
            "{kind: cloud}",
            "3:17: cluster.kind: 'cloud' is not one of the choices. Did you mean 'cuda'? "
            "Known: auto, cuda, kubernetes, local, scheduler, slurm, ssh.",
        ),
        (
            "{kind: null}",
            "3:17: cluster.kind: nothing (null) is not one of the choices. Known: auto, cuda, kubernetes, local, scheduler, slurm, ssh.",
        ),
        ("{kind: local, threads: 0}", "3:33: cluster.threads: 0 is below the smallest value allowed, 1"),
        (
            "{kind: cuda, protocol: tpc}",
            "3:33: cluster.protocol: 'tpc' is not one of the choices. Did you mean 'tcp'? Known: auto, tcp, ucx.",
        ),
        (
            "{kind: local, rmm_pool_size: 0.5, address: 'a:1'}",
            "3:10: cluster: address is for kind: scheduler; rmm_pool_size is for kind: cuda, and this is kind: local",
        ),
    ],
)
def test_a_wrong_key__is_one_problem_at_its_place(written: str, problem: str) -> None:
    with pytest.raises(JobError, match=f"^{re.escape(f'j.yaml:{problem}')}$"):
        load_text(f"job: x\ninputs: {{t: {{format: parquet, path: t}}}}\ncluster: {written}\n", "j.yaml")


@pytest.mark.parametrize(
    ("kind", "own_process", "shares_our_folder", "elsewhere"),
    [
        (Local(), True, True, False),
        (Local(workers=1), True, True, False),
        (Local(workers=2), False, True, False),
        (Cuda(), False, True, False),
        (Scheduler(address="tcp://a:1"), False, False, True),
        (Ssh(hosts=["a"]), False, False, True),
    ],
)
def test_a_kind__says_what_its_workers_share_with_us(
    kind: ClusterKind, own_process: bool, shares_our_folder: bool, elsewhere: bool
) -> None:
    assert (kind.in_this_process, kind.shares_our_folder, kind.elsewhere) == (own_process, shares_our_folder, elsewhere)


def test_a_kind__has_its_own_keys_only() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Local.model_validate({"address": "tcp://a:1"})
