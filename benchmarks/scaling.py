"""What workers and data cost: python benchmarks/scaling.py [--small] [--runs N] [--only WORK ...].

Two works, the loans job and a linear scan of simulated genotypes, by 1, 2, 4 and 8 workers of one thread each on this machine (one is the
program itself): strong (the same data for all), weak (data grow with the workers), and more data for one. Each run is a process of its own;
all are taken in turn, and a median stands for each. Fitted is T = a + b D/p + c n: D the data, n the processes that are started, p how many
they are, or how many cores where those are fewer. How far off it is, is asked of each configuration by the curve of all the others.

Then, as a user would have it, these works and the traffic job run on more and more data in one results place each, with all cores: run.json
says what each run was expected to take, by those before it, and what it took. docs/scaling.md's figures are drawn from what is written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, python, timed, write_result
from benchmarks.scaling_data import BASE, SMALL, Data
from benchmarks.scaling_page import STRONG, draw
from pipeline.backend.threads import cores, started_with, worker_environment
from pipeline.plan.curve import Curve, Point, fitted, left_out, medians, worst

WORKERS = SIZES = (1, 2, 4, 8)
RUNS = 3
WORKS, USERS = ("loans", "scan"), ("loans", "scan", "traffic")


@dataclass(frozen=True)
class Trial:
    """A work on so many times the least data, by so many workers; `kind` says how data and workers are tied."""

    work: str
    kind: str
    size: int
    workers: int


def trials(work: str) -> list[Trial]:
    """Every configuration of a work, each once: four workers on four times the data are strong and weak."""
    weak = [Trial(work, "weak", workers, workers) for workers in WORKERS]
    strong = [Trial(work, "strong", STRONG, workers) for workers in WORKERS if workers != STRONG]
    return [*weak, *strong, *(Trial(work, "data", size, 1) for size in SIZES if size not in (1, STRONG))]


def run(arguments: Sequence[str], place: Path) -> dict[str, Any]:
    """What run.json says of one run: what was expected, and what it took."""
    command = python("-m", "pipeline.run", *arguments, "--quiet", "--fresh", "--debug", f"--out={place}")
    try:
        timed(command)
    except RuntimeError as error:  # eight workers may be too slow to start on a machine that does other things; a second time it is a fault
        print(error, flush=True)
        timed(command)
    record = json.loads((place / "current" / "run.json").read_text(encoding="utf-8"))
    return {"expected": record["expected"], "actual": record["actual"]}


def tried(data: Data, trial: Trial, place: Path) -> tuple[float, int]:
    """Seconds of a trial, and the processes that it started; the program itself has one thread, as its workers do."""
    cluster = f"--set=cluster={{kind: local, workers: {trial.workers}, threads: 1}}"
    with started_with(worker_environment(1)):
        actual = run([*data.arguments(trial.work, trial.size), cluster], place)["actual"]
    return float(actual["seconds"]), int(actual["processes"])


def scaled(data: Data, work: str, runs: int, scratch: Path) -> dict[str, Any]:
    """A work's configurations, its curve, and how far off that of the others is for each."""
    wanted, times = trials(work), dict[Trial, list[float]]()
    tried(data, wanted[0], scratch / "warm")
    points = list[Point]()
    for turn in range(runs):
        for trial in wanted:
            seconds, processes = tried(data, trial, scratch / f"{work}-{trial.workers}")
            times.setdefault(trial, []).append(round(seconds, 3))
            points.append(Point(trial.size, min(trial.workers, cores()), processes, seconds))
            print(f"{turn + 1}. {work}, {trial.kind}: {trial.size} times the data, {trial.workers} workers: {seconds:.2f} s", flush=True)
    curve, off = fitted(medians(points), 0.0, 0.0), left_out(points, 0.0, 0.0)
    rows = [{**vars(trial), "seconds": found, "fitted": round(at(curve, trial), 3)} for trial, found in times.items()]
    terms = {name: round(value, 4) for name, value in vars(curve).items()}
    most, mean = round(worst(off), 3), round(sum(abs(factor - 1) for factor in off) / len(off), 3)
    print(f"{work}: {terms}, left out one by one: {mean:.0%} off, at most {most:.0%}", flush=True)
    return {"work": work, "rows": rows, "curve": terms, "left_out_mean": mean, "left_out_worst": most, "stops_paying": stops(curve)}


def at(curve: Curve, trial: Trial) -> float:
    """What the curve says of a trial."""
    return curve.at(trial.size, min(trial.workers, cores()), trial.workers if trial.workers > 1 else 0)


def stops(curve: Curve) -> list[dict[str, Any]]:
    """By size, the number of workers that takes the least time on this machine, and, were each worker to bring a core, on many."""
    found = []
    for size in (1, 8, 64, 512):
        here = min(range(1, 65), key=lambda n: curve.at(size, min(n, cores()), n if n > 1 else 0))
        many = min(range(1, 1_025), key=lambda n: curve.at(size, n, n if n > 1 else 0))
        found.append({"size": size, "here": here, "with_a_core_each": many})
    return found


def foretold(data: Data, work: str, scratch: Path) -> list[dict[str, Any]]:
    """Runs on more and more data in one place: what run.json expected of each, and what it took."""
    rows, place = [], scratch / f"user-{work}"
    run([*data.arguments(work, 1)], scratch / "warm")
    for size in SIZES:
        found = run(data.arguments(work, size), place)
        row = {"work": work, "size": size, **{kind: {**found[kind]} for kind in ("expected", "actual")}}
        rows.append(row)
        print(
            f"{work}, {size} times the data: {found['actual']['of_expected'].get('seconds')} of the seconds that were expected", flush=True
        )
    return rows


def main() -> None:
    """Measure all of it, write one result file and draw the page's figures."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--small", action="store_true", help="little data, one run each: whether it runs; nothing is written")
    options.add_argument("--runs", type=int, default=RUNS)
    options.add_argument("--only", nargs="*", choices=USERS, default=USERS)
    options.add_argument("--draw", type=Path, help="draw the figures of a result file again, and run nothing")
    chosen = options.parse_args()
    if chosen.draw:
        draw(json.loads(chosen.draw.read_text(encoding="utf-8")), ROOT / "docs")
        return
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        data = Data(scratch, SMALL if chosen.small else BASE)
        works = [scaled(data, work, 1 if chosen.small else chosen.runs, scratch) for work in WORKS if work in chosen.only]
        users = [row for work in USERS if work in chosen.only for row in foretold(data, work, scratch)]
    if chosen.small:
        return
    about = {"load": round(os.getloadavg()[0], 1), "base": data.base, "as_a_user": users}
    draw(json.loads(write_result("scaling", works, about).read_text(encoding="utf-8")), ROOT / "docs")


if __name__ == "__main__":
    main()
