"""Other processes that compile kernels, too: numba compiles one at a time in each, and the first run of all has a minute of them.

`python -m pipeline.running.compiling` is one: it is told stages on its standard input, a line of JSON, and ends with what started it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pipeline.backend.compiling import before_compiling
from pipeline.backend.memory import host_bytes
from pipeline.backend.processes import started
from pipeline.backend.threads import cores
from pipeline.registry import stage_class
from pipeline.stage import Stage

MOST = 3
"""The dearest kernels take a quarter of all the time."""
ROOM = 2 << 30
"""Bytes of memory that the machine, or the container, has for each: it takes 410 MB at most (seen), and tables leave it 30 %."""
DEAR = "pipeline.stages.genomics."
"""Whose stages have many kernels; of others each has one or two."""


@dataclass(frozen=True)
class Prepared:
    """A stage and the roles that it has tables for."""

    stage: Stage
    roles: tuple[str, ...]
    lean: bool

    def prepare(self) -> None:
        """Load what its tasks want."""
        self.stage.prepare_for(self.roles, lean=self.lean)

    @property
    def is_dear(self) -> bool:
        """Whether another process is worth it: for stages of many kernels, and not for one with a secret, which is told to nobody."""
        kind = type(self.stage)
        return kind.__module__.startswith(DEAR) and not any(field.exclude for field in kind.model_fields.values())

    def told(self) -> list[Any]:
        """What another process makes it of, as JSON has it."""
        return [self.stage.name, self.stage.model_dump(mode="json", exclude_unset=True), self.roles, self.lean]

    @staticmethod
    def of(name: str, parameters: dict[str, Any], roles: Sequence[str], lean: bool) -> Prepared:
        """The same from what was told."""
        return Prepared(stage_class(name).model_validate(parameters), tuple(roles), lean)


@contextmanager
def shared(stages: Sequence[Prepared]) -> Iterator[None]:
    """Once a kernel has to be compiled, other processes prepare these stages until the block ends, from the last to the first."""

    def start() -> None:
        """Each begins at another of them; where there is no room for a process, this one compiles all by itself."""
        dear = [one for one in reversed(stages) if one.is_dear]
        helpers = min(MOST, cores() - 1, host_bytes() // ROOM, len(dear))
        with suppress(OSError):
            for number in range(helpers):
                at = len(dear) * number // helpers
                stack.enter_context(_helper(dear[at:] + dear[:at]))

    with ExitStack() as stack, before_compiling(start):
        yield


@contextmanager
def _helper(stages: Sequence[Prepared]) -> Iterator[None]:
    """A process that prepares them. What goes wrong in it goes wrong here as well, and is said here."""
    with started(__name__, subprocess.DEVNULL, subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps([one.told() for one in stages]).encode() + b"\n")
        process.stdin.flush()
        yield


def _end_with_parent() -> None:
    """End once nobody is there who could write to this process."""
    while os.read(sys.stdin.fileno(), 1 << 16):  # not by its buffer, which Python wants for itself at its end
        pass
    os._exit(1)


def main() -> None:
    """Prepare the stages that are told."""
    told = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for one in told:
        Prepared.of(*one).prepare()


if __name__ == "__main__":
    main()
