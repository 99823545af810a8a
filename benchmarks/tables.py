"""Whole jobs on tables beside what experts write by hand: python benchmarks/tables.py --data DIR [--only WORK ...] [--runs N] [--small].

Whole processes in turn, ours with record, report and manifest; wall and processor seconds and the peak memory of each; what came out is
compared cell by cell. Data that DIR does not have are made there. Peers that this Python lacks (pandas, Dask DataFrame, PySpark with Java
17: benchmarks/peers/requirements.txt) run by --peers-python PATH; --peers names some alone. Of PySpark the seconds are of all, processor
seconds and memory of its Python process alone: nobody waits for its Java.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import Timing, timed, write_result
from benchmarks.same_tables import differences
from benchmarks.table_works import WORKS, Work

OURS = "ours"
QUICK = ("polars", "duckdb")  # of which the quicker one is the best
IN_THIS_PYTHON = ("polars", "duckdb")


def commands(work: Work, data: Path, scratch: Path, chosen: argparse.Namespace) -> dict[str, list[str]]:
    """What is run in turn."""
    peers = [peer for peer in work.peers if chosen.peers is None or peer in chosen.peers]
    interpreters = {peer: sys.executable if peer in IN_THIS_PYTHON else chosen.peers_python for peer in peers}
    wanted = {peer: work.peer_command(peer, data, scratch / peer, python) for peer, python in interpreters.items() if python}
    return {OURS: work.our_command(data, scratch / OURS), **wanted}


def in_turn(todo: Mapping[str, Sequence[str]], scratch: Path, runs: int) -> dict[str, list[Timing]]:
    """Every command so many times in turn, after once that does not count; results of the last time stay."""
    found: dict[str, list[Timing]] = {name: [] for name in todo}
    for number in range(runs + 1):
        for name, command in todo.items():
            shutil.rmtree(scratch / name, ignore_errors=True)
            took = timed(command)
            found[name] += [took] if number else []
    return found


def compared(work: Work, name: str, found: Mapping[str, Sequence[Timing]]) -> list[dict[str, Any]]:
    """A row a peer: seconds, memory and the multiples of its time that ours took, each run beside the peer's next to it."""
    rows = []
    for peer, theirs in found.items():
        if peer != OURS:
            rows.append({"work": name, "peer": peer, **beside(found[OURS], theirs), "limit": work.limits.get(peer)})
    quick = [row for row in rows if row["peer"] in QUICK]
    if work.best is not None and quick:
        best = max(quick, key=lambda row: float(row["multiple"]))
        rows.append({**best, "peer": f"best of {', '.join(str(row['peer']) for row in quick)}: {best['peer']}", "limit": work.best})
    return rows


def beside(ours: Sequence[Timing], theirs: Sequence[Timing]) -> dict[str, Any]:
    """The numbers of both."""
    row: dict[str, Any] = {}
    for who, runs in ((OURS, ours), ("peer", theirs)):
        row[f"{who}_s"] = [round(run.seconds, 3) for run in runs]
        row[f"{who}_cpu_s"] = [round(run.cpu_seconds, 3) for run in runs]
        row[f"{who}_peak_mb"] = [round(run.peak_mb) for run in runs]
    each = [a.seconds / b.seconds for a, b in zip(ours, theirs, strict=True)]
    row["multiple"] = round(median(row["ours_s"]) / median(row["peer_s"]), 3)
    row["multiple_spread"] = [round(min(each), 3), round(max(each), 3)]
    row["memory_multiple"] = round(median(row["ours_peak_mb"]) / median(row["peer_peak_mb"]), 3)
    return row


def measured(name: str, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """One work, its data made if need be."""
    work = WORKS[name]
    size = work.small if chosen.small else work.size
    data = chosen.data / (f"small-{work.data}" if chosen.small else work.data)
    if not data.exists():
        work.make(data, size)
    with tempfile.TemporaryDirectory(dir=chosen.data) as place:
        scratch = Path(place)
        todo = commands(work, data, scratch, chosen)
        found = in_turn(todo, scratch, chosen.runs)
        rows = compared(work, name, found)
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # a child's peak counts what this process held when it was started
            ours = scratch / OURS / "current"
            unlike = {peer: apart.submit(differences, ours, scratch / peer, work.tables, work.relative) for peer in todo if peer != OURS}
    for row in rows:
        row["differences"] = unlike[row["peer"]].result() if row["peer"] in unlike else []
        print(told(row), flush=True)
    return rows


def told(row: Mapping[str, Any]) -> str:
    """A row in a line."""
    limit = f", at most {row['limit']}" if row["limit"] else ""
    times = f"{median(row['ours_s']):.2f} s ({median(row['ours_cpu_s']):.2f} s of processors, {median(row['ours_peak_mb']):,.0f} MB)"
    theirs = f"{median(row['peer_s']):.2f} s ({median(row['peer_cpu_s']):.2f}, {median(row['peer_peak_mb']):,.0f} MB)"
    unlike = f"; NOT THE SAME: {'; '.join(row['differences'])}" if row["differences"] else ""
    low, high = row["multiple_spread"]
    return f"{row['work']}: ours {times}, {row['peer']} {theirs}: {row['multiple']:.2f} ({low:.2f} to {high:.2f}{limit}){unlike}"


def main() -> None:
    """Measure the works asked for and write one result file; the exit code is 1 where cells differ."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True, help="folder for data and scratch files")
    options.add_argument("--only", nargs="+", choices=list(WORKS), help="these works alone")
    options.add_argument("--peers", nargs="+", help="these peers alone")
    options.add_argument("--peers-python", help="a Python that has pandas, Dask DataFrame and PySpark")
    options.add_argument("--runs", type=int, default=5, help="counted runs of each side")
    options.add_argument("--small", action="store_true", help="little data: to see that all of it runs; no result file")
    chosen = options.parse_args()
    chosen.data.mkdir(parents=True, exist_ok=True)
    rows = [row for name in chosen.only or WORKS for row in measured(name, chosen)]
    if not chosen.small:
        write_result("tables", rows)
    sys.exit(any(row["differences"] for row in rows))


if __name__ == "__main__":
    main()
