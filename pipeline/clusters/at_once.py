"""The end of all that clusters of this process have started, for who does not wait until they are closed in order."""

from __future__ import annotations

import gc
from contextlib import suppress
from multiprocessing import util
from typing import Any

from pipeline.clusters.scratch import remove_left

KILLED_S = 10.0  # for killed processes to be gone, which is at once but on a busy machine: until then their folders are locked


def end_at_once() -> None:
    """Kill the processes that this one started, remove their scratch folders and its own, and give semaphores back.

    Whatever else runs here goes wrong after that: the process is to end.
    """
    import psutil
    from distributed.diskutils import WorkDir

    children = [child for child in psutil.Process().children(recursive=True) if not _gives_back(child)]
    for child in children:
        with suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(children, timeout=KILLED_S)
    for found in gc.get_objects():
        if type(found) is WorkDir:
            found.release()
    remove_left()
    at_exit: Any = util
    at_exit._run_finalizers(0)


def _gives_back(process: Any) -> bool:
    """Whether it is the process by which Python gives semaphores back, after all others."""
    import psutil

    try:
        return any("resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False
