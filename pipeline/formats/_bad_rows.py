"""Rows of a text that are none: taken aside with their place and the reason, where the job says so, instead of failing the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.formats._bounded import BoundedInput
from pipeline.tables.bad_rows import QUARANTINED, Sieve
from pipeline.tables.counts import Count

BAD_ROWS = {"quarantined": Count("bad rows, left out", aside=True)}
"""The words of what is counted."""

OnBadRows = Literal["fail", "quarantine"]


class BadRow(NamedTuple):
    """A row that is none: the line at which it begins (1 is the first), its text, and why."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True)
class Sifted:
    """The bad rows of a file, in order, and how many rows there are with them."""

    bad: tuple[BadRow, ...] = ()
    rows: int = 0

    @property
    def lines(self) -> frozenset[int]:
        """The lines at which bad rows begin."""
        return frozenset(row.line for row in self.bad)


def quarantined(path: str, bad: Iterable[BadRow]) -> pl.DataFrame:
    """Bad rows as the table INPUT.quarantined."""
    rows = [(row.text.rstrip("\r\n"), row.reason, path, row.line) for row in bad]
    return pl.DataFrame(rows, schema=QUARANTINED, orient="row")


class SiftedInput(BoundedInput):
    """Base of inputs whose rows can be bad: a run fails at the first, or all of them are taken aside."""

    on_bad_rows: OnBadRows = Field(
        "fail", description="A row that cannot be read: fail, or quarantine (it goes to the table INPUT.quarantined, with line and reason)."
    )
    max_bad_rows: int | float | None = Field(
        None, ge=0, description="For quarantine: how many such rows there may be, or below 1 what share of all; with more the run fails."
    )

    @model_validator(mode="after")
    def _is_asked_for(self) -> Self:
        if self.max_bad_rows is not None and self.on_bad_rows == "fail":
            raise ValueError("max_bad_rows is for on_bad_rows: quarantine; where they fail the run, none may be bad")
        if isinstance(self.max_bad_rows, float) and self.max_bad_rows >= 1:
            raise ValueError("a share is below 1, and a count a whole number")
        return self

    @property
    def sifts(self) -> bool:
        """Whether bad rows are taken aside."""
        return self.on_bad_rows == "quarantine"

    def sieves(self, parallel: int) -> Sequence[Sieve]:
        """What takes each piece's bad rows aside, in the files' order; none where they fail the run."""
        raise NotImplementedError(f"{type(self).__name__} has no sieves")
