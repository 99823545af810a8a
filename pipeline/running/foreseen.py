"""What a run was expected to take and what it took, side by side in run.json: seconds, a worker's memory, money."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

from pipeline.backend.devices import gpu_count
from pipeline.backend.memory import host_bytes
from pipeline.backend.threads import cores
from pipeline.clusters.in_use import Cluster
from pipeline.clusters.kind import ClusterKind
from pipeline.plan.estimate import HOUR_S, Estimate, Place, estimate
from pipeline.plan.former import input_bytes
from pipeline.plan.plan import Plan
from pipeline.results.store import open_store


class Clock:
    """The seconds since a run began."""

    def __init__(self) -> None:
        self.started = perf_counter()

    @property
    def seconds(self) -> float:
        """So many by now."""
        return perf_counter() - self.started


class Foreseen:
    """A run on a cluster that has just been opened, and what it is expected to take there."""

    def __init__(self, plan: Plan, cluster: Cluster, clock: Clock) -> None:
        self.plan, self.cluster, self.clock, self.opening = plan, cluster, clock, clock.seconds
        self.place, self.base = place_in_use(cluster), peak_bytes(cluster)
        self.estimate = estimate(open_store(plan.job.results), plan, self.place)

    def document(self) -> dict[str, Any]:
        """What run.json has of what is expected."""
        return self.estimate.document(self.plan.job.price)

    def actual(self) -> dict[str, Any]:
        """What run.json has of what it has taken by now, on what, and each number over the one that was expected."""
        workers, price = self.cluster.workers, self.plan.job.price
        took: dict[str, Any] = {"seconds": round(self.clock.seconds, 3), "memory_bytes": peak_bytes(self.cluster)}
        if price is not None:
            took["money"] = round(price * workers * took["seconds"] / HOUR_S, 6)
        told = self.document()
        ratios = {name: round(value / told[name], 3) for name, value in took.items() if told.get(name)}
        about = {"workers": workers, "at_once": self.place.at_once, "processes": self.place.processes, "base_bytes": self.base}
        return {**took, "of_expected": ratios, "opening_seconds": round(self.opening, 3), **about, "input_bytes": input_bytes(self.plan)}


def foreseen(plan: Plan) -> Estimate:
    """What a plan's run is expected to take, on the cluster that it asks for."""
    return estimate(open_store(plan.job.results), plan, place_of(plan.job.cluster.for_backend(plan.backend)))


def place_of(kind: ClusterKind) -> Place:
    """Workers of a cluster that is not open: those that the job states, or what is there where it states none."""
    stated, limit = getattr(kind, "workers", None), bytes_of(getattr(kind, "memory_limit", None))
    count = stated if isinstance(stated, int) else getattr(stated, "maximum", None)  # of a number that follows the work
    threads = getattr(kind, "threads", None)
    if kind.elsewhere:
        return Place(count, count * threads if count and threads else None, 0, limit or None)
    processes = 0 if kind.in_this_process else count or max(1, gpu_count())
    workers, all_cores = max(1, processes), cores()
    threads = threads or max(1, all_cores // workers)
    return Place(workers, min(workers * threads, all_cores), processes, limit or host_bytes() // workers or None, all_cores)


def place_in_use(cluster: Cluster) -> Place:
    """Workers of a cluster that is open."""
    stated = place_of(cluster.spec)
    at_once = cluster.workers * cluster.threads
    processes = 0 if cluster.spec.in_this_process or cluster.spec.elsewhere else cluster.workers
    return Place(cluster.workers, min(at_once, stated.cores or at_once), processes, stated.limit, stated.cores)


def peak_bytes(cluster: Cluster) -> int:
    """The most memory that the process of a worker has had, of the one that had most; 0 where none says so."""
    found = cluster.client.run(_peak, on_error="ignore")
    return max(found.values(), default=0)


def bytes_of(text: str | None) -> int:
    """Bytes of a size such as 8GB or 1.5 GiB; 0 for none."""
    if text is None:
        return 0
    number, unit = text.rstrip("iBkKMGT "), text.lstrip("0123456789. ")
    return int(float(number) * (1024 if "i" in unit else 1000) ** " kMGT".index(unit[0].replace("K", "k").replace("B", " ")))


def _peak() -> int:
    if sys.platform == "win32":
        return 0
    from resource import RUSAGE_SELF, getrusage

    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
