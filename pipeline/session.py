"""Where the tasks of tables run: at once in this process, or on a Dask cluster."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from pipeline.backend import Backend
from pipeline.errors import PipelineError, RunError
from pipeline.node import Node, evaluate, extract


class Session:
    """Where tables run at once, in this process: planning uses it on empty frames. `ClusterSession` is the other one."""

    backend: Backend = "cpu"
    workers = 1
    threads = 1

    def submit(self, function: Callable[..., Any], *arguments: Any, stage: str) -> Any:
        """Run a function of plain values and of earlier results; returns its result, or a future of it."""
        return function(*arguments)

    def is_future(self, value: Any) -> bool:
        """Whether a value stands for a result that is still to come."""
        return False

    def evaluate(self, node: Node) -> Any:
        """The part that a tree stands for (or a future of it), in one task."""
        tree, futures = extract(node, self.is_future)
        return self.submit(evaluate, tree, self.backend, *futures, stage=node.stage)


class ClusterSession(Session):
    """Tables run as tasks of a Dask cluster; tasks carry the stage's name as their key's prefix and as their span."""

    def __init__(self, client: Any, backend: Backend, workers: int, threads: int) -> None:
        self.client, self.backend, self.workers, self.threads = client, backend, workers, threads
        self.submitted: Counter[str] = Counter()  # tasks per stage, which progress compares with those done

    def submit(self, function: Callable[..., Any], *arguments: Any, stage: str) -> Any:
        """Submit the function as one task; returns its future."""
        from distributed import span

        self.submitted[stage] += 1
        with span(stage):
            return self.client.submit(run_task, stage, function, *arguments, key=f"{stage}-{uuid.uuid4().hex}", pure=False)

    def is_future(self, value: Any) -> bool:
        """Whether a value is a Dask future."""
        from distributed import Future

        return isinstance(value, Future)


def run_task(stage: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run one task. Raises our own errors as they are and every other one as a RunError that names the stage."""
    try:
        return function(*arguments)
    except PipelineError:
        raise
    except Exception as error:
        raise RunError(f"stage {stage}: {type(error).__name__}: {error}") from error
