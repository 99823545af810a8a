"""What a long task says of itself while it works, round by round, and how it learns that nobody waits for it any more."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline.errors import RunError
from pipeline.tables.pool import this_promise
from pipeline.tables.task import this_worker

TOPIC = "pipeline-rounds-"  # and the stage: where Dask's scheduler keeps what its tasks said last
PAUSE_S = 0.25  # between two things that a task says
GIVEN_UP = "its run was interrupted"


@dataclass(frozen=True)
class Round:
    """How far a task has come: round `at` of `of`, and the figures of that round by name."""

    at: int
    of: int
    figures: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [f"{name} {value:.4g}" for name, value in self.figures.items()]
        return ", ".join([f"round {self.at} of {self.of}", *shown])


class Rounds:
    """The rounds of one task of a stage. Outside of a task (a test, a plan) nobody listens, and nobody can give the task up."""

    def __init__(self, stage: str) -> None:
        self.stage, self.next = stage, 0.0

    def done(self, last: Round) -> None:
        """Say that a round is done, a few times a second at most. Raises RunError as `go_on` does."""
        self.go_on()
        now, worker, promise = time.monotonic(), this_worker(), this_promise()
        if promise is not None:
            promise.said = asdict(last)
        if worker is not None and now >= self.next:
            self.next = now + PAUSE_S
            worker.log_event(TOPIC + self.stage, {"key": str(worker.get_current_task()), **asdict(last)})

    def go_on(self) -> None:
        """Raise RunError as the function of that name does."""
        go_on(self.stage)


def go_on(stage: str = "") -> None:
    """Raise RunError where the run has given up the task that this thread runs: Dask cannot end one that has begun.

    A task that takes long asks, a few times a second, before it goes on.
    """
    promise, worker = this_promise(), this_worker()
    if promise is not None and promise.given_up:
        raise RunError(GIVEN_UP, stage=stage)
    if worker is None:
        return
    task = worker.state.tasks.get(worker.get_current_task())
    if task is None or task.state == "cancelled":
        raise RunError(GIVEN_UP, stage=stage)


def last_rounds(stages: list[str], scheduler: Any) -> dict[str, dict[str, Any]]:
    """On the scheduler: what tasks of these stages that are at work said last."""
    found = {}
    for stage in stages:
        for _, said in scheduler.get_events(TOPIC + stage)[-1:]:
            task = scheduler.tasks.get(said["key"])
            if task is not None and task.state == "processing":
                found[stage] = {name: said[name] for name in ("at", "of", "figures")}
    return found
