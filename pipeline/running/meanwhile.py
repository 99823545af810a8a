"""What the process that drives a run does while its first tasks are under way, and would otherwise do when they are done."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.clusters.alike import code_fingerprint
from pipeline.clusters.in_use import Cluster
from pipeline.plan.plan import Plan


def prepare(plan: Plan, cluster: Cluster, report: Callable[[], None]) -> None:
    """Load what tasks to come want, where they run in this process, and what the end of the run does; `report` loads what a page takes."""
    for stage in plan.stages if cluster.spec.in_this_process else ():
        stage.spec.stage.prepare_for(stage.spec.inputs, lean=cluster.lean and cluster.spec.lean)
    code_fingerprint()
    if plan.job.report:
        report()
