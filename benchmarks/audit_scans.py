"""What the audit of a scan costs: python benchmarks/audit_scans.py [--runs N] [--data DIR].

Scans of a simulated cohort of 2,500 people and 80,000 variants (data/make_cohort.py), from Parquet, each with its audit and with none, in
turn, in one process that has run the job before. `share` is what the audit took of a run's processor seconds, by the clock of the threads
that audit; `beside` what runs with it took more than runs without, which is within what one run differs from the next.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cohort import Cohort
from benchmarks.harness import write_result
from pipeline.api import load
from pipeline.stages.genomics._audited import Audit

PEOPLE, VARIANTS = 2_500, 80_000
COVARIATES = [f"c{i}" for i in range(1, 11)]
WORKS: dict[str, dict[str, Any]] = {
    "linear, one trait": {"use": "linear_gwas", "traits": ["y1"]},
    "linear, 100 traits": {"use": "linear_gwas", "traits": [f"y{i}" for i in range(1, 101)]},
    "logistic": {"use": "logistic_gwas", "traits": ["case_30"]},
}


def job(cohort: Cohort, name: str, place: Path) -> Path:
    """The job file of a work."""
    stage = {"from": {"genotypes": "calls", "samples": "sheet"}, "as": "gwas", "covariates": COVARIATES, **WORKS[name]}
    path = place / f"{name.replace(', ', '-').replace(' ', '-')}.yaml"
    path.write_text(
        f"job: audit\nresults: {path.with_suffix('')}\nreport: false\ninputs:\n"
        f"  calls: {{format: parquet, path: {cohort.parquet('cohort')}}}\n  sheet: {{format: csv, path: {cohort.sheet}}}\n"
        f"stages: {[stage]}\noutputs: {{gwas: {{from: gwas}}}}\n",
        encoding="utf-8",
    )
    return path


class Clock:
    """The audit, and the processor seconds that its threads gave it."""

    def __init__(self, audited: bool) -> None:
        self.audited, self.spent = audited, list[float]()
        self.counts = Audit.counts

    def __call__(self, *given: Any) -> dict[str, int]:
        """The audit's counts, or none where it is off."""
        began = time.thread_time()
        found = self.counts(*given) if self.audited else {}
        self.spent.append(time.thread_time() - began)
        return found


def spent(path: Path, *, audited: bool) -> tuple[float, float, int]:
    """Processor seconds of one run, those of its audit, and the results that were computed again."""
    clock, began = Clock(audited), time.process_time()
    with patch.object(Audit, "counts", lambda *given: clock(*given)):
        run = load(path).run(fresh=True)
    return time.process_time() - began, sum(clock.spent), run.record["stages"]["gwas"]["counts"].get("audited", 0)


def measured(name: str, path: Path, runs: int) -> dict[str, Any]:
    """One work with and without, in turn, after one run of each that does not count."""
    pairs = [(spent(path, audited=True), spent(path, audited=False)) for _ in range(runs + 1)][1:]
    ours, without = [one for one, _ in pairs], [round(other[0], 3) for _, other in pairs]
    seconds, shares = [round(one[0], 3) for one in ours], [round(one[1] / one[0], 4) for one in ours]
    share, beside = statistics.median(shares), round(statistics.median(seconds) / statistics.median(without) - 1, 4)
    print(f"{name}: {share:.2%} of {statistics.median(seconds):.2f} s, {ours[0][2]} results; beside {beside:+.1%}", flush=True)
    spreads = {"share_spread": [min(shares), max(shares)], "beside": beside}
    return {"work": name, "share": share, **spreads, "results": ours[0][2], "with_s": seconds, "without_s": without}


def main() -> None:
    """Run all works and write one result file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=9, help="counted runs of each side")
    options.add_argument("--data", type=Path, help="where the cohort lies, or is made")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        cohort = Cohort(chosen.data or Path(scratch) / "cohort", PEOPLE, VARIANTS)
        rows = [measured(name, job(cohort, name, Path(scratch)), chosen.runs) for name in WORKS]
    write_result("audit_scans", rows)


if __name__ == "__main__":
    main()
