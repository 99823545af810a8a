"""A folder of a run on this machine's disk, for what its tables have beyond memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch() -> Iterator[str]:
    """A new folder where Dask's workers have theirs, gone at the end; that of a run that was killed goes when the next one begins."""
    from dask import config
    from distributed.diskutils import WorkSpace

    beneath = Path(config.get("temporary-directory", None) or tempfile.gettempdir()) / "dask-scratch-space"
    folder = WorkSpace(str(beneath)).new_work_dir(prefix="tables-")
    try:
        yield folder.dir_path
    finally:
        folder.release()
