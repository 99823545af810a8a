"""What every task of a table runs in, and the worker that it runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from pipeline.errors import PipelineError, RunError
from pipeline.results.full import fault_text

_ALIGNED = 16
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


def run_sent_task(stage: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The same of a task that came from another process, with its arrays as they lay there."""
    return run_task(stage, function, *map(aligned, arguments))


def aligned(value: Any) -> Any:
    """A value whose arrays begin at addresses that are multiples of 16 bytes, as NumPy's own do; itself where they all do.

    Frames of a message lie one behind the other, wherever that is, and of an array that lies askew NumPy takes sums in another order: the
    last digits would say how a task came to its worker. Looked at are arrays in dataclasses, tuples, lists and dicts.
    """
    if isinstance(value, np.ndarray):
        return value if value.ctypes.data % _ALIGNED == 0 or not value.size else value.copy(order="K")
    if isinstance(value, tuple | list):
        items = [aligned(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
    if isinstance(value, dict):
        items = [aligned(item) for item in value.values()]
        return value if all(new is old for new, old in zip(items, value.values(), strict=True)) else dict(zip(value, items, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        return _with_aligned(value)
    return value


def _with_aligned(value: Any) -> Any:
    """A dataclass as it is, or a copy with its fields aligned."""
    known = [(one.name, getattr(value, one.name)) for one in fields(value) if hasattr(value, one.name)]
    changed = {name: new for name, old in known if (new := aligned(old)) is not old}
    if not changed:
        return value
    found = copy(value)
    for name, new in changed.items():
        object.__setattr__(found, name, new)
    return found


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
