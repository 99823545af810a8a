"""What the process that drives a run does while its first tasks are under way, and would otherwise do when they are done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from pipeline.clusters.alike import code_fingerprint
from pipeline.clusters.in_use import Cluster
from pipeline.plan.plan import Plan
from pipeline.running.compiling import Prepared, shared


def helped(plan: Plan, cluster: Cluster) -> AbstractContextManager[None]:
    """Kernels that its tasks want and that nobody has compiled yet are compiled by other processes, too, until the block ends.

    Where the memory is stated it is this process's alone.
    """
    stated = any(getattr(cluster.spec, name, None) for name in ("memory_limit", "table_memory"))
    return shared([] if stated else _here(plan, cluster))


def prepare(plan: Plan, cluster: Cluster, report: Callable[[], None]) -> None:
    """Load what tasks to come want, where they run in this process, and what the end of the run does; `report` loads what a page takes."""
    for one in _here(plan, cluster):
        one.prepare()
    code_fingerprint()
    if plan.job.report:
        report()


def _here(plan: Plan, cluster: Cluster) -> list[Prepared]:
    """The stages whose tasks run in this process."""
    lean = cluster.lean and cluster.spec.lean
    return [Prepared(one.spec.stage, tuple(one.spec.inputs), lean) for one in plan.stages if cluster.spec.in_this_process]
