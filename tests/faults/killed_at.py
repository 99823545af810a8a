"""A program: the command line, killed at a point of its way to a published result: python -m tests.faults.killed_at POINT JOB ..."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from pipeline.results.on_disk import LocalStore
from pipeline.results.publish import RunFolder
from pipeline.run import main
from pipeline.running.execute import Execution
from pipeline.running.pending import Waiting
from pipeline.running.writing import WriteTask


class Point(NamedTuple):
    """A method, and whether the program dies before or after it; at the `nth` call whose first argument ends so."""

    of: type
    method: str
    after: bool = False
    nth: int = 1
    ends: str = ""


POINTS = {
    "before the first stage": Point(Execution, "_stage"),
    "before the last stage": Point(Execution, "_stage", nth=2),
    "after the first part": Point(WriteTask, "__call__", after=True),
    "after the last part": Point(WriteTask, "__call__", after=True, nth=2),
    "before all is awaited": Point(Waiting, "wait"),
    "when all is written": Point(Waiting, "wait", after=True),
    "before the manifest": Point(LocalStore, "write", ends="manifest.json"),
    "before the swap": Point(LocalStore, "point"),
    "between the link and its file": Point(LocalStore, "_swap_link", after=True),
    "after the swap": Point(LocalStore, "point", after=True),
    "before it is tidied": Point(RunFolder, "_tidy"),
}
IN_TASKS = {name for name, point in POINTS.items() if point.of is WriteTask}  # so in the driver only where that does the tasks
PUBLISHED = {"between the link and its file", "after the swap", "before it is tidied"}


def kill_at(name: str) -> None:
    """Have this process killed at that point."""
    point, calls = POINTS[name], 0
    real: Callable[..., Any] = getattr(point.of, point.method)

    def dying(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += str(given[1] if len(given) > 1 else "").endswith(point.ends)
        kill = partial(os.kill, os.getpid(), signal.SIGKILL) if calls == point.nth else int
        if not point.after:
            kill()
        result = real(*given, **named)
        if point.after:
            kill()
        return result

    setattr(point.of, point.method, dying)


def forked(words: list[str], point: str = "") -> int:
    """The command line in a fork of this process, which has imported all: its exit code, or the negative number of its signal."""
    child = os.fork()
    if child == 0:
        if point:
            kill_at(point)
        code = main(words)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    kill_at(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
