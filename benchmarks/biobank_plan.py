"""What a biobank's whole-genome regression and scan would take: python benchmarks/biobank_plan.py --data DIR [--small].

Both steps run here on cohorts of several sizes, numbers of traits and workers. Processor seconds are fitted by the terms that the method
has (least squares of relative errors, none negative): calls that are decoded and multiplied (people x variants), factorizations (variants),
products with traits, level 1 (people x its predictors squared, and their number cubed, for each trait). A cohort that is larger than all
others, C of 100,000 people, is left out of the fit and foretold by it. Then the fit is asked for 500,000 people, 500,000 variants of the
model, 10 million that are tested, 50 traits, on 1, 8 and 64 machines of two cores like this one and of 64: work divides by blocks, level 1
by traits, what each process starts with does not. Nothing was measured on a GPU: its lines are what its data sheet allows at a share of it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.biobank import keep_predictions
from benchmarks.biobank_cohort import BLOCK_SIZE, Cohort, Work
from benchmarks.harness import timed, write_result

LEVELS = 5  # ridge parameters, and predictors of a block
TERMS = {
    1: ("start", "people x variants", "variants", "people x variants x traits", "people x predictors^2 x traits", "predictors^3 x traits"),
    2: ("start", "people x variants", "people x variants x traits", "variants x traits", "people x traits"),
}
SIZES = ((2_500, 10_000), (5_000, 10_000), (5_000, 40_000), (10_000, 20_000), (20_000, 20_000), (20_000, 50_000))
SMALL = ((500, 2_200), (800, 2_200), (800, 4_400))
LARGEST = (100_000, 20_000)
ASKED = {1: (500_000, 500_000, 50), 2: (500_000, 10_000_000, 50)}
MACHINES, CORES = (1, 8, 64), (2, 64)
H200_FLOPS, H200_SHARE = 60e12, 0.3
"""float32 outside of tensor cores by its data sheet, and the share of it that is taken to be had: a guess."""


@dataclass(frozen=True)
class Run:
    """One run: its step and size, and what it took."""

    step: int
    people: int
    variants: int
    traits: int
    workers: int
    seconds: float
    cpu_s: float
    peak_mb: float


def terms(step: int, people: int, variants: int, traits: int) -> list[float]:
    """The sizes that a step's processor seconds are made of, in the order of TERMS."""
    predictors = LEVELS * variants / BLOCK_SIZE
    if step == 1:
        level_1 = [people * predictors**2 * traits, predictors**3 * traits]
        return [1.0, people * variants, variants, people * variants * traits, *level_1]
    return [1.0, people * variants, people * variants * traits, variants * traits, people * traits]


def fitted(runs: Sequence[Run]) -> Any:
    """Seconds a unit of each term, none negative, by least squares of relative errors."""
    design = np.array([terms(run.step, run.people, run.variants, run.traits) for run in runs])
    took = np.array([run.cpu_s for run in runs])
    scale = design.max(axis=0)
    found, _ = nnls(design / scale / took[:, None], np.ones(len(runs)))
    return found / scale


def measured(cohorts: Path, sizes: Sequence[tuple[int, int]], traits: Sequence[int], workers: Sequence[int]) -> list[Run]:
    """Both steps of every size, number of traits and of workers (more than one of the last size alone)."""
    runs = list[Run]()
    with tempfile.TemporaryDirectory(dir=cohorts) as scratch:
        for size in sizes:
            cohort = Cohort(cohorts, *size)
            for count, number in ((a, b) for a in traits for b in (workers if size == sizes[-1] else workers[:1])):
                for step in (1, 2):
                    work = Work((step,), count)
                    took = timed(cohort.ours(work, Path(scratch), workers=number))
                    if step == 1:
                        keep_predictions(Path(scratch), work)
                    runs.append(Run(step, *size, count, number, round(took.seconds, 2), round(took.cpu_seconds, 2), round(took.peak_mb)))
                    print(runs[-1], flush=True)
    return runs


def planned(step: int, rates: Any) -> list[dict[str, Any]]:
    """What the asked cohort would take on so many machines: seconds, if cores were the same."""
    people, variants, traits = ASKED[step]
    shares = np.array(terms(step, people, variants, traits)) * rates
    rows = [
        {"step": step, "machines": machines, "cores": cores, "hours": round((shares[0] + shares[1:].sum() / (machines * cores)) / 3600, 2)}
        for machines in MACHINES
        for cores in CORES
    ]
    level_1 = people * (LEVELS * variants / BLOCK_SIZE) ** 2 * traits
    flops = 2 * (people * variants * (BLOCK_SIZE + LEVELS * traits) + level_1) if step == 1 else 2 * people * variants * (traits + 4)
    seconds = flops / (H200_FLOPS * H200_SHARE)
    guess = [{"step": step, "h200": cards, "hours": round(seconds / cards / 3600, 3), "by": "data sheet, not measured"} for cards in (1, 8)]
    return [*rows, *guess]


def main() -> None:
    """Measure, fit, foretell the largest cohort, plan, and write benchmarks/results/biobank_plan-TIME.json."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True, help="folder for the cohorts")
    options.add_argument("--small", action="store_true", help="small cohorts, to see whether it runs")
    chosen = options.parse_args()
    runs = measured(chosen.data, SMALL if chosen.small else SIZES, (1, 50), (1, 2))
    largest = (1_600, 4_400) if chosen.small else LARGEST
    last = measured(chosen.data, [largest], (1,), (1,))
    rows: list[Mapping[str, Any]] = [asdict(run) for run in (*runs, *last)]
    about = dict[str, Any]()
    for step, names in TERMS.items():
        rates = fitted([run for run in runs if run.step == step and run.workers == 1])
        (held,) = [run for run in last if run.step == step]
        foretold = float(np.dot(rates, terms(step, held.people, held.variants, held.traits)))
        about[f"step {step}"] = {
            "seconds_a_unit": dict(zip(names, map(float, rates), strict=True)),
            "largest": {"foretold_cpu_s": round(foretold, 1), "took_cpu_s": held.cpu_s, "ratio": round(held.cpu_s / foretold, 2)},
            "planned": planned(step, rates),
        }
    print(json.dumps(about, indent=1))
    write_result("biobank_plan", [dict(row) for row in rows], about)


if __name__ == "__main__":
    main()
