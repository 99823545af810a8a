"""The command line as a process that may be disturbed, and what a job gives when nothing disturbs it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clusters.hosts import published_bytes
from tests.faults.places import PLACES, ROOT, command, family

LIMIT_S = 240  # for a command, however disturbed: what takes longer hangs
LEFT_S = 30  # for processes of a driver that has ended
POLL_S = 0.02


class Driver:
    """A command line that runs a job, leader of a session of its own; what it says goes to files."""

    def __init__(self, words: list[str], log: Path) -> None:
        self._log, self._words = log, words

    def __enter__(self) -> Driver:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._log.open("wb") as out, self._log.with_suffix(".err").open("wb") as err:
            self.process = subprocess.Popen(self._words, stdout=out, stderr=err, cwd=ROOT, env=environment, start_new_session=True)
        self.began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        for process in family(self.process.pid):
            process.kill()
        self.process.wait()

    def has_begun(self) -> bool:
        """Whether it has said so."""
        return b'"started"' in self._log.read_bytes()

    def wait_for(self, condition: Callable[[], Any]) -> bool:
        """Whether a condition came to hold before the process had ended, or its limit."""
        while self.process.poll() is None and time.monotonic() < self.began + LIMIT_S:
            if condition():
                return True
            time.sleep(POLL_S)
        return False

    def wait(self) -> int | None:
        """How it ended; None where it hangs."""
        self.wait_for(lambda: False)
        return self.process.poll()

    def errors(self) -> str:
        """What it said on its error stream."""
        return self._log.with_suffix(".err").read_text(encoding="utf-8", errors="replace")

    def left(self) -> list[str]:
        """Processes of its session that are still there a while after its end."""
        until = time.monotonic() + LEFT_S
        while (there := family(self.process.pid)) and time.monotonic() < until:
            time.sleep(10 * POLL_S)
        return [f"process {process.pid} is left" for process in there]


@dataclass
class Case:
    """A job: its file, what changes it, the result that stands before, the bytes of the new one and of that, and how long it takes."""

    job: Path
    new: str
    former: Path
    bytes: list[dict[str, str]]
    seconds: float
    begins: float  # of them, until the run begins

    @classmethod
    def of(cls, job: Path, scratch: Path, former: str = "seed=1", new: str = "seed=2") -> Case:
        """Run it in one process, undisturbed, changed both ways. Raises RuntimeError where it fails."""
        found, times, begins = list[dict[str, str]](), 0.0, 0.0
        with PLACES["process"](scratch) as ground:
            for change, name in ((new, "new"), (former, "former")):
                began = time.monotonic()
                with Driver(command(ground, job, scratch / name, change), scratch / f"{name}.log") as driver:
                    driver.wait_for(driver.has_begun)
                    begins = time.monotonic() - began
                    if driver.wait() != 0:
                        raise RuntimeError(driver.errors())
                times = time.monotonic() - began
                found.append(published_bytes(scratch / name))
        return cls(job, new, scratch / "former", found, times, begins)
