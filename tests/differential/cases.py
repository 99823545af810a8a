"""One comparison: a stage, or a chain of them, with its tables, and the same said in DuckDB's SQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from zlib import crc32

import duckdb
import polars as pl
from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis import strategies as st

from pipeline.errors import PipelineError
from pipeline.stage import Stage
from pipeline.tables.session import Session
from pipeline.testing.examples import Between
from pipeline.testing.stages import run_stage
from tests.differential.chain import Chain, Given
from tests.differential.oracle import Plain, answer, assert_same
from tests.differential.stores import Store

Drawn = TypeVar("Drawn")
Runs = Mapping[str, tuple[Session, int]]
SEED = 20261122
TALLY: Counter[str] = Counter()  # of what the checks were given: tables, cells, and those that one of both could not answer
EXAMPLES = 8
BEYOND = re.compile(r"the result of .* is beyond")
LAZY = re.compile(r"\b(and|or|case|coalesce|if)\b|Chain")


@dataclass(frozen=True)
class Answers:
    """What DuckDB says of a case: the tables, and whether an error is due instead."""

    tables: Mapping[str, pl.DataFrame]
    fails: bool


@dataclass(frozen=True)
class Case:
    """A stage or a chain, its tables by role, and what it does as SQL on tables of these names; `fails` where an answer would be wrong.

    What DuckDB does not have is said as a plain program in the SQL's place.
    """

    work: Stage | Chain
    tables: Mapping[str, pl.DataFrame]
    sql: str | Plain
    ordered: bool = False
    fails: str = ""
    result: str = ""  # the table that `sql` is of
    also: Mapping[str, str | Plain] = field(default_factory=dict)  # SQL of other tables, `NAME.fitted` and the like
    stores: Mapping[str, Store] = field(default_factory=dict)  # how those tables of a chain are written that it reads from files
    apart: float = 1e-9  # how far a float may be from DuckDB's where it is near 0

    def check(self, runs: Runs) -> None:
        """Assert that every run gives what DuckDB answers, for as many rows as it has an answer for."""
        with TemporaryDirectory() as folder:
            given, answers = self._answered(Path(folder))
            TALLY["tables"] += 1
            TALLY["cells"] += len(runs) * sum(table.height * table.width for table in answers.tables.values())
            TALLY["stages"] += len(self.work.links) if isinstance(self.work, Chain) else 1
            TALLY["chains"] += isinstance(self.work, Chain)
            for what, (session, parts) in runs.items():
                try:
                    self._compare(given, answers, session, parts)
                except AssertionError as error:
                    raise AssertionError(f"{what}: {error}\n{self.work!r}\n{self.sql}\n{self.stores}") from error

    def _answered(self, folder: Path) -> tuple[Mapping[str, Given], Answers]:
        """The tables, with fewer rows where DuckDB itself fails by an overflow on all of them, and its answers; rejected if it has none."""
        for share in (1,) if self.stores else (1, 4, 16):  # the types of folders may follow from their rows
            tables = {name: table.head(-(-table.height // share)) for name, table in self.tables.items()}
            stored = {name: store.write(tables[name], folder / f"{name}-{share}") for name, store in self.stores.items()}
            theirs = tables | {name: files.sql for name, files in stored.items()}
            try:
                expected = {name: answer(sql, theirs) for name, sql in {self.result: self.sql, **self.also}.items()}
                return tables | stored, Answers(expected, bool(self.fails) and bool(answer(self.fails, theirs).item()))
            except (duckdb.OutOfRangeException, duckdb.ConversionException):
                continue
        TALLY["without an answer"] += 1
        return reject()

    def _compare(self, given: Mapping[str, Given], answers: Answers, session: Session, parts: int) -> None:
        try:
            found = self._run(given, parts, session)
        except PipelineError as error:
            if not answers.fails and not self._is_lazy(error):
                raise AssertionError(f"it fails: {error}") from error
            return
        assert not answers.fails, f"an error is due: {self.fails}"
        for name, table in answers.tables.items():
            assert_same(found[name], table, ordered=self.ordered and session.workers == 1, apart=self.apart)

    def _run(self, given: Mapping[str, Given], parts: int, session: Session) -> dict[str, pl.DataFrame]:
        if isinstance(self.work, Chain):
            return self.work.run(given, parts, session)
        return run_stage(self.work, {name: table for name, table in given.items() if isinstance(table, pl.DataFrame)}, parts, session)

    def _is_lazy(self, error: PipelineError) -> bool:
        """Whether it is refused by its size, or an overflow in a value that DuckDB did not compute, for it did not need it."""
        if "nested too deeply" in str(error):
            TALLY["too deep"] += 1
            return True
        overflow = BEYOND.search(str(error)) is not None and LAZY.search(repr(self.work)) is not None
        TALLY["overflow where DuckDB did not look"] += overflow
        return overflow


RUNS: Runs = {"1 part": (Session(), 1), "2 parts": (Session(), 2), "7 parts": (Session(), 7), "2 parts on two workers": (Between(), 2)}


OF_CHAINS: Runs = {**RUNS, "7 parts on two workers": (Between(), 7), "3 parts on two workers": (Between(), 3)}


def in_turn(runs: Runs, case: Case) -> Runs:
    """One of the runs, or of more for a chain, as the case has it: many tables in one run each find more than a few in all of them."""
    runs = OF_CHAINS if runs is RUNS and isinstance(case.work, Chain) else runs
    rows = [table.head(9).rows() for table in case.tables.values()]
    name = list(runs)[crc32(f"{case.sql.text if isinstance(case.sql, Plain) else case.sql}{rows}".encode()) % len(runs)]
    return {name: runs[name]}


def check_all(values: st.SearchStrategy[Drawn], check: Callable[[Drawn], None], examples: int = EXAMPLES, start: int = SEED) -> None:
    """Check so many random values, the same of one start, each drawn by itself: in a row hypothesis makes most of them of earlier ones."""
    for number in range(examples):
        _check_one(values, check, start * 1_000_003 + number)


def _check_one(values: st.SearchStrategy[Drawn], check: Callable[[Drawn], None], start: int) -> None:
    is_first = [True]

    @seed(start)
    @settings(
        max_examples=2,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(st.integers(0, 2**64), st.data())
    def check_one(_number: int, data: st.DataObject) -> None:
        if not is_first:  # hypothesis begins with the simplest value, always the same one
            check(data.draw(values))
        is_first.clear()

    check_one()


def check_cases(cases: st.SearchStrategy[Case], examples: int = EXAMPLES, start: int = SEED, runs: Runs = RUNS) -> None:
    """Check so many random cases, each in one of the runs."""
    check_all(cases, lambda case: case.check(in_turn(runs, case)), examples, start)
