"""Where a check of an expression failed: the stage, the row of its part, and the values there. Looked for once a query has failed.

A query of many stages says that one of its checks failed, and no more. So its steps are run again from the first on, on a CPU, until one
fails; then its rows are halved until the first row is left with which it fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

from pipeline.errors import DataError
from pipeline.sql.checks import Problem
from pipeline.sql.whole import ROUNDED

YEARS_9999 = 250_000_000_000  # seconds from 1970 on that all clocks can show
TICKS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
BEYOND = re.compile(r"conversion from `i128` to `[iu]64` failed .*: \[(-?\d+)")  # of sums and products in 128 bits
Run = Callable[[pl.LazyFrame], object]


def problem_of(run: Run, rows: pl.LazyFrame) -> Problem | None:
    """The check that fails when these rows are run; None where none does."""
    try:
        run(rows)
    except pl.exceptions.PolarsError as error:
        return _found(error)
    return None


def _found(error: Exception) -> Problem | None:
    """The check that an engine's error is of; a sum of decimals is Polars' own."""
    if "overflow in decimal addition" in str(error):
        return Problem("a sum of decimals has more than 38 digits", "Add up floats, as in sum(cast(x as double)).", (), "compute")
    return Problem.found(str(error))


def text_of(error: Exception) -> str:
    """What an engine's error says; of one whole number beyond 64 bits what that is."""
    if found := BEYOND.search(str(error)):
        return f"a whole number is beyond 64 bits: {found[1]}. {ROUNDED}"
    return f"{type(error).__name__}: {error}"


def is_of_a_check(error: Exception) -> bool:
    """Whether an engine's error may be of a check: cuDF does not say which text it could not cast."""
    return _found(error) is not None or "Conversion from" in str(error)


def at_row(problem: Problem, run: Run, rows: pl.DataFrame, stage: str) -> DataError:
    """The error of a check that fails when these rows are run, with the first row that it fails with, where it is of single rows."""
    if not problem.columns:
        return DataError(str(problem), stage=stage, key=problem.key)
    low, high = 0, rows.height  # it holds with `low` rows and fails with `high`
    while high - low > 1:
        middle = (low + high) // 2
        found = problem_of(run, rows.head(middle).lazy())
        low, high, problem = (low, middle, found) if found else (middle, high, problem)
    shown = ", ".join(f"{name} is {_written(rows[name][high - 1 : high])}" for name in problem.columns if name in rows.columns and high)
    place = f", first in row {high:,} of its part" + (f", where {shown}" if shown else "") if high else ""
    return DataError(f"{problem.what}{place}. {problem.remedy}", stage=stage, key=problem.key)


def _written(value: pl.Series) -> str:
    """A single value, with all its digits; a timestamp of a year that Python does not have as its number."""
    if value.null_count():
        return "null"
    if isinstance(value.dtype, pl.Datetime):
        most = YEARS_9999 * TICKS[value.dtype.time_unit]
        return str(value.cast(pl.String).item() if -most < value.to_physical().item() < most else value.to_physical().item())
    return repr(value.item()) if value.dtype == pl.String else str(value.item())
