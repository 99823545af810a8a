"""A network trained over several workers: processes that each have some devices, started again from where they stood if one is lost."""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from functools import partial
from typing import Any

from pipeline.errors import RunError
from pipeline.stage import Context
from pipeline.stages.models._learning import Given, Learning
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.fitting import Fit
from pipeline.stages.models._network.rank import Joining
from pipeline.stages.models._network.ranks import Ranks
from pipeline.tables.together import LostError, Together, host_of

PAUSE_S = 2.0  # and once more as long after each: a worker that is started anew takes some seconds
MOST_LOST = 3  # times in a row that training gets no further


def fit_over_workers(learning: Learning[DeepLearning], given: Given, context: Context) -> Any:
    """What training gave (a `Fit`, or a future of it), which is waited for.

    The model depends on how many processes there are, and not on which workers have them: where there are fewer workers, or one is lost,
    a worker has several. Raises RunError where processes are lost again and again.
    """
    with context.session.fixed_workers(learning.name):
        return _tried(learning, given, Together(context.session, learning.name))


def _tried(learning: Learning[DeepLearning], given: Given, together: Together) -> Any:
    """What training gave, on the workers that are there, and again where one of them is lost."""
    last, lost = None, 0
    while True:
        before, last = last, learning.checkpoint.last() if learning.checkpoint else None
        lost = lost if last == before else 0
        try:
            return together.shared(_trained(learning, together, (together.shared(last), given.parts, given.axes)))
        except LostError as error:
            lost += 1
            if lost >= MOST_LOST:
                text = f"what trained together was lost {lost} times in a row (out of memory?), the last time because {error.text}"
                raise RunError(f"{text}. Run again: it goes on from there.", stage=learning.name, key="parallel.workers") from error
            time.sleep(lost * PAUSE_S)


def _trained(learning: Learning[DeepLearning], together: Together, values: tuple[Any, ...]) -> Fit:
    """What the workers that are there give. Raises LostError where one is lost meanwhile."""
    tasks = _tasks(learning, together)
    # Processes wait for one another: what one of them needs must be there, and not be waiting for a worker that another one has.
    together.run([(worker, have) for worker, _ in tasks], *values)
    found: list[Fit | None] = together.run(tasks, *values)
    return next(fit for fit in found if fit is not None)


def _tasks(learning: Learning[DeepLearning], together: Together) -> list[tuple[str, Ranks]]:
    """A task for each worker that has some of the processes."""
    over = learning.stage.parallel
    assert over is not None
    workers, count = together.workers()[: over.workers], over.workers
    if not workers:
        raise LostError("there is no worker", stage=learning.name)
    if learning.backend == "gpu" and len(workers) < count:
        text = f"{count} workers are asked for, each with GPUs of its own, and there are {len(workers)}. Ask for fewer."
        raise RunError(text, stage=learning.name, key="parallel.workers")
    (address,) = together.run([(workers[0], partial(free_address, host_of(workers[0])))])
    shares = defaultdict[str, list[Joining]](list)
    for number in range(count):
        shares[workers[number * len(workers) // count]].append(Joining(address, number, count, over.devices // count))
    return [(worker, Ranks(learning, tuple(joining))) for worker, joining in shares.items()]


def have(*values: Any) -> bool:
    """That a worker has these values."""
    return bool(values)


def free_address(host: str) -> str:
    """A host with one of its ports that nobody listens at."""
    with socket.create_server((host, 0)) as server:
        return f"{host}:{server.getsockname()[1]}"
