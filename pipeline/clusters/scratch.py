"""A folder of a run on this machine's disk, for what its tables have beyond memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def scratch() -> Iterator[str]:
    """A new folder where Dask's workers have theirs, gone at the end; that of a run that was killed goes when the next one begins."""
    folder = _space().new_work_dir(prefix="tables-")
    try:
        yield folder.dir_path
    finally:
        folder.release()


def remove_left() -> None:
    """Remove the scratch folders of processes that are gone; those that run keep theirs."""
    _space().new_work_dir(prefix="ended-").release()  # Dask looks for them whenever a folder is made


def _space() -> Any:
    """Where Dask's workers of this machine have their folders."""
    from dask import config
    from distributed.diskutils import WorkSpace

    return WorkSpace(str(Path(config.get("temporary-directory", None) or tempfile.gettempdir()) / "dask-scratch-space"))
