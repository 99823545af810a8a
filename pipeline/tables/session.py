"""Where the tasks of tables run: at once in this process, or on a Dask cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from pipeline.backend.devices import Backend, Frames
from pipeline.errors import PipelineError, RunError
from pipeline.tables.budget import Budget
from pipeline.tables.keys import task_key
from pipeline.tables.lanes import in_lane, lane, place
from pipeline.tables.measured import Measured
from pipeline.tables.priority import priority
from pipeline.tables.slots import evaluate_filled, evaluate_into, extract, fill, staying
from pipeline.tables.spread import AllGpus
from pipeline.tables.steps import Source, Step, lazy_of, read_part
from pipeline.tables.task import LOOK_S, run_sent_task

MANY = 16  # parts that a task which measures them may have in memory together


class Session:
    """Where tables run at once, in this process: planning uses it on empty frames. `ClusterSession` is the other one."""

    backend: Backend = "cpu"
    workers = 1
    threads = 1  # tasks of a worker that compute at once: on a GPU one
    readers = 1  # tasks of a worker that read or write at once
    depth = 0  # of the stage that submits just now: stages of the job on the longest way to it from an input
    budget: Budget | None = None  # the memory that tables may have, where there is a disk that all tasks can put the rest on
    over: Any = None  # a future that is there when the large query before is over (`in_turn`)
    frames: Frames = "host"  # where a GPU run keeps what its queries give
    lean = False  # whether tasks run in the command line's own process, which nobody else imports libraries for

    def submit(self, function: Callable[..., Any], *arguments: Any, stage: str, on_host: bool = False) -> Any:
        """Run a function of plain values and of earlier results; returns its result, or a future of it.

        `on_host`: it reads, parses, writes or counts, and has no use for a GPU.
        """
        try:
            return function(*arguments)
        except PipelineError as error:
            error.within(stage)
            raise

    def is_future(self, value: Any) -> bool:
        """Whether a value stands for a result that is still to come."""
        return False

    def value(self, future: Any) -> Any:
        """What a future gives, waited for: for a stage whose next task depends on it. Raises what its task raised."""
        return future

    def measure(self, name: str | None, stage: str, parts: Sequence[Any]) -> None:
        """Told of every table that is computed: its name where it is one that the job knows, the stage whose tasks make it, its parts."""

    def account(self, name: str | None, measured: Any) -> None:
        """Told of what was `Measured` of a table, or will be, where the tasks that made it did so."""

    def values(self, results: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The values of what was submitted, each with its number, as they come: who asks waits. Raises the error of a task that failed."""
        return enumerate(results)

    def is_one_query(self, blocks: Sequence[Step]) -> bool:
        """Whether a query over all these blocks' rows runs as one, wherever they are."""
        return self.workers == 1

    @contextmanager
    def fixed_workers(self, stage: str) -> Iterator[None]:
        """No worker comes or goes while the block lasts: a stage trains over them."""
        yield

    def evaluate(self, step: Step) -> Any:
        """The part that a tree stands for (or a future of it), in one task."""
        tree, futures = extract(self._staying(step), self.is_future)
        return self.submit(evaluate_filled, tree, self.backend, *futures, stage=step.stage)

    def evaluate_into(self, step: Step, function: Callable[..., Any], *given: Any) -> Any:
        """What `function(Part, *given)` makes of the part that a tree stands for, in the same task: nobody holds the part."""
        tree, futures = extract(replace(self._staying(step), stays=False), self.is_future)
        return self.submit(evaluate_into, tree, self.backend, function, len(given), *given, *futures, stage=step.stage)

    def _staying(self, step: Step) -> Step:
        """The tree as it runs where frames stay on the GPU."""
        return staying(step) if self.backend == "gpu" and self.frames == "device" else step


