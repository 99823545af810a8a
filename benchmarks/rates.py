"""What stages take, for jobs that have not run before: python benchmarks/rates.py [--only WORK ...]; writes pipeline/plan/rates.json.

Each shipped job that needs no other's results runs at one or two sizes: once that does not count (numba compiles), as it is, and with every
table held (counts: all), which gives each stage's seconds and the bytes that it read and gave. What all stages take together, and what any
run takes, is fitted to the runs as they are. How far off rates are is how far off those of the other jobs are for each.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, cpu_name, python, timed
from pipeline.api import load
from pipeline.backend.threads import cores
from pipeline.plan.curve import least_squares
from pipeline.plan.plan import Plan
from pipeline.plan.rates import FILE, GB, Rate, Rated, Rates, by_rates, most_bytes, short_work, summed

LEAST_BYTES = 100_000  # of what a stage reads: below it a task's own cost is all there is to see
LOANS, TRAFFIC, TPCH = 200_000, 500_000, 0.03
WORKERS, TIMES = 2, 20


@dataclass(frozen=True)
class Work:
    """A job, the changes that give it other data, and the command that makes these."""

    job: str
    changes: dict[str, str]
    make: Sequence[str] = ()


@dataclass(frozen=True)
class Seen:
    """A work's plan, run.json of the run as it is, and that of the one with every table held."""

    job: str
    plan: Plan
    usual: dict[str, Any]
    held: dict[str, Any]

    def tables(self) -> dict[str, float]:
        """Bytes of every table; one that was never by itself (a choice of rows, say) has those of what it is made of."""
        found = {name: float(account["bytes"] or 0) for name, account in self.held["inputs"].items()}
        for stage in self.plan.stages:
            read = sum(found[table.partition(".")[0]] for table in stage.spec.inputs.values())
            found[stage.spec.name] = float(self.held["stages"][stage.spec.name]["bytes"] or read)
        return found


def works(scratch: Path) -> dict[str, Work]:
    """By name; large ones' data lie in the folder."""
    loans, traffic = scratch / "loans", scratch / "traffic"
    small = {job: Work(job, {}) for job in ("loans", "traffic", "market", "recommendation", "groups", "genomics", "tpch")}
    large = {
        "loans_large": Work(
            "loans",
            {f"inputs.{name}.path": f"{loans}/{name}" for name in ("loans", "performance")},
            ("data/make_loans.py", "--scale", str(LOANS), "--out", str(loans)),
        ),
        "traffic_large": Work(
            "traffic",
            {"inputs.readings.path": f"{traffic}/readings", "inputs.holidays.path": f"{traffic}/holidays.csv"},
            ("data/make_traffic.py", "--readings", str(TRAFFIC), "--out", str(traffic)),
        ),
        "tpch_large": Work(
            "tpch",
            {f"inputs.{path.stem}.path": f"{scratch}/tpch/{path.name}" for path in (ROOT / "data/tpch").glob("*.parquet")},
            ("data/make_tpch.py", "--scale", str(TPCH), "--out", str(scratch / "tpch")),
        ),
    }
    return {**small, **large}


def seen(name: str, work: Work, scratch: Path) -> Seen:
    """Run a work three times."""
    if work.make:
        timed(python(*work.make))
    place = scratch / "results" / name
    sets = [f"--set={key}={value}" for key, value in work.changes.items()]
    command = python("-m", "pipeline.run", f"jobs/{work.job}.yaml", "--backend", "cpu", "--quiet", "--fresh", "--out", str(place), *sets)
    timed(command)
    found = []
    for more in ([], ["--set=counts=all"]):
        timed([*command, *more])
        found.append(json.loads((place / "current" / "run.json").read_text(encoding="utf-8")))
    plan = load(f"jobs/{work.job}.yaml", **work.changes, backend="cpu", results=str(place)).plan()
    print(f"{name}: {found[0]['actual']['seconds']:.1f} s, held {found[1]['actual']['seconds']:.1f} s", flush=True)
    return Seen(work.job, plan, *found)


def rates_of(all_seen: Sequence[Seen], opening: float, process: float) -> Rates:
    """The rates that these works show."""
    formats, stages = dict[str, list[Rate]](), dict[str, list[Rate]]()
    for one in all_seen:
        tables, sizes = one.tables(), one.held["actual"]["input_bytes"]
        for name, account in one.held["inputs"].items():
            _note(formats, one.plan.job.inputs[name].format, (sizes[name], tables[name]), account["seconds"])
        for stage in one.plan.stages:
            read = sum(tables[table.partition(".")[0]] for table in stage.spec.inputs.values())
            account = one.held["stages"][stage.spec.name]
            _note(stages, stage.spec.use, (read, tables[stage.spec.name]), account["seconds"])
    by_format, by_stage = ({name: _middle(found) for name, found in kind.items()} for kind in (formats, stages))
    bare = Rates(by_format, by_stage, opening, 0.0, 0.0, process, 1.0, 0.0, 0.0, 1.0, 1.0, f"{cores()} cores of {cpu_name()}", 1.0)
    return _together(all_seen, bare)


