"""Names of tasks: Dask knows by them how long such tasks take, and a run which stage each is of."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any


def key_prefix(stage: str) -> str:
    """What the keys of a stage's tasks begin with: Dask would take top-10 and top-20 for one, top."""
    return stage.replace("-", "_")


def task_key(stage: str, function: Callable[..., Any], number: int | None = None) -> str:
    """The key of a new task, STAGE.FUNCTION-NUMBER-XXXX, or without a number where the stage does not count it.

    Dask takes tasks of one name to last equally long: a stage's long ones, were they named like its short ones, would stay with one worker.
    """
    while isinstance(function, partial):
        function = function.func
    name = re.sub(r"\W", "", getattr(function, "__name__", type(function).__name__))
    return f"{key_prefix(stage)}.{name}{'' if number is None else f'-{number}'}-{uuid.uuid4().hex}"


def number_of(key: str) -> int | None:
    """The number of a task by its key; None for one of another making."""
    found = re.search(r"-(\d+)-[0-9a-f]{32}$", key)
    return int(found[1]) if found else None


def prefix_of(name: str) -> str:
    """What `key_prefix` gave for the stage of a task, by its key or by Dask's name of such tasks, which lacks the number."""
    return name.partition(".")[0].lstrip("_")  # Dask strips it from names that begin with no letter
