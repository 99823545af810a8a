"""All that is compared, by what to call it: stages, what was wrong once, chains of stages, and files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.differential.cases import RUNS, Case, Runs, in_turn
from tests.differential.chains import GIVEN, chains
from tests.differential.files import FILES
from tests.differential.kinds import KNOWN
from tests.differential.stages import STAGES


@dataclass(frozen=True)
class Work:
    """What is drawn, how many of it come to one table of a stage, and whether it goes through runs, as stages do, and files do not."""

    values: Callable[[], st.SearchStrategy[Any]]
    share: float = 1
    runs: bool = True


def check(value: Any, runs: Runs = RUNS) -> None:
    """Assert that a random value is as DuckDB says: a case in one of the runs, files as they are."""
    if isinstance(value, Case):
        value.check(in_turn(runs, value))
    else:
        value.check()


def _work(values: st.SearchStrategy[Any], share: float = 1, *, runs: bool = True) -> Work:
    return Work(lambda: values, share, runs)


WORKS: dict[str, Work] = {
    **{name: Work(made) for name, made in STAGES.items()},
    **{f"known: {name}": _work(values, 0.5) for name, values in KNOWN.items()},
    **{f"chains of {given}": _work(chains(given), 4) for given in GIVEN},
    **{name: _work(values, runs=False) for name, values in FILES.items()},
}
