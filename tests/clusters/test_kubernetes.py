"""Workers as pods of Kubernetes: what is asked of its operator, without one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.clusters.kubernetes import GPU, Kubernetes
from pipeline.errors import PlaceError

pytest.importorskip("dask_kubernetes", reason="dask-kubernetes is not installed")
KEYS: dict[str, Any] = {"threads": 8, "memory_limit": "16GB", "image": "acme/pipeline:1", "env": {"A": "b"}, "insecure": True}


def containers(spec: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """That of the scheduler and that of a worker."""
    parts = spec["spec"]
    return parts["scheduler"]["spec"]["containers"][0], parts["worker"]["spec"]["containers"][0]


def test_kubernetes__asks_for_pods_with_their_cores_and_memory() -> None:
    spec = Kubernetes(**KEYS).cluster_spec("x", 3, "cpu")
    scheduler, worker = containers(spec)
    assert (spec["kind"], spec["metadata"]["name"], spec["spec"]["worker"]["replicas"]) == ("DaskCluster", "x", 3)
    assert {scheduler["image"], worker["image"]} == {"acme/pipeline:1"}
    assert worker["resources"]["limits"] == {"cpu": "8", "memory": "16000000000"} == worker["resources"]["requests"]
    assert worker["args"][:3] == ["python", "-m", "distributed.cli.dask_worker"]
    assert worker["args"][-4:] == ["--nthreads", "8", "--memory-limit", "16GB"]
    assert {"name": "A", "value": "b"} in worker["env"]
    assert {"name": "POLARS_MAX_THREADS", "value": "8"} in worker["env"]
    assert json.loads(json.dumps(spec)) == spec


def test_kubernetes__asks_for_a_gpu_a_worker_in_a_run_on_gpus() -> None:
    scheduler, worker = containers(Kubernetes(**KEYS).cluster_spec("x", 1, "gpu"))
    assert worker["resources"]["limits"][GPU] == worker["resources"]["requests"][GPU] == "1"
    assert GPU not in scheduler["resources"]["limits"]
    assert worker["args"][-3] == "9"


def test_kubernetes__is_refused_in_plain_text_unless_a_job_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    Kubernetes(**KEYS).check()
    for spec in (Kubernetes(**KEYS | {"insecure": False}), Kubernetes(**KEYS, tls=True)):
        with pytest.raises(PlaceError, match=r"cluster kubernetes: dask-kubernetes has no TLS: its pods talk in plain text"):
            spec.check()
    monkeypatch.setattr("pipeline.clusters.on_other_machines.find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"dask_kubernetes is not installed here\. Install it with: pip install '\.\[kubernetes\]'"):
        Kubernetes(**KEYS).check()
