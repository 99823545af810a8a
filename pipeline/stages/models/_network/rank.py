"""One of several processes that train a network together: a worker's task starts it, tells it what to do, and hears of it.

It is told by its input, which stays open as long as the task lives, and ends with it; it answers by its output, message by message.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from pipeline.backend.neural import join_processes, leave_processes
from pipeline.errors import PipelineError
from pipeline.results.checkpoints import Keeping
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.attending import Watch, last_round, watching
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.fitting import Exercise, Fit
from pipeline.stages.models._network.rows import Material

if TYPE_CHECKING:
    from pipeline.neural.training import Fitted

Tree = Any
Send = Callable[[str, Any], None]
"""Says something to the task: `round`, `kept`, `failed` or `done`, and what."""


@dataclass(frozen=True)
class Joining:
    """Where the first process listens, this one's number and how many there are, and how many devices each has."""

    address: str
    number: int
    count: int
    devices: int


@dataclass(frozen=True)
class Told:
    """What a process is told: what it learns, from which rows, with which others, where it goes on from, and whether that is kept."""

    learning: Learning[DeepLearning]
    material: Material
    joining: Joining
    last: bytes | None
    keeps: bool


@dataclass(frozen=True)
class Sent:
    """Where it stands is kept by the task, which is told of it."""

    told: Told
    send: Send

    def last(self) -> bytes | None:
        """Where it goes on from."""
        return self.told.last

    def keep(self, content: bytes) -> None:
        """Have it kept."""
        self.send("kept", content)


class Attending:
    """Of a training of several processes: what the first one sees and says counts for all."""

    def __init__(self, told: Told, watch: Watch, send: Send) -> None:
        from pipeline.neural.resuming import Keeper

        self._told, self._watch, self._send, self._first = told, watch, send, told.joining.number == 0
        self._keeping = Keeping(Sent(told, send) if told.keeps else None)
        self._keeper = Keeper(self)

    def resumed(self, state: Tree, found: Fitted) -> tuple[Tree, Fitted]:
        """Where the training stood that goes on."""
        return self._keeper.resumed(state, found)

    def watch(self, parameters: Any) -> float | None:
        """How bad the first process finds parameters on the validation rows."""
        from pipeline.neural.joined import said

        bad = self._watch(parameters) if self._first else 0.0
        return said(bad or 0.0) if self._told.material.labels.of_split("validation").any() else None

    def done(self, state: Tree, found: Fitted) -> None:
        """Say the round, and have it kept."""
        if self._first:
            self._send("round", last_round(self._told.learning.stage, found, self._told.material.target[1]))
        self._keeper.keep(state, found)

    def last(self) -> bytes | None:
        """Where it goes on from."""
        return self._told.last

    def due(self) -> bool:
        """Whether the first process finds it time to keep."""
        from pipeline.neural.joined import said

        return self._told.keeps and bool(said(float(self._keeping.due())))

    def keep(self, content: Callable[[], bytes]) -> None:
        """Have it kept, by the first process; what the others have of it they give."""
        if self._first:
            self._keeping.keep(content)
        else:
            content()


def trained(told: Told, send: Send) -> Fit:
    """What training together with the others gives."""
    from pipeline.neural.joined import JoinedSteps

    learning, joining, over = told.learning, told.joining, told.learning.stage.parallel
    assert over is not None
    devices = join_processes(learning.backend, joining.address, (joining.number, joining.count), joining.devices)
    exercise = Exercise.of(learning, told.material)
    around = Attending(told, watching(learning, exercise.shape, told.material), send)
    return exercise.done(JoinedSteps(exercise.task, devices, over.model), around, costed=True)


def main() -> None:
    """Do what the input says. Ends with an error at once where another process is lost, since waiting for it would not end."""
    output = _output()

    def send(what: str, value: Any) -> None:
        """Say something to the task."""
        pickle.dump((what, value), output)
        output.flush()

    told: Told = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_task, name="task", daemon=True).start()
    with ExitStack() as stack:
        stack.push(_at_once)
        try:
            fit = trained(told, send)
        except PipelineError as error:
            send("failed", error)
            raise
    send("done", fit if told.joining.number == 0 else None)
    leave_processes()


def _at_once(_kind: Any, error: BaseException | None, _trace: Any) -> None:
    """End where there is an error: JAX would wait for processes that are gone."""
    if error is not None:
        traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(1)


def _output() -> BinaryIO:
    """The output for messages; what libraries print goes to the errors' from now on."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output


def _end_with_task() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
