"""The end of all that clusters of this process have started, for who does not wait until they are closed in order."""

from __future__ import annotations

import gc
import tempfile
from contextlib import suppress
from multiprocessing import util
from pathlib import Path
from typing import Any

KILLED_S = 0.3  # for killed processes to be gone
SCRATCH = "dask-scratch-space"


def end_at_once() -> None:
    """Kill the processes that this one started, remove their scratch folders and its own, and give semaphores back.

    Whatever else runs here goes wrong after that: the process is to end.
    """
    import dask
    import psutil
    from distributed.diskutils import WorkDir, WorkSpace

    children = [child for child in psutil.Process().children(recursive=True) if not _gives_back(child)]
    for child in children:
        with suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(children, timeout=KILLED_S)
    for found in gc.get_objects():
        if type(found) is WorkDir:
            found.release()
    place = Path(dask.config.get("temporary-directory") or tempfile.gettempdir()) / SCRATCH
    WorkSpace(str(place)).new_work_dir(prefix="ended-").release()  # which removes folders of processes that are gone
    at_exit: Any = util
    at_exit._run_finalizers(0)


def _gives_back(process: Any) -> bool:
    """Whether it is the process by which Python gives semaphores back, after all others."""
    import psutil

    try:
        return any("resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False
