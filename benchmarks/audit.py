"""What the audit of aggregates costs: python benchmarks/audit.py [--runs N] [--loans FOLDER].

Aggregates of wide tables and of the loans job, with the audit and without it in turn, in this process; the order in a pair changes, so
that what the machine does meanwhile strikes both alike. `share` is the median of the pairs' ratios less 1, of seconds on the clock and of
those that threads computed; `own` is what the audit's own functions computed, which a busy machine hardly changes.
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
from threading import Lock
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, write_result
from pipeline.run import main as run
from pipeline.stage import Context
from pipeline.stages.relational._aggregates.audited import Audit
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.stretch import Stretch
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


class Own:
    """Seconds that the audit's own functions compute, all threads together."""

    def __init__(self) -> None:
        self.seconds, self._lock = 0.0, Lock()

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time counts."""

        def counted(*given: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*given)
            finally:
                with self._lock:
                    self.seconds += time.thread_time() - began

        return counted


class Cost(NamedTuple):
    """Of one go: seconds, seconds that all threads computed, and those of them in the audit's own functions."""

    wall: float
    cpu: float
    own: float


def cost(work: Callable[[], None], *, audited: bool) -> Cost:
    """Of one go."""
    own = Own()
    seen = patch.object(Stretch, "see", own.timed(Stretch.see)), patch.object(Audit, "counts", own.timed(Audit.counts))
    with seen[0], seen[1], nullcontext() if audited else unaudited():
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        return Cost(time.perf_counter() - wall, time.process_time() - cpu, own.seconds)


def compared(name: str, work: Callable[[], None], runs: int) -> dict[str, Any]:
    """Both ways in turn, after one go of each that does not count."""
    pairs = list[tuple[Cost, Cost]]()
    for number in range(runs + 1):
        first = number % 2 == 0
        a = cost(work, audited=first)
        b = cost(work, audited=not first)
        pairs.append((a, b) if first else (b, a))
    with_it, without = zip(*pairs[1:], strict=True)
    row: dict[str, Any] = {"work": name}
    for what in ("wall", "cpu"):
        both = [(getattr(a, what), getattr(b, what)) for a, b in pairs[1:]]
        each = sorted(a / b - 1 for a, b in both)
        row[what] = {
            "audited_s": [round(a, 3) for a, _ in both],
            "unaudited_s": [round(b, 3) for _, b in both],
            "share": round(statistics.median(each), 4),
            "share_spread": [round(each[0], 4), round(each[-1], 4)],
            "share_of_least": round(min(a for a, _ in both) / min(b for _, b in both) - 1, 4),
        }
    own = sorted(each.own for each in with_it)
    row["own_ms"] = [round(1000 * seconds, 1) for seconds in own]
    row["own_share_of_cpu"] = round(statistics.median(own) / statistics.median(each.cpu for each in without), 4)
    print(
        f"{name}: own {row['own_ms']} ms, {row['own_share_of_cpu']:.2%}; CPU {row['cpu']['share']:+.1%} {row['cpu']['share_spread']}",
        flush=True,
    )
    return row


def main() -> None:
    """Measure all of it and write benchmarks/results/audit-TIME.json."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--runs", type=int, default=20)
    options.add_argument("--loans", type=Path, help="a folder of make_loans.py, of a million loans, say")
    options.add_argument("--whole", action="store_true", help="the whole loans job, too")
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
        if chosen.loans and chosen.whole:
            rows.append(compared("the loans job", loans(chosen.loans, Path(scratch)), max(2, chosen.runs // 3)))
    write_result("audit", rows, {"rows_of_wide_tables": ROWS, "load": round(os.getloadavg()[0], 1)})


if __name__ == "__main__":
    main()
