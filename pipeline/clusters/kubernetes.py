"""Workers as pods of Kubernetes, by the operator of dask-kubernetes, which makes and removes them as the run's DaskCluster says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Literal
from uuid import uuid4

from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.backend.threads import worker_environment
from pipeline.clusters.kind import Size
from pipeline.clusters.on_other_machines import COMPRESSED, OtherMachines
from pipeline.clusters.on_this_machine import tasks_at_once
from pipeline.clusters.scaling import at_first
from pipeline.errors import PlaceError

GPU = "nvidia.com/gpu"
WORKER = ["python", "-m", "distributed.cli.dask_worker"]


class Kubernetes(OtherMachines):
    """Pods of Kubernetes: a worker each, by dask-kubernetes' operator."""

    rank: ClassVar[int] = 6
    implied_by: ClassVar[frozenset[str]] = frozenset({"image"})
    extra: ClassVar[tuple[str, str]] = ("dask_kubernetes", "kubernetes")

    kind: Literal["kubernetes"] = Field("kubernetes", description="Pods of Kubernetes.")
    threads: int = Field(ge=1, le=10_000, description="Threads of each worker, which are the cores of its pod.")
    memory_limit: Size = Field(description="Memory of each worker and of its pod, such as 8GB; beyond it parts spill to disk.")
    image: str = Field(min_length=1, description="Image of the pods, with this project.")
    namespace: str | None = Field(None, min_length=1, description="Namespace of the pods; that of the kubectl context where not given.")
    env: dict[str, str] = Field(default_factory=dict, repr=False, description="Environment of the pods.")

    def check(self) -> None:
        """Raise PlaceError where dask-kubernetes is missing here, and where plain text is not agreed to: it has no TLS."""
        if self.tls is not None or not self.insecure:
            what = "dask-kubernetes has no TLS: its pods talk in plain text"
            raise PlaceError(
                f"cluster kubernetes: {what}. Where their network is closed (policies, an encrypting mesh), say insecure: true"
            )
        super().check()

    @contextmanager
    def open(self, backend: Backend) -> Iterator[Any]:
        """A client of workers whose pods run; they are removed at the end."""
        workers = at_first(self.workers)
        with self.joined(partial(self._started, workers, backend), workers) as client:
            yield client

    def security(self) -> None:
        """None: there is no TLS."""

    def _started(self, workers: int, backend: Backend) -> Any:
        from dask_kubernetes.operator import KubeCluster

        spec = self.cluster_spec(f"pipeline-{uuid4().hex[:10]}", workers, backend)
        return KubeCluster(custom_cluster_spec=spec, namespace=self.namespace, resource_timeout=int(self.wait_s), quiet=True)

    def cluster_spec(self, name: str, workers: int, backend: Backend) -> dict[str, Any]:
        """The DaskCluster to be made: a GPU a worker in a run on GPUs, and none for the scheduler."""
        from dask.utils import parse_bytes
        from dask_kubernetes.operator import make_cluster_spec

        booked = {"cpu": str(self.threads), "memory": str(parse_bytes(self.memory_limit))}
        environment = COMPRESSED | worker_environment(self.threads) | self.env
        spec: dict[str, Any] = make_cluster_spec(
            name,
            image=self.image,
            n_workers=workers,
            env=environment,
            worker_command=WORKER,
            resources={"limits": booked, "requests": booked},
        )
        (worker,) = spec["spec"]["worker"]["spec"]["containers"]
        worker["args"] += ["--nthreads", str(tasks_at_once(self.threads, 1, backend)), "--memory-limit", self.memory_limit]
        if backend == "gpu":
            limits = booked | {GPU: "1"}
            worker["resources"] = {"limits": limits, "requests": limits}
        return spec

    def why_none(self) -> str:
        """Where to look when workers do not come."""
        return "Do the pods wait or fail (kubectl get pods, kubectl describe)? Wait longer (wait_s), or ask for fewer workers."
