"""Random tables beside DuckDB: python benchmarks/differential.py [--tables N] [--workers N] [--only WORK ...] [--start SEED].

The comparisons of tests/differential, with other tables than theirs and many more: stages, chains of two to four of them, and files. Each
goes through one of four runs in turn (1, 2 or 7 parts, or between two workers of this process), and each answer is compared with DuckDB's
cell by cell; a stage that DuckDB does not have with that of a plain program. With `--workers 2` stages and chains go through 1, 2 or 7
parts on two worker processes instead. A row says how many tables and cells a work was given, how many DuckDB could not answer itself (an
overflow, which it refuses), and the differences. An interrupted run writes what it has.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import hypothesis
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, write_result
from pipeline.errors import PipelineError
from pipeline.tables.session import ClusterSession
from tests.differential.cases import RUNS, SEED, TALLY, Runs, check_all
from tests.differential.oracle import database
from tests.differential.works import WORKS, check
from tests.harness import worker_processes

TABLES = 10_000
ROUNDS = 10
LONGEST = 4_000  # characters of a difference
ASKED_TO_STOP = threading.Event()  # looked at between two tables: an interrupted query would be an error of its own


@dataclass
class Row:
    """What came of one work so far."""

    name: str
    seconds: float = 0.0
    tally: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def compare(self, tables: int, start: int, runs: Runs) -> None:
        """Draw so many more tables, each for one of the runs."""
        TALLY.clear()
        began = time.perf_counter()
        try:
            check_all(WORKS[self.name].values(), partial(self._check, runs), tables, start)
        finally:
            self.seconds += time.perf_counter() - began
            self.tally += TALLY

    def _check(self, runs: Runs, value: Any) -> None:
        if ASKED_TO_STOP.is_set():
            raise KeyboardInterrupt
        try:
            check(value, runs)
        except (AssertionError, PipelineError, pl.exceptions.PolarsError, duckdb.Error) as error:
            self.differences.append(f"{type(error).__name__}: {error}"[:LONGEST])
            print(f"{self.name}: {self.differences[-1]}", flush=True)

    def written(self) -> dict[str, Any]:
        """The row as the result has it."""
        return {"work": self.name, "seconds": round(self.seconds, 1), **self.tally, "differences": self.differences}


def compare(rows: list[Row], tables: int, start: int, runs: Runs) -> None:
    """Draw the tables in rounds of all works, so that each has had some when it is interrupted."""
    shares = sum(WORKS[row.name].share for row in rows)
    for number in range(ROUNDS):
        for row in rows:
            row.compare(-(-int(tables * WORKS[row.name].share / shares) // ROUNDS), start + number, runs)
        print(f"round {number + 1} of {ROUNDS}: {sum(row.tally['tables'] for row in rows):,} tables", flush=True)


def runs_of(session: ClusterSession | None) -> Runs:
    """The four runs of this process, or three numbers of parts on worker processes."""
    if session is None:
        return RUNS
    return {f"{parts} part{'s' * (parts > 1)} on {session.workers} workers": (session, parts) for parts in (1, 2, 7)}


@contextmanager
def closed_at_the_end() -> Iterator[None]:
    """Close the database of the comparisons, which DuckDB asks for."""
    try:
        yield
    finally:
        database().close()
        database.cache_clear()


def commit() -> str:
    """The commit that is checked out, with a plus where files differ from it."""
    known, changed = (
        subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    )
    return known + "+" * bool(changed)


def main() -> None:
    """Compare, print, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=TABLES, help="of all works together")
    parser.add_argument("--workers", type=int, metavar="N", help="so many worker processes, not this one; files are left out")
    parser.add_argument("--only", nargs="+", choices=WORKS, metavar="WORK")
    parser.add_argument("--start", type=int, default=SEED + 1, help="another one, other tables")
    options = parser.parse_args()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: ASKED_TO_STOP.set())
    about: dict[str, Any] = {"commit": commit(), "duckdb": duckdb.__version__, "hypothesis": hypothesis.__version__, "start": options.start}
    about |= {"workers": options.workers, "complete": False}
    rows = [Row(name) for name in options.only or WORKS if WORKS[name].runs or not options.workers]
    try:
        with closed_at_the_end(), worker_processes(options.workers, silent=True) if options.workers else nullcontext() as session:
            compare(rows, options.tables, options.start, runs_of(session))
        about["complete"] = True
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    finally:
        for what in ("tables", "cells", "stages", "chains"):
            about[what] = sum(row.tally[what] for row in rows)
        about["differences"] = sum(len(row.differences) for row in rows)
        write_result("differential", [row.written() for row in rows], about)
    sys.exit(bool(about["differences"]) or not about["complete"])


if __name__ == "__main__":
    main()
