"""What the audit of aggregates costs: python benchmarks/audit.py [--runs N] [--loans FOLDER].

The loans job and aggregates of wide tables, with the audit and without it in turn, in this process; the order within a pair changes, so
that what the machine does meanwhile strikes both alike. `share` is the median of the pairs' ratios less 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, write_result
from pipeline.run import main as run
from pipeline.stage import Context
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table

ROWS, COLUMNS, PARTS = 2_000_000, 24, 8
FUNCTIONS = ("sum", "mean", "min", "max", "std")


@contextmanager
def unaudited() -> Iterator[None]:
    """No rows are watched."""
    with patch("pipeline.stages.relational._aggregates.audited.watched", lambda rows, *_: rows):
        yield


def wide(keys: int, *, ordered: bool) -> Callable[[], None]:
    """An aggregate of many columns by one key."""
    random = np.random.default_rng(1)
    key = random.integers(0, keys, ROWS)
    key = np.sort(key) if ordered else key
    frame = pl.DataFrame({"key": key, **{f"x{number}": random.normal(size=ROWS) for number in range(COLUMNS)}})
    parts = [Part(frame[start : start + ROWS // PARTS]) for start in range(0, ROWS, ROWS // PARTS)]
    compute = {
        f"{FUNCTIONS[number % len(FUNCTIONS)]}_{number}": f"{FUNCTIONS[number % len(FUNCTIONS)]}(x{number})" for number in range(COLUMNS)
    }
    stage, session = Aggregate.model_validate({"by": "key", "compute": compute}), Session()

    def work() -> None:
        table = Table.of(session, "given", parts, schema=Schema(frame.schema))
        stage.run({"rows": table}, Context("measured", 1, session)).tables[""].futures()

    return work


def loans(folder: Path, scratch: Path) -> Callable[[], None]:
    """The shipped loans job."""
    paths = [word for table in ("loans", "performance") for word in ("--set", f"inputs.{table}.path={folder / table}")]
    return command(ROOT / "jobs" / "loans.yaml", scratch, *paths)


def histories(folder: Path, scratch: Path) -> Callable[[], None]:
    """Its first stages, up to the table of each loan's months."""
    text = (ROOT / "jobs" / "loans.yaml").read_text(encoding="utf-8")
    stages = text[text.index("stages:\n") : text.index("  # A loan counts when it has valid rows")]
    head = f"job: histories\nresults: results\ninputs:\n  performance: {{format: parquet, path: {folder / 'performance'}}}\n"
    (scratch / "histories.yaml").write_text(f"{head}{stages}outputs:\n  history: {{from: history}}\n", encoding="utf-8")
    return command(scratch / "histories.yaml", scratch)


def command(job: Path, scratch: Path, *words: str) -> Callable[[], None]:
    """A job from the command line, in this process."""

    def work() -> None:
        if code := run([str(job), "--quiet", "--fresh", "--out", str(scratch / job.stem), *words]):
            raise RuntimeError(f"the job ended with {code}")

    return work


def seconds(work: Callable[[], None], *, audited: bool) -> float:
    """Of one go."""
    with nullcontext() if audited else unaudited():
        began = time.perf_counter()
        work()
        return time.perf_counter() - began


def compared(name: str, work: Callable[[], None], runs: int) -> dict[str, Any]:
    """Both ways in turn, after one go of each that does not count."""
    pairs = list[tuple[float, float]]()
    for number in range(runs + 1):
        first = number % 2 == 0
        a = seconds(work, audited=first)
        b = seconds(work, audited=not first)
        pairs.append((a, b) if first else (b, a))
    with_it, without = zip(*pairs[1:], strict=True)
    each = sorted(a / b - 1 for a, b in pairs[1:])
    quarter = len(each) // 4
    row = {
        "work": name,
        "audited_s": [round(value, 4) for value in with_it],
        "unaudited_s": [round(value, 4) for value in without],
        "share": round(statistics.median(each), 4),
        "share_middle_half": [round(each[quarter], 4), round(each[-1 - quarter], 4)],
        "ratio_of_least": round(min(with_it) / min(without) - 1, 4),
        "milliseconds": round(1000 * (statistics.median(with_it) - statistics.median(without)), 1),
    }
    shown = f"{name}: {statistics.median(without):.3f} s, audited {statistics.median(with_it):.3f} s, share {row['share']:+.2%}"
    print(f"{shown}, middle half {row['share_middle_half']}", flush=True)
    return row


def main() -> None:
    """Measure all of it and write benchmarks/results/audit-TIME.json."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--runs", type=int, default=20)
    options.add_argument("--loans", type=Path, help="a folder of make_loans.py, of a million loans, say")
    chosen = options.parse_args()
    rows = [
        compared("24 columns by 1,000 keys in any order", wide(1_000, ordered=False), chosen.runs),
        compared("24 columns by a hundred thousand keys in any order", wide(100_000, ordered=False), chosen.runs),
        compared("24 columns by a hundred thousand keys in order", wide(100_000, ordered=True), chosen.runs),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        if chosen.loans:
            rows.append(
                compared("the loans job up to its table of each loan's months", histories(chosen.loans, Path(scratch)), chosen.runs)
            )
            rows.append(compared("the loans job", loans(chosen.loans, Path(scratch)), max(3, chosen.runs // 5)))
    write_result("audit", rows, {"rows_of_wide_tables": ROWS, "load": round(os.getloadavg()[0], 1)})


if __name__ == "__main__":
    main()
