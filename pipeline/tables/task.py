"""What every task of a table runs in, and the worker that it runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pipeline.errors import PipelineError, RunError
from pipeline.results.full import fault_text

LOOK_S = 0.2
"""Between two looks of who waits for one."""


def run_task(stage: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run one task. Raises our own errors, and every other one as a RunError; both name the stage."""
    try:
        return function(*arguments)
    except PipelineError as error:
        error.within(stage)
        raise
    except Exception as error:
        raise RunError(fault_text(error, getattr(this_worker(), "local_directory", None)), stage=stage) from error


def this_worker() -> Any:
    """The Dask worker whose task this thread runs; None where it runs none."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        with suppress(ValueError):
            return get_worker()
    return None


def leave_thread() -> None:
    """In a task that only waits from here on: its worker gives its thread to others; resources that it has it keeps."""
    from distributed import secede

    secede()