class ClusterSession(Session):
    """Tables run as tasks of a Dask cluster; tasks carry the stage's name in their key and as their span."""

    def __init__(self, client: Any, backend: Backend, workers: int, threads: int, *, lean: bool = False) -> None:
        self.client, self.backend, self.workers, self.lean = client, backend, workers, lean
        self.threads, self.readers = (1, max(1, threads - 1)) if backend == "gpu" else (threads, threads)
        self.submitted: Counter[str] = Counter()  # tasks per stage
        self.accounts: list[tuple[str | None, Any]] = []  # of every table computed, its name and a future of what it measured
        self.all_gpus = AllGpus(client)
        self.fixing: Callable[[], AbstractContextManager[str]] = lambda: nullcontext("")  # of a cluster whose workers come and go
        self.until_the_end = ExitStack()  # what is undone when the run is over
        self.notes: list[str] = []  # what was noticed and does not stop the run
        self.follow: Callable[[], None] = lambda: None  # called at every look, so that the run can be followed

    def submit(self, function: Callable[..., Any], *arguments: Any, stage: str, on_host: bool = False) -> Any:
        """Submit the function as one task; returns its future. On a GPU it waits for the GPU's one thread, unless it is `on_host`."""
        with lane(self.backend, on_host=on_host):
            return self._submitted(stage, function, arguments, ahead=in_lane(self.backend, on_host=on_host))

    def submit_to(self, worker: str, function: Callable[..., Any], *arguments: Any, stage: str) -> Any:
        """Submit the function as a task of this worker that has its GPU's place, and not the GPU's thread; returns its future."""
        with place():
            return self._submitted(stage, function, arguments, ahead=True, workers=[worker])

    def _submitted(self, stage: str, function: Callable[..., Any], arguments: Sequence[Any], *, ahead: bool, **where: Any) -> Any:
        from distributed import span

        self.submitted[stage] += 1
        key = task_key(stage, function, self.submitted[stage])
        urgency = priority(self.depth, function, arguments, ahead=ahead)
        with span(stage):
            return self.client.submit(run_sent_task, stage, function, *arguments, key=key, pure=False, priority=urgency, **where)

    def is_one_query(self, blocks: Sequence[Step]) -> bool:
        """On one worker always; on several GPUs where only scans and queries lie below, which cuDF's own engine spreads over them."""
        return self.workers == 1 or (self.backend == "gpu" and all(block.is_query for block in blocks))

    def evaluate(self, step: Step) -> Any:
        """A future of the part: one task; or one query on all GPUs, where the tree joins the rows of several scans."""
        if self.backend != "gpu":
            return super().evaluate(step)
        if self.workers == 1 or len(step.sources) == 1 or not step.is_query:
            return super().evaluate(self._read_on_host(step))
        tree, futures = extract(step, self.is_future)
        return self.all_gpus.begin(self, step.stage, futures, partial(self._query, tree, futures))

    def _query(self, tree: Step, futures: Sequence[Any]) -> pl.LazyFrame:
        """The query of a tree whose slots these futures fill (a fitted state, say): it is built here and not in a task."""
        return lazy_of(fill(tree, self.client.gather(list(futures))), self.backend).query

    def _read_on_host(self, step: Step) -> Step:
        """The tree, whose files that cuDF does not read itself are read by tasks of the host."""
        if step.kind == "read" and isinstance(step.source, Source) and not step.source.cheap:
            return replace(step, source=self.submit(read_part, step, stage=step.stage, on_host=True), fresh=True)
        return replace(step, inputs=tuple(self._read_on_host(child) for child in step.inputs))

    def look(self) -> None:
        """Called now and then by whoever waits for tasks. Raises RunError where a query over all GPUs has failed."""
        self.all_gpus.check()
        self.follow()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine on the client's own loop gives; it is cancelled where waiting for it is given up (Ctrl-C)."""
        import asyncio

        future = asyncio.run_coroutine_threadsafe(work, self.client.loop.asyncio_loop)
        try:
            while not wait([future], LOOK_S).done:
                self.look()
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def value(self, future: Any) -> Any:
        """What a future gives, waited for."""
        return self.wait(self.client.gather(future, asynchronous=True))

    @contextmanager
    def fixed_workers(self, stage: str) -> Iterator[None]:
        """As many workers as there may be at most, until the block ends. Notes what goes between hosts in plain text meanwhile."""
        self.all_gpus.rest(self.look)
        with self.fixing() as missing:
            workers = [address.partition("://") for address in self.client.nthreads()]
            hosts = {rest.rpartition(":")[0] for _, _, rest in workers}
            plain = f"what is trained over workers goes between {len(hosts)} hosts in plain text: XGBoost and JAX have no TLS"
            encrypted = len(hosts) > 1 and {protocol for protocol, _, _ in workers} == {"tls"}
            self.notes += [f"{stage}: {note}" for note in (missing, plain if encrypted else "") if note]
            yield

    def close(self) -> None:
        """Give the workers' GPUs back to their tasks, and let workers come and go."""
        self.until_the_end.close()
        self.all_gpus.close()

    def measure(self, name: str | None, stage: str, parts: Sequence[Any]) -> None:
        """Have the table's rows, bytes and counts noted, by tasks of their own: on several workers a part's where it lies."""
        measured = [[part] for part in parts] if (self.workers > 1 and parts) or len(parts) > MANY else [parts]
        pieces = [self.submit(Measured.of, *each, stage=stage, on_host=True) for each in measured]
        self.account(name, self.submit(Measured.sum, pieces, stage=stage, on_host=True) if len(pieces) > 1 else pieces[0])

    def account(self, name: str | None, measured: Any) -> None:
        """Keep it for the run's record."""
        self.accounts.append((name, measured))

    def values(self, results: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The values of futures as they come. Raises RunError for a task that was cancelled; the others are then given up."""
        from distributed import wait as wait_for

        left = dict(enumerate(results))
        try:
            while left:
                for number in (there := [number for number, future in left.items() if future.status not in {"pending", "lost"}]):
                    yield number, _value(left.pop(number))
                self.look()
                if not there:
                    with suppress(TimeoutError, CancelledError):
                        wait_for(list(left.values()), timeout=LOOK_S, return_when="FIRST_COMPLETED")
        finally:
            for future in reversed(list(left.values())):  # as in running/pending: what needs others first
                self.client.cancel([future], force=True)

    def is_future(self, value: Any) -> bool:
        """Whether a value is a Dask future."""
        from distributed import Future

        return isinstance(value, Future)


def _value(future: Any) -> Any:
    """The value of a future that is done; of one whose worker is lost meanwhile once it was computed again."""
    if future.status == "cancelled":
        raise RunError("a task was cancelled, or what it worked with was lost with its worker (out of memory?). Run again.")
    return future.result()
