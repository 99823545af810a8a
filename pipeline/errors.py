"""Every error a user can meet, and the exit code that each one ends with.

PipelineError                 exit code 1
├── RefusedError              exit code 2: refused before anything started
│   ├── JobError              the job file: unknown names, wrong types, cycles (one or many problems)
│   ├── StageError            a stage's parameters do not fit the tables that it reads
│   │   └── ExpressionError   an SQL expression that is refused
│   ├── InputError            a file that is missing, empty, truncated or not what its format says
│   └── PlaceError            the results folder, the cluster or the backend cannot be used as asked
└── RunError                  what showed only while running
    ├── DataError             the data contradicts the job (a constant trait, sample ids that match nobody)
    └── OutOfMemoryError      a stage needs more memory than there is

A message says what, where, the value and the remedy. Where is not written into the text: an error carries the stage and the parameter that
it is of. What raises it gives what it knows, the task adds its stage, the run the line of the job file, and `str` puts them together.
Workers raise errors too, so all of them pickle.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self


class PipelineError(Exception):
    """Base of every error that this package raises on purpose.

    `stage` is the stage's name in the job, `key` its parameter (`columns.ratio`), `where` the place in the job file; '' where not known.
    `others` were found together with it.
    """

    exit_code = 1

    def __init__(self, text: str, *, stage: str = "", key: str = "") -> None:
        super().__init__(text)
        self.text, self.stage, self.key, self.where = text, stage, key, ""
        self.others: tuple[PipelineError, ...] = ()

    def within(self, stage: str = "", key: str = "") -> Self:
        """The same error, in a stage and under a key: those that it has stay, a key goes before the one that it has."""
        self.stage = self.stage or stage
        self.key = ".".join(part for part in (key, self.key) if part)
        for other in self.others:
            other.within(stage, key)
        return self

    def __str__(self) -> str:
        place = self.where or (f"stage {self.stage}" if self.stage else "")
        place = ".".join(part for part in (place, self.key) if part)
        return "\n".join([f"{place}: {self.text}" if place else self.text, *map(str, self.others)])


class RefusedError(PipelineError):
    """The job or its inputs were refused and nothing ran."""

    exit_code = 2


@contextmanager
def under(key: str) -> Iterator[None]:
    """Errors raised inside are of this parameter: `columns.ratio`, or the part before what they name themselves."""
    try:
        yield
    except PipelineError as error:
        error.within(key=key)
        raise


class Gathered:
    """What several checks of a stage find wrong, raised as one error when all of them were made."""

    def __init__(self) -> None:
        self.errors: list[PipelineError] = []

    @contextmanager
    def one(self) -> Iterator[None]:
        """One of the checks: the StageErrors that it raises wait for `check`."""
        try:
            yield
        except StageError as error:
            self.add(error)

    def add(self, error: StageError) -> None:
        """An error, and those that it has beside it, each once."""
        others, error.others = error.others, ()
        for found in (error, *others):
            if (found.key, found.text) not in {(one.key, one.text) for one in self.errors}:
                self.errors.append(found)

    def check(self) -> None:
        """Raise the first of them, which has the others beside it."""
        if self.errors:
            self.errors[0].others = tuple(self.errors[1:])
            raise self.errors[0]


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a job: `where` it stands (file:line:column), which `key`, and `what` is wrong, with the remedy."""

    where: str
    key: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.key, self.what) if part)


class JobError(RefusedError):
    """The job file is wrong; carries every problem found, not only the first."""

    def __init__(self, problems: Iterable[Problem] | str) -> None:
        self.problems = (Problem("", "", problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[JobError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class StageError(RefusedError, ValueError):
    """A stage's parameters do not fit the tables it reads; the planner adds the line of the job file."""


class ExpressionError(StageError):
    """An SQL expression that is refused."""


class InputError(RefusedError):
    """An input file cannot be read as what the job says it is."""


class PlaceError(RefusedError):
    """The place to run in or to write to is not usable: results folder, cluster, backend, or a missing library."""


class RunError(PipelineError):
    """The run failed after it had started; run.json says so."""


class DataError(RunError):
    """The data contradicts the job in a way that only reading it could show."""


class OutOfMemoryError(RunError):
    """A stage needs more memory than there is.

    `table_memory` are bytes to reckon with for tables the next time, so that smaller ones lie on disk; 0 where that would change nothing.
    """

    table_memory = 0


def near(name: str, known: Iterable[str]) -> str:
    """' Did you mean X?' for the nearest known name, and the list of known ones where it is short; '' where nothing helps."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = f" Known: {', '.join(names)}." if names and (len(names) <= 12 or not close) else ""
    return hint + (listed if len(listed) < 600 else listed[:600] + " ...")
