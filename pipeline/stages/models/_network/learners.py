"""Asynchronous training on a cluster: the parameter server is an actor of Dask's, each learner a task, on one worker after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from pipeline.errors import RunError
from pipeline.stages.models._learning import Given, Learning, with_states
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.fitting import Exercise
from pipeline.stages.models._network.training import Gathered, TrainedNetwork, gathered, trained
from pipeline.tables.keys import task_key
from pipeline.tables.part import Part
from pipeline.tables.rounds import go_on
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Fitted
from pipeline.tables.task import run_task

if TYPE_CHECKING:
    from pipeline.neural.parameter_server import Beginning, Ended, Epoch, Share, Taken

LOOK_S, PATIENCE_S = 0.5, 120.0  # between two looks of who waits for an answer, and after how long there is none


def over_workers(stage: DeepLearning, session: Session) -> bool:
    """Whether learners are tasks of several workers; else they are threads of one task, and on GPUs each has one of its worker's."""
    return stage.by_learners and isinstance(session, ClusterSession) and session.workers > 1 and session.backend == "cpu"


def train_by_learners(learning: Learning[DeepLearning], given: Given, session: Session) -> Any:
    """A future of the TrainedNetwork. Who drives the learners, and these, are tasks that leave their threads to others: none can wait for
    a thread that another one has. All end where one fails, or where the run is given up."""
    assert isinstance(session, ClusterSession)
    over, name, client = learning.stage.parallel, learning.name, session.client
    assert over is not None
    session.until_the_end.enter_context(session.fixed_workers(name))  # a callback when it ends would keep what is given up alive
    rows = session.submit(gathered, learning, given.parts, given.axes, stage=name)
    key = task_key(name, _server)
    server = client.submit(run_task, name, _server, over.asynchronous, over.staleness, key=key, actor=True, pure=False)
    driver = session.submit(_drive, learning, rows, server, given.steps, given.states, stage=name)
    learners = []
    for number, (address, place) in enumerate(_places(client, over.asynchronous)):
        there = {"workers": [address], "allow_other_workers": True, "key": task_key(name, _learn), "pure": False}
        learners.append(client.submit(run_task, name, _learn, learning, rows, server, (number, place), **there))
    return session.submit(_first, driver, learners, stage=name)


def not_reproducible() -> list[str]:
    """What a run says of a model that depends on which learner was the faster."""
    return ["the model of asynchronous learners is not the same from run to run. For one that is: staleness: 0, or data in its place."]


def _places(client: Any, count: int) -> list[tuple[str, int]]:
    """The worker of each learner, by the workers' names, and how many learners that one has before it."""
    known = client.scheduler_info(n_workers=-1)["workers"]
    addresses = sorted(known, key=lambda address: str(known[address]["name"]))
    return [(address, number // len(addresses)) for number, address in enumerate(islice(cycle(addresses), count))]


def _first(driven: TrainedNetwork, _learners: Sequence[None]) -> TrainedNetwork:
    """What came out, when all learners have ended: one that failed fails the run at once."""
    return driven


def _server(learners: int, staleness: int) -> Any:
    from pipeline.neural.parameter_server import ParameterServer

    return ParameterServer(learners, staleness)


def _drive(
    learning: Learning[DeepLearning], rows: Gathered, server: Any, steps: Sequence[Fitted], states: Sequence[Part]
) -> TrainedNetwork:
    from distributed import secede

    secede()
    return trained(learning, rows, with_states(steps, states), Remote(server, learning.name))


def _learn(learning: Learning[DeepLearning], rows: Gathered, server: Any, at: tuple[int, int]) -> None:
    from distributed import secede

    from pipeline.neural.asynchronous import learn

    secede()
    learn(Remote(server, learning.name), Exercise.of(learning, rows.material).lesson(learning), *at, lambda: go_on(learning.name))


class Remote:
    """A parameter server on another worker, whose answers are waited for. Raises RunError where none comes, or nobody waits any more."""

    def __init__(self, actor: Any, stage: str) -> None:
        self._actor, self._stage = actor, stage

    def begin(self, given: Beginning) -> None:
        """As the server does."""
        self._answer(lambda: self._actor.begin(given))

    def take(self, learner: int) -> Taken | Ended | None:
        """As the server does."""
        found: Taken | Ended | None = self._answer(lambda: self._actor.take(learner))
        return found

    def give(self, learner: int, share: Share) -> None:
        """As the server does."""
        self._answer(lambda: self._actor.give(learner, share))

    def epoch(self, number: int) -> Epoch | None:
        """As the server does."""
        found: Epoch | None = self._answer(lambda: self._actor.epoch(number))
        return found

    def leave(self, learner: int, failed: str = "") -> None:
        """As the server does."""
        self._answer(lambda: self._actor.leave(learner, failed))

    def end(self) -> bool | None:
        """As the server does; True where it is gone, as then learners hear that from it."""
        try:
            found: bool | None = self._answer(lambda: self._actor.end())
        except RunError:
            return True
        return found

    def cost(self) -> dict[str, float | None]:
        """As the server does."""
        found: dict[str, float | None] = self._answer(lambda: self._actor.cost())
        return found

    def _answer(self, ask: Callable[[], Any]) -> Any:
        go_on(self._stage)
        try:
            future, asked = ask(), time.monotonic()
            while True:
                try:
                    return future.result(timeout=LOOK_S)
                except TimeoutError:
                    go_on(self._stage)
                    if time.monotonic() - asked > PATIENCE_S:
                        raise
        except (OSError, RuntimeError, TimeoutError) as error:
            text = (
                f"the parameter server does not answer ({type(error).__name__}: {error}): its worker was lost (out of memory?). Run again."
            )
            raise RunError(text) from error
