"""What signals do to a run: the first one ends it in order, and a second one ends what that leaves undone within a second."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.running.display import Display
    from pipeline.running.progress import Progress

SIGNAL_EXITS = 128
HURRY_S = 0.5  # that ending in order still has after a second signal
NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupted(BaseException):
    """A signal other than Ctrl-C's reached the process; it ends as an interrupted run does."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(f"terminated by {signal.Signals(number).name}")
        self.number = number


class Ending:
    """The signals that end a run, taken from here on. What is ignored already stays so: `nohup` ignores SIGHUP."""

    def __init__(self) -> None:
        self.asked: BaseException | None = None
        self._hurried = False
        self.take()
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._lost

    def take(self) -> None:
        """Take them once more: Polars, when it is imported, takes Ctrl-C from whoever has it, and ends queries of any thread by it."""
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._take)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        """Raise the first time. Later ones would break off what the first one ends in order."""
        if self.asked is None:
            self.asked = KeyboardInterrupt() if number == signal.SIGINT else Interrupted(number)
            raise self.asked
        if not self._hurried:
            self._hurried = True
            timer = threading.Timer(HURRY_S, _end, (SIGNAL_EXITS + number,))
            timer.daemon = True
            timer.start()

    def _lost(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Say what Python drops, but not the error by which a run ends: the next look at progress ends it."""
        if self.asked is None or unraisable.exc_value is not self.asked:
            self._unraisable(unraisable)


class Asked:
    """A display that ends the run where a signal's error was lost: Python drops what is raised while it collects garbage, say."""

    def __init__(self, display: Display, ending: Ending) -> None:
        self._display, self._ending = display, ending
        ending.take()
        self.started, self.finished = display.started, display.finished

    def progress(self, progress: Progress) -> None:
        """Show it, unless the run was told to end: whoever waits for it asks here now and then."""
        if self._ending.asked is not None:
            raise self._ending.asked
        self._display.progress(progress)


def _end(code: int) -> None:
    """End this process and all that it started."""
    try:
        if "distributed" in sys.modules:
            from pipeline.clusters.at_once import end_at_once

            end_at_once()
        sys.stderr.write("error: interrupted twice: it was ended at once, and run.json may not say so\n")
        sys.stderr.flush()
    finally:
        os._exit(code)
