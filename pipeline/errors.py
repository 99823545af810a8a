"""Every error a user can meet, and the exit code that each one ends with.

PipelineError                 exit code 1
├── RefusedError              exit code 2: refused before anything started
│   ├── JobError              the job file: unknown names, wrong types, cycles (one or many problems)
│   ├── InputError            a file that is missing, empty, truncated or not what its format says
│   └── PlaceError            the results folder, the cluster or the backend cannot be used as asked
└── RunError                  what showed only while running
    └── DataError             the data contradicts the job (a constant trait, sample ids that match nobody)

A message says what, where, the value and the remedy. Workers raise them too, so all of them pickle.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class PipelineError(Exception):
    """Base of every error that this package raises on purpose."""

    exit_code = 1


class RefusedError(PipelineError):
    """The job or its inputs were refused and nothing ran."""

    exit_code = 2


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


class InputError(RefusedError):
    """An input file cannot be read as what the job says it is."""


class PlaceError(RefusedError):
    """The place to run in or to write to is not usable: results folder, cluster, backend, or a missing library."""


class RunError(PipelineError):
    """The run failed after it had started; run.json says so."""


class DataError(RunError):
    """The data contradicts the job in a way that only reading it could show."""


def lacks_stage(error: PipelineError) -> bool:
    """Whether an error showed while running and does not say in which stage; errors of files and of jobs have a place of their own."""
    return isinstance(error, RunError) and not str(error).startswith("stage ")


def near(name: str, known: Iterable[str]) -> str:
    """' Did you mean X?' for the nearest known name, and the list of known ones where it is short; '' where nothing helps."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = f" Known: {', '.join(names)}." if names and (len(names) <= 12 or not close) else ""
    return hint + (listed if len(listed) < 600 else listed[:600] + " ...")
