"""How far a run has come, as Dask's scheduler knows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.tables.keys import key_prefix, prefix_of
from pipeline.tables.pool import Pool, Seen
from pipeline.tables.rounds import Round, last_rounds

UNDONE = ("waiting", "queued", "no-worker", "processing")


class Threads(NamedTuple):
    """Threads of all workers at one moment: how many there are, how many have no task, and tasks that wait though they could run."""

    all: int
    idle: int
    waiting: int


@dataclass(frozen=True)
class Progress:
    """Per stage the tasks done and submitted, the seconds that they computed so far, and the last round of one that says its rounds."""

    tasks: Mapping[str, tuple[int, int]]
    seconds: Mapping[str, float]
    rounds: Mapping[str, Round] = field(default_factory=dict)
    threads: Threads | None = None

    @property
    def finished(self) -> list[str]:
        """Stages all of whose tasks are done."""
        return [stage for stage, (done, total) in self.tasks.items() if done >= total]


def progress_of(client: Any, stages: Iterable[str], submitting: str = "") -> Progress:
    """The progress of these stages, in one question to the scheduler; the one that is `submitting` tasks has one more to come."""
    known = sorted(stages)
    seen, rounds, threads = pool_state(client, known) if isinstance(client, Pool) else client.run_on_scheduler(scheduler_state, known)
    tasks = {stage: (done, done + left + (stage == submitting)) for stage, (done, left, _) in seen.items()}
    return Progress(
        tasks, {stage: of[2] for stage, of in seen.items()}, {stage: Round(**said) for stage, said in rounds.items()}, Threads(*threads)
    )


State = tuple[dict[str, tuple[int, int, float]], dict[str, dict[str, Any]], tuple[int, int, int]]


def scheduler_state(stages: list[str], dask_scheduler: Any) -> State:
    """On the scheduler: per stage the tasks done, those still to do, and the seconds that they computed; the rounds at work; `Threads`."""
    of_stage = defaultdict[str, list[Any]](list)
    for name, prefix in dask_scheduler.task_prefixes.items():
        of_stage[prefix_of(name)].append(prefix)
    found = {}
    for stage in stages:
        prefixes = of_stage[prefix_of(key_prefix(stage))]
        done = sum(prefix.state_counts.get("memory", 0) for prefix in prefixes)
        left = sum(prefix.states.get(state, 0) for prefix in prefixes for state in UNDONE)
        found[stage] = (int(done), int(left) if prefixes else 1, float(sum(prefix.all_durations["compute"] for prefix in prefixes)))
    return found, last_rounds(stages, dask_scheduler), threads_now(dask_scheduler)


def pool_state(pool: Pool, stages: list[str]) -> State:
    """The same of a pool of threads."""
    seen, running = pool.now()
    found = {}
    for stage in stages:
        of = seen.get(prefix_of(key_prefix(stage)), Seen(1))
        found[stage] = (of.done, of.tasks - of.done, of.seconds)
    named = {prefix_of(key_prefix(stage)): stage for stage in stages}
    rounds = {named[prefix_of(task.key)]: task.said for task in running if task.said is not None and prefix_of(task.key) in named}
    return found, rounds, (pool.threads, pool.threads - len(running), 0)


def threads_now(dask_scheduler: Any) -> tuple[int, int, int]:
    """On the scheduler: threads of all workers, those without a task, and tasks that are queued or that a worker has beyond its threads."""
    having = [(worker.nthreads, len(worker.processing)) for worker in dask_scheduler.workers.values()]
    waiting = sum(max(0, tasks - threads) for threads, tasks in having) + len(dask_scheduler.queued)
    return sum(threads for threads, _ in having), sum(max(0, threads - tasks) for threads, tasks in having), waiting
