"""A process that runs jobs as they come on its standard input, a path a line, and answers with the wall seconds of each run's record.

So start-up and imports are left out of a timing, and the memory of who asks stays small: a child's peak counts what its parent held.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pipeline
from benchmarks.harness import ROOT, python


class Warm:
    """The process, seen from the benchmark."""

    def __enter__(self) -> Warm:
        command = python("benchmarks/warm.py")
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return self

    def run(self, job: Path) -> float:
        """Wall seconds of one run. Raises RuntimeError where it fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{job}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{job}: the run failed; see: python -m pipeline.run {job}")
        return float(answer)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    """Serve until the input ends."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what a run prints is no answer
    for line in sys.stdin:
        seconds = pipeline.load(line.strip()).run(fresh=True).record["seconds"]
        print(seconds, file=answers, flush=True)


if __name__ == "__main__":
    main()
