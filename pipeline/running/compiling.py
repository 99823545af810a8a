"""Other processes that compile kernels, too: numba compiles one at a time in each, and the first run of all has a minute of them.

`python -m pipeline.running.compiling` is one: it is told stages on its standard input, and ends with what started it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from pipeline.backend.compiling import before_compiling
from pipeline.backend.threads import cores
from pipeline.stage import Stage

MOST = 3
"""The dearest kernels take a quarter of all the time."""
OURS = "pipeline."


@dataclass(frozen=True)
class Prepared:
    """A stage and the roles that it has tables for."""

    stage: Stage
    roles: tuple[str, ...]
    lean: bool

    def prepare(self) -> None:
        """Load what its tasks want."""
        self.stage.prepare_for(self.roles, lean=self.lean)


@contextmanager
def shared(stages: Sequence[Prepared]) -> Iterator[None]:
    """Once a kernel has to be compiled, other processes prepare these stages until the block ends, from the last to the first."""
    ours = [one for one in reversed(stages) if type(one.stage).__module__.startswith(OURS)]  # others may be of a notebook
    helpers = min(MOST, cores() - 1, len(ours))

    def start() -> None:
        """Each begins at another of them; where there is no room for a process, this one compiles all by itself."""
        with suppress(OSError):
            for number in range(helpers):
                at = len(ours) * number // helpers
                stack.enter_context(_helper(ours[at:] + ours[:at]))

    with ExitStack() as stack, before_compiling(start):
        yield


@contextmanager
def _helper(stages: Sequence[Prepared]) -> Iterator[None]:
    """A process that prepares them; it is gone at the end. What goes wrong in it goes wrong here as well, and is said here."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdin is not None
        try:
            with suppress(BrokenPipeError):  # it has ended already
                process.stdin.write(pickle.dumps(stages))
                process.stdin.flush()
            yield
        finally:
            process.kill()
            with suppress(BrokenPipeError):  # what it has not read
                process.stdin.close()


def _end_with_parent() -> None:
    """End once nobody is there who could write to this process."""
    while os.read(sys.stdin.fileno(), 1 << 16):  # not by its buffer, which Python wants for itself at its end
        pass
    os._exit(0)


def main() -> None:
    """Prepare the stages that are told."""
    stages: Sequence[Prepared] = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for one in stages:
        one.prepare()


if __name__ == "__main__":
    main()
