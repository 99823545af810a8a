"""Big-table analytics from one YAML job file: the same on a laptop, on GPUs and on a Dask cluster.

`load` a job and `run()` it, or `open_run` the current run of a results folder.

Whoever imports this package first (the command line, a notebook, a worker) has BLAS and OpenMP told how to thread before they load.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.backend.threads import limit_threads

if TYPE_CHECKING:
    from pipeline.api import LoadedJob, Run

limit_threads()

__all__ = ["load", "open_run"]


def load(path: str | Path, **overrides: Any) -> LoadedJob:
    """Read and check a job file; `overrides` are as the command line's --set, with __ for the dots (`stages__passed__min_maf=0.05`).

    Raises JobError with every problem of the file.
    """
    from pipeline import api  # heavy libraries load with the first job, not with the package

    return api.load(path, **overrides)


def open_run(place: str | Path) -> Run:
    """The current run of a results folder or URL. Raises RunError where none has been published yet."""
    from pipeline import api

    return api.open_run(place)
