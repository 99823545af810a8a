"""Which runs need no cluster: those of little data on this machine's threads, which would wait longer for Dask than they work."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pipeline.clusters.in_process import open_pool
from pipeline.clusters.in_use import Cluster
from pipeline.clusters.kind import ClusterSpec
from pipeline.clusters.local import Local
from pipeline.plan.former import input_bytes
from pipeline.plan.plan import Plan
from pipeline.plan.sizes import beyond_memory
from pipeline.stage import Stage
from pipeline.tables.budget import SHARE
from pipeline.tables.told import TellsWorkers

MOST_BYTES, LEAST_BYTES, SWELLING = 512 << 20, 64 << 20, 10
"""Of the files of all inputs together, some seconds' work. What they come to in memory may be ten times that: where that is more than
memory has for one table they are fewer, down to the second number. A dense format's may be ten times the second: its parts would wait."""


def is_little(plan: Plan, spec: ClusterSpec) -> bool:
    """Whether a plan's inputs are small files and tables, no stage needs workers, and the job asks for nothing that only a cluster has.

    That is worker processes, even one (`workers: 1`), a limit of their memory or of what tables take of it, encryption, and a dashboard
    that is asked for by name.
    """
    kind, asked = spec.for_backend(plan.backend), "dashboard" in spec.model_fields_set and spec.dashboard
    if asked or plan.backend != "cpu" or type(kind) is not Local or kind.workers or kind.memory_limit or kind.table_memory or kind.tls:
        return False
    sizes, dense = input_bytes(plan), {name for name, entry in plan.job.inputs.items() if entry.reader.dense}
    known = {name: size for name, size in sizes.items() if size is not None}
    memory = kind.memory("cpu") or 0
    most = max(LEAST_BYTES, min(MOST_BYTES, memory // (SHARE * SWELLING)))
    share = sum(size / (LEAST_BYTES * SWELLING if name in dense else most) for name, size in known.items())
    if len(known) < len(sizes) or share > 1 or any(over_workers(stage.spec.stage) for stage in plan.stages):
        return False
    return not beyond_memory(plan, memory)


def opened(plan: Plan, *, lean: bool) -> AbstractContextManager[Cluster]:
    """Where a plan runs, until the end of the block: the job's cluster, or threads alone. Raises PlaceError where it cannot be had."""
    spec = plan.job.cluster
    kind = spec.for_backend(plan.backend)
    if isinstance(kind, Local) and is_little(plan, spec):
        return open_pool(kind, lean=lean)
    from pipeline.clusters.cluster import open_cluster

    return open_cluster(spec, plan.backend, lean=lean)


def over_workers(stage: Stage) -> bool:
    """Whether a stage, or one that it has as a parameter, wants workers that know of one another."""
    inner = [value for _, value in stage if isinstance(value, Stage)]
    return (isinstance(stage, TellsWorkers) and stage.over_workers) or any(map(over_workers, inner))
