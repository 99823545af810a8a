"""What is said of a task whose workers died one after another: which one it was, what they had, and what helps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipeline.clusters.in_use import Cluster
from pipeline.clusters.spilling import TOPIC, full_disks
from pipeline.errors import OutOfMemoryError, RunError
from pipeline.plan.plan import Plan
from pipeline.tables.keys import key_prefix, number_of, prefix_of

TOO_LARGE = re.compile(r"Task '(.+?)' has ([\d.]+ \w+) worth of input dependencies, but worker \S+ has memory_limit set to ([\d.]+ \w+)")
OUT_OF_MEMORY = "worker-restart-memory"  # what Dask's nannies say when they end a worker
REMEDY = "Give workers more memory (cluster.memory_limit), or have fewer of them, or fewer threads in each."
CRASHED = "A library may have crashed, or the system have ended them for want of memory (dmesg says so)."


def of_killed_workers(error: BaseException | None, cluster: Cluster, plan: Plan, expected: Mapping[str, Any]) -> RunError | None:
    """The error of a task that workers died with, or that none can hold, in place of Dask's; None where it is another error.

    A stage that needs more than a worker has is what it mostly is: then what the nannies saw stands in it, and what was foreseen.
    """
    while error is not None and type(error).__name__ != "KilledWorker":
        if isinstance(error, MemoryError) and (found := TOO_LARGE.search(str(error))):
            key, size, limit = found.groups()
            text = f"{{}} takes {size} at once, and no worker has more than {limit}. {REMEDY}"
            return _failure(OutOfMemoryError, key, plan, text)
        error = error.__cause__ or error.__context__
    if error is None:
        return None
    key, last, allowed = error.args
    why = _why(cluster.client, last.memory_limit, expected)
    kind = RunError if why == CRASHED else OutOfMemoryError
    return _failure(kind, str(key), plan, f"{allowed + 1} workers died one after another with {{}}. {why}")


def _failure(kind: type[RunError], key: str, plan: Plan, text: str) -> RunError:
    """The error of a task, which stands for {} in the text."""
    stage, number = stage_of(key, plan), number_of(key)
    failure = kind(text.replace("{}", f"its task {number}" if number is not None else "a task", 1), stage=stage)
    failure.where = plan.where(stage)
    return failure


def _why(client: Any, limit: int | None, expected: Mapping[str, Any]) -> str:
    """Whether they were out of memory, by what their nannies told, whether that was for want of a disk, and the remedy."""
    told = [int(event["rss"]) for _, event in _events(client, OUT_OF_MEMORY)]
    if not told or not limit:
        return CRASHED
    had = f"Out of memory: they had {size_text(max(told))} where the limit is {size_text(limit)}"
    if unspilled := full_disks(_events(client, TOPIC)):
        return f"{had}, and {' '.join(unspilled)}"
    need = expected.get("memory_bytes")
    foreseen = f"; a worker was expected to need {size_text(need)}" if need and need > limit else ""
    return f"{had}{foreseen}. {REMEDY}"


def _events(client: Any, topic: str) -> list[Any]:
    """What was said of something; nothing where the scheduler does not answer."""
    try:
        return list(client.get_events(topic))
    except (OSError, KeyError, TypeError):
        return []


def stage_of(key: str, plan: Plan) -> str:
    """The stage, or input, whose task a key is of."""
    prefix = prefix_of(key)
    named = {prefix_of(key_prefix(name)): name for name in (*plan.inputs, *(stage.spec.name for stage in plan.stages))}
    return named.get(prefix, prefix)


def size_text(number: float) -> str:
    """Bytes in a unit that fits."""
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:,.0f} MB"
