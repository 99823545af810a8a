"""A cluster in use: where the tables of a run compute, and what its record says of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.backend.devices import Backend, gpu_count
from pipeline.clusters.kind import ClusterKind
from pipeline.clusters.scaling import Scaling
from pipeline.errors import PlaceError
from pipeline.tables.budget import Budget
from pipeline.tables.pool import Pool
from pipeline.tables.pool_session import PoolSession
from pipeline.tables.session import ClusterSession

if TYPE_CHECKING:
    from pipeline.clusters.frozen import Watch
    from pipeline.clusters.scaling import Scaled


@dataclass(frozen=True)
class Cluster:
    """A cluster in use: of which kind, the client, worker processes and the threads of each; `dashboard` is None where it is off.

    `warnings` fill while it is used.
    """

    spec: ClusterKind
    client: Any
    workers: int
    threads: int
    backend: Backend
    dashboard: str | None
    lean: bool = False
    warnings: list[str] = field(default_factory=list)
    scaled: Scaled | None = None
    watch: Watch | None = None  # over processes; threads of this one need none
    budget: Budget | None = None  # for tables, with a folder on this machine's disk for what they have beyond it

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.spec.kind

    def lost(self) -> str:
        """What became of the scheduler, where it is gone; '' while it is there."""
        if self.watch is None:
            return ""
        return self.watch.lost or ("" if self.client.status == "running" else f"the scheduler at {self.client.scheduler.address} is gone")

    def session(self) -> ClusterSession:
        """Where tables of this run compute."""
        if isinstance(self.client, Pool):
            return PoolSession(self.client, self.backend, lean=self.lean and self.spec.lean)
        session = ClusterSession(self.client, self.backend, self.workers, self.threads, lean=self.lean and self.spec.lean)
        session.budget = self.budget
        session.fixing = self.scaled.fixed if self.scaled else session.fixing
        return session

    def place(self) -> dict[str, Any]:
        """What run.json says of it; workers are those that there may be at most."""
        scaling = getattr(self.spec, "workers", None)
        least = {"minimum_workers": scaling.minimum} if isinstance(scaling, Scaling) else {}
        return {
            "kind": self.kind,
            "workers": self.workers,
            "threads_per_worker": self.threads,
            **least,
            "dask": not isinstance(self.client, Pool),
        }


def no_gpu_for(backend: Backend, cluster: ClusterKind) -> str:
    """That a run on GPUs of this machine finds none; '' where it finds some, or needs none here."""
    lacking = backend == "gpu" and not cluster.elsewhere and gpu_count() == 0
    return "this machine shows no NVIDIA GPU, and so cannot run it: a machine that has one can" if lacking else ""


def need_allowed(cluster: ClusterKind, *, allow_code: bool) -> None:
    """Raise PlaceError for a cluster that would have commands of the job file run, where that is not allowed."""
    if (keys := cluster.commands()) and not allow_code:
        what = f"cluster {cluster.kind}: {', '.join(keys)} would have commands run that stand in the job file"
        raise PlaceError(f"{what}. Read them; if they are to run, say --allow-code (in Python: load(path).allowing_code()).")
