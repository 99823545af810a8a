"""Where tasks that train together find one another: XGBoost's tracker, in the process of one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pipeline.backend.boosting import import_xgboost

TIMEOUT_S = 120  # of what tasks say to one another: without it one that is cut off hangs training for ever
LEAVING_S = 2  # for other tasks to leave where one has failed: they look for the tracker, and again after some seconds
RETRIES = 2  # of a connection, the second one after two seconds

_TRACKERS: dict[int, Any] = {}
"""Of this process, by the ports that they listen at. One that nobody comes to ends by itself."""


def start_tracker(count: int, host: str) -> dict[str, Any]:
    """Start a tracker at this host's address for so many tasks; what they are told to find it."""
    tracker = import_xgboost().tracker.RabitTracker(count, host, sortby="task", timeout=TIMEOUT_S)
    tracker.start()
    told: dict[str, Any] = tracker.worker_args()
    _TRACKERS[told["dmlc_tracker_port"]] = tracker
    return told


@contextmanager
def met(told: Mapping[str, Any]) -> Iterator[None]:
    """While tasks train together: at the end the tracker is gone, in the process that has it, once all tasks have left it."""
    tracker, stopped = _TRACKERS.pop(told.get("dmlc_tracker_port", 0), None), import_xgboost().core.XGBoostError
    if tracker is None:
        yield
        return
    patience = LEAVING_S
    try:
        yield
        patience = TIMEOUT_S
    finally:
        with suppress(stopped, ValueError):  # one that is lost before it has left is missed by who waits for its result
            tracker.wait_for(patience)
        with suppress(stopped):  # that this was before its end
            tracker.free()
