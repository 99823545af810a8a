"""One comparison: a stage with its tables, and the same said in DuckDB's SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import duckdb
import polars as pl
from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis import strategies as st

from pipeline.errors import PipelineError
from pipeline.stage import Stage
from pipeline.tables.session import Session
from pipeline.testing.examples import Between
from pipeline.testing.stages import run_stage
from tests.differential.oracle import answer, assert_same

Drawn = TypeVar("Drawn")
SEED = 20261122
TALLY: Counter[str] = Counter()  # of what the checks were given: tables compared, and those that DuckDB could not answer
EXAMPLES = 8


@dataclass(frozen=True)
class Case:
    """A stage, its tables by role, and what it does as SQL on tables of these names; `fails` where an answer would be wrong."""

    stage: Stage
    tables: Mapping[str, pl.DataFrame]
    sql: str
    ordered: bool = False
    fails: str = ""
    also: Mapping[str, str] = field(default_factory=dict)  # SQL of the stage's other tables, `NAME.fitted` and the like

    def check(self, runs: Mapping[str, tuple[Session, int]] | None = None) -> None:
        """Assert that every run gives what DuckDB answers; an overflow, on which DuckDB itself fails, is left out."""
        try:
            expected = {name: answer(sql, self.tables) for name, sql in {"": self.sql, **self.also}.items()}
            fails = bool(self.fails) and bool(answer(self.fails, self.tables).item())
        except (duckdb.OutOfRangeException, duckdb.ConversionException):
            TALLY["without an answer"] += 1
            reject()
        TALLY["compared"] += 1
        for what, (session, parts) in (runs or RUNS).items():
            try:
                self._compare(expected, fails, session, parts)
            except AssertionError as error:
                raise AssertionError(f"{what}: {error}\n{self.stage!r}\n{self.sql}") from error

    def _compare(self, expected: Mapping[str, pl.DataFrame], fails: bool, session: Session, parts: int) -> None:
        try:
            found = run_stage(self.stage, self.tables, parts, session)
        except PipelineError as error:
            if not fails:
                raise AssertionError(f"it fails: {error}") from error
            return
        assert not fails, f"an error is due: {self.fails}"
        for name, table in expected.items():
            assert_same(found[name], table, ordered=self.ordered and session.workers == 1)


RUNS = {"1 part": (Session(), 1), "2 parts": (Session(), 2), "7 parts": (Session(), 7), "2 parts on two workers": (Between(), 2)}


def check_all(
    values: st.SearchStrategy[Drawn], check: Callable[[Drawn], None], examples: int = EXAMPLES, start: int = SEED, *, shrink: bool = True
) -> None:
    """Check so many random values, the same of one start; shows the smallest that fails, if it may `shrink`."""

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, *([Phase.shrink] if shrink else [])),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(values)
    def check_one(value: Drawn) -> None:
        check(value)

    check_one()
