"""Names of tasks: what Dask takes for tasks of one kind, and which stage a run takes them for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

import pytest

from pipeline.tables.keys import key_prefix, prefix_of, task_key


class Fit:
    """A task that is a value."""

    def __call__(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize(
    ("function", "name"),
    [(len, "len"), (partial(partial(len), []), "len"), (Fit(), "Fit"), (itemgetter(0), "itemgetter"), (lambda: None, "lambda")],
)
def test_task_key__tells_tasks_of_one_stage_apart_by_what_they_do(function: Callable[..., Any], name: str) -> None:
    from dask.utils import key_split

    assert key_split(task_key("walked", function)) == f"walked.{name}"


@pytest.mark.parametrize("stage", ["walked", "top-10", "top-20", "a_", "_a", "1_", "1", "9-9", "A"])
def test_prefix_of__finds_the_stage_of_a_key_and_of_the_name_that_dask_makes_of_it(stage: str) -> None:
    from dask.utils import key_split

    key, expected = task_key(stage, len), key_prefix(stage).lstrip("_")
    assert (prefix_of(key), prefix_of(key_split(key))) == (expected, expected)
