"""Someone who reads a results folder all the while that runs are disturbed there, and must always see a whole result."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.results.manifest import read_current, verify
from tests.clusters.hosts import run_bytes

PAUSE_S = 0.1  # between two looks


class Reader:
    """Reads from a thread; every result that it sees must be whole, checksum by checksum, and one of those that there can be.

    `torn` says what was wrong, `looks` how often it looked.
    """

    def __init__(self, place: Path, results: Sequence[Mapping[str, str]]) -> None:
        self.torn: list[str] = []
        self.looks = 0
        self._place, self._results = place, results
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Look once."""
        self.looks += 1
        try:
            view = read_current(str(self._place))
            if view is None:
                self.torn.append("the result is gone")
                return
            self.torn += verify(view.path)
            if run_bytes(Path(view.path)) not in self._results:
                self.torn.append(f"run {view.id} has other bytes than an undisturbed one")
        except PipelineError as error:
            self.torn.append(re.sub(r"\s+", " ", str(error)))

    def _read(self) -> None:
        while not self._stop.wait(PAUSE_S):
            self.look()
