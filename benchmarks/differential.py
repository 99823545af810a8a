"""Random tables through every stage beside DuckDB: python benchmarks/differential.py [--tables N] [--only STAGE ...] [--start SEED].

The comparisons of tests/differential, with other tables than theirs and many more: every table goes through its stage in 1, 2 and 7 parts
and as between two workers, and each answer is compared with DuckDB's cell by cell. A row says how many tables a stage was given, how many
of them DuckDB could not answer itself (an overflow, which it refuses), and the smallest difference found, '' where there was none.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import write_result
from tests.differential.cases import SEED, TALLY, Case, check_all
from tests.differential.oracle import database
from tests.differential.stages import STAGES

TABLES = 10_000


def compared(name: str, tables: int, start: int) -> dict[str, Any]:
    """One stage's row: so many tables, and the smallest that gives another answer."""
    TALLY.clear()
    began, difference = time.perf_counter(), ""
    try:
        check_all(STAGES[name](), Case.check, tables, start)
    except AssertionError as error:
        difference = str(error)
    row = {"stage": name, "seconds": round(time.perf_counter() - began, 1), **TALLY, "difference": difference}
    print(f"{name}: {dict(TALLY)}, {row['seconds']} s{difference and ': ' + difference}", flush=True)
    return row


@contextmanager
def closed_at_the_end() -> Iterator[None]:
    """Close the database of the comparisons, which DuckDB asks for."""
    try:
        yield
    finally:
        database().close()
        database.cache_clear()


def main() -> None:
    """Compare, print, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=TABLES, help="of all stages together")
    parser.add_argument("--only", nargs="+", choices=STAGES, default=list(STAGES), metavar="STAGE")
    parser.add_argument("--start", type=int, default=SEED + 1, help="another one, other tables")
    options = parser.parse_args()
    with closed_at_the_end():
        rows = [compared(name, -(-options.tables // len(options.only)), options.start) for name in options.only]
    about = {"duckdb": duckdb.__version__, "start": options.start, "tables": sum(row["compared"] for row in rows)}
    write_result("differential", rows, about)
    sys.exit(any(row["difference"] for row in rows))


if __name__ == "__main__":
    main()