def _note(found: dict[str, list[Rate]], name: str, sizes: tuple[float, float], seconds: float) -> None:
    """A rate; of what is small, its bytes alone."""
    read, gave = sizes
    if read:
        found.setdefault(name, []).append(Rate(seconds / read * GB if read >= LEAST_BYTES else math.nan, gave / read))


def _middle(found: Sequence[Rate]) -> Rate:
    """The middle one of each; a stage that only saw little data has no seconds that count."""
    seconds = [rate.seconds for rate in found if not math.isnan(rate.seconds)]
    return Rate(round(median(seconds), 3) if seconds else 0.0, round(median(rate.gives for rate in found), 4))


def _together(all_seen: Sequence[Seen], bare: Rates) -> Rates:
    """The rates with what runs take of them, by least squares of relative errors: opening is known, none is negative."""
    rows, memory = [], []
    for one in all_seen:
        sums = summed(one.plan, bare)
        if isinstance(sums, str):  # a stage of no other job
            continue
        actual = one.usual["actual"]
        rest = max(0.0, actual["seconds"] - actual["opening_seconds"])
        rows.append(np.array([1.0, len(one.plan.stages), sum(sums[0].values()) / actual["at_once"]]) / rest)
        memory.append(np.array([1.0, most_bytes(sums[1])]) / actual["memory_bytes"])
    fixed, stage, of_sum = least_squares(np.array(rows), np.ones(len(rows)))
    base, of_bytes = least_squares(np.array(memory), np.ones(len(memory)))
    fixed, stage, of_sum, base, of_bytes = (float(f"{value:.4g}") for value in (fixed, stage, of_sum, base, of_bytes))
    return replace(bare, fixed=fixed, stage=stage, of_sum=of_sum, base=base, memory_of_bytes=of_bytes)


def off(all_seen: Sequence[Seen], rates: Rates) -> list[dict[str, Any]]:
    """How far off the rates of the other works are for each, as factors; a stage that only its job has keeps its own."""
    found = []
    for one in all_seen:
        others = rates_of([other for other in all_seen if other.job != one.job], rates.opening, rates.process)
        filled = replace(others, formats={**rates.formats, **others.formats}, stages={**rates.stages, **others.stages})
        actual = one.usual["actual"]
        rated = by_rates(one.plan, actual["at_once"], 0, filled, 1.0)
        assert isinstance(rated, Rated), rated
        row = {"job": one.job, "seconds": actual["seconds"] / rated.seconds.value, "memory": actual["memory_bytes"] / rated.memory.value}
        found.append(row)
        print({name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()}, flush=True)
    return found


def a_process(scratch: Path) -> float:
    """Seconds that one more worker process takes to open, by a small job on two and on four."""
    took = {}
    for workers in (WORKERS, 2 * WORKERS):
        place, cluster = scratch / f"workers-{workers}", f"{{kind: local, workers: {workers}, threads: 1}}"
        openings = []
        for _ in range(3):
            timed(python("-m", "pipeline.run", "jobs/groups.yaml", "--quiet", "--fresh", "--out", str(place), f"--set=cluster={cluster}"))
            openings.append(json.loads((place / "current" / "run.json").read_text(encoding="utf-8"))["actual"]["opening_seconds"])
        took[workers] = median(openings)
    return max(0.0, float(took[2 * WORKERS] - took[WORKERS]) / WORKERS)


def main() -> None:
    """Measure all of it and write the file."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--only", nargs="*", help="works to run; nothing is written")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        all_seen = [seen(name, work, scratch) for name, work in works(scratch).items() if not chosen.only or name in chosen.only]
        process = round(a_process(scratch), 3)
    opening = median(one.usual["actual"]["opening_seconds"] for one in all_seen)
    rates = replace(rates_of(all_seen, opening, process), short_work=round(median(short_work() for _ in range(TIMES)), 6))
    factors = off(all_seen, rates)
    worst = {name: max(max(row[name], 1 / row[name]) for row in factors) for name in ("seconds", "memory")}
    rates = replace(rates, off_by=round(worst["seconds"], 1), memory_off_by=round(worst["memory"], 1))
    if not chosen.only:
        FILE.write_text(json.dumps(rates.document(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(FILE.relative_to(ROOT))


if __name__ == "__main__":
    main()
