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


def task_key(stage: str, function: Callable[..., Any]) -> str:
    """The key of a new task, STAGE.FUNCTION-NUMBER.

    Dask takes tasks of one name to last equally long: a stage's long ones, were they named like its short ones, would stay with one worker.
    """
    while isinstance(function, partial):
        function = function.func
    name = re.sub(r"\W", "", getattr(function, "__name__", type(function).__name__))
    return f"{key_prefix(stage)}.{name}-{uuid.uuid4().hex}"


def prefix_of(name: str) -> str:
    """What `key_prefix` gave for the stage of a task, by its key or by Dask's name of such tasks, which lacks the number."""
    return name.partition(".")[0].lstrip("_")  # Dask strips it from names that begin with no letter
