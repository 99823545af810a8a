"""Workers whose disk has no room for what they spill say so: Dask notes it in a log, keeps all in memory, and goes on while it can."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from pipeline.results.full import SPILLED, full_text, is_full

TOPIC = "pipeline-spill-full"
"""Where Dask's scheduler keeps what workers said of it, under `text`."""
LOG = "distributed.spill"


class _Full(logging.Handler):
    """Hears of what could not be spilled."""

    def __init__(self, worker: Any) -> None:
        super().__init__(logging.ERROR)
        self._worker = worker

    def emit(self, record: logging.LogRecord) -> None:
        """Tell the scheduler, where it was for want of room; of the folder that workers of a machine share."""
        if record.exc_info and is_full(record.exc_info[1]):
            self._worker.log_event(TOPIC, {"text": full_text(str(Path(self._worker.local_directory).parent), SPILLED)})


def tell_of_full_disks(worker: Any) -> None:
    """Have a worker say when its disk is full; what else its log shows of that stays as it was."""
    log = logging.getLogger(LOG)
    log.propagate = log.propagate and log.isEnabledFor(logging.ERROR)
    log.setLevel(logging.ERROR)
    log.handlers = [handler for handler in log.handlers if not isinstance(handler, _Full)]
    log.addHandler(_Full(worker))


def full_disks(events: Any) -> list[str]:
    """What workers said, each once, from the events of `TOPIC`."""
    return list(dict.fromkeys(str(event["text"]) for _, event in events))
