"""The processes that one worker's task starts to train a network together with those of other workers; none outlives the task."""

from __future__ import annotations

import pickle
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

from pipeline.backend.processes import started
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.fitting import Fit
from pipeline.stages.models._network.rank import Joining, Told
from pipeline.stages.models._network.training import gathered
from pipeline.tables.part import Part
from pipeline.tables.rounds import PAUSE_S, Rounds
from pipeline.tables.together import LostError

Messages = queue.SimpleQueue[tuple[int, str, Any]]
"""Number of a process, what it says, and the value; `ended` where it says no more."""
TAIL = 300  # characters of what a process wrote last


@dataclass(frozen=True)
class Ranks:
    """A task of one worker: it starts these processes, and gives what training gave where the first one is among them."""

    learning: Learning[DeepLearning]
    joining: tuple[Joining, ...]

    def __call__(self, last: bytes | None, parts: Sequence[Part], axes: Sequence[Part]) -> Fit | None:
        """Train. Raises LostError where a process is gone before its end."""
        material, said = gathered(self.learning, parts, axes).material, Messages()
        alone, keeps = replace(self.learning, checkpoint=None), self.learning.checkpoint is not None
        with ExitStack() as stack:
            errors = stack.enter_context(tempfile.TemporaryFile())
            for joining in self.joining:
                stack.enter_context(_started(Told(alone, material, joining, last, keeps), said, errors))
            return self._followed(said, errors)

    def _followed(self, said: Messages, errors: IO[bytes]) -> Fit | None:
        """Do what the processes say, until all have ended."""
        rounds, fit = Rounds(self.learning.name), None
        at_work, ended = {joining.number for joining in self.joining}, set[int]()
        while len(ended) < len(self.joining):
            rounds.go_on()
            try:
                number, what, value = said.get(timeout=PAUSE_S)
            except queue.Empty:
                continue
            if what == "failed":
                raise value
            if what == "round":
                rounds.done(value)
            elif what == "kept":
                assert self.learning.checkpoint is not None
                self.learning.checkpoint.keep(value)
            elif what == "done":
                fit = value or fit
                at_work.discard(number)
            elif number in at_work:
                raise LostError(f"process {number + 1} of {self.joining[0].count} ended in the middle of training ({_tail(errors)})")
            else:
                ended.add(number)
        return fit


@contextmanager
def _started(told: Told, said: Messages, errors: IO[bytes]) -> Iterator[None]:
    """A process of its own, which is told what to do and passes on what it says; at the end it is gone."""
    with started("pipeline.stages.models._network.rank", subprocess.PIPE, errors) as process:
        talk = threading.Thread(target=_talk, args=(process, told, said), daemon=True)
        talk.start()
        try:
            yield
        finally:
            process.kill()
            talk.join()


def _talk(process: subprocess.Popen[bytes], told: Told, said: Messages) -> None:
    """Tell a process what to do, and pass on what it says."""
    assert process.stdin is not None
    assert process.stdout is not None
    number = told.joining.number
    try:
        pickle.dump(told, process.stdin)
        process.stdin.flush()
        while True:
            said.put((number, *pickle.load(process.stdout)))
    except (EOFError, OSError, pickle.UnpicklingError):
        said.put((number, "ended", None))


def _tail(errors: IO[bytes]) -> str:
    """What processes wrote last."""
    errors.seek(0)
    return " ".join(errors.read().decode(errors="replace")[-TAIL:].split())
