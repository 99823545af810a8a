"""Whole-genome regression and its scan beside regenie: python benchmarks/biobank.py --data DIR [--regenie PATH] [--bolt PATH].

Cohort B: 20,000 people of three populations, of every fifty the last a child of the first two, 50,000 variants of 22 chromosomes with half
a percent of the calls missing, two covariates, fifty traits of 500 causal variants each, and the upper tenth of the first as a binary one
(seeded; made in DIR the first time); sets are of rare variants of the same people. Each work is a whole process, ours and the peer's in
turn, all with two threads: regenie's, and BOLT-LMM's of a mixed model. A peer that is not given is left out, and the result says so.

regenie's step 2 is run twice: plainly, with `--threads 2` alone, and `tuned`, with OpenBLAS held to a thread by the
environment, which takes a third to a half of the time.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.biobank_cohort import BINARY, COVARIATES, THREADS, TRAITS, Cohort, Work, with_threads
from benchmarks.biobank_sets import RareVariants
from benchmarks.harness import Timing, timed, write_result


@dataclass(frozen=True)
class Peers:
    """Programs to measure beside; None where there is none."""

    regenie: Path | None = None
    bolt: Path | None = None


WORKS = {
    "step 1, one quantitative trait": Work((1,)),
    f"step 1, {TRAITS} quantitative traits": Work((1,), TRAITS),
    "step 1, one binary trait": Work((1,), binary=True),
    "step 2, one quantitative trait": Work((2,)),
    f"step 2, {TRAITS} quantitative traits": Work((2,), TRAITS),
    "step 2, one binary trait, approximate Firth": Work((2,), binary=True),
    f"both steps, {TRAITS} quantitative traits": Work((1, 2), TRAITS),
}
SETS = {"sets, quantitative": False, "sets, binary": True}
MIXED = "mixed model, one quantitative trait"
Sides = tuple[Callable[[], Timing], Mapping[str, Callable[[], Timing]]]


def keep_predictions(scratch: Path, work: Work) -> None:
    """Where step 2 reads what step 1 published last."""
    (found,) = sorted((scratch / "results").rglob("wgr"))[-1:]
    kept = scratch / f"predictions_{work.key}"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(found, kept)
    if (found.parent / "fit").is_dir():
        shutil.copytree(found.parent / "fit", kept, dirs_exist_ok=True)
        listed = (line.split() for line in (kept / "fit_pred.list").read_text(encoding="utf-8").splitlines())
        whole = "".join(f"{trait} {kept / file}\n" for trait, file in listed)  # the list names files of its own folder
        (kept / "fit_pred.list").write_text(whole, encoding="utf-8")


def measured(name: str, cohort: Cohort, peers: Peers, runs: int, scratch: Path) -> dict[str, Any]:
    """So many runs of a work, ours and the peers' in turn."""
    works = {MIXED: _mixed, **dict.fromkeys(SETS, _sets)}
    ours, theirs = works.get(name, _steps)(name, cohort, peers, scratch)
    found = dict[str, list[Timing]]()
    for _ in range(runs):
        for who, run in {"ours": ours, **theirs}.items():
            found.setdefault(who, []).append(run())
    row: dict[str, Any] = {"work": name, "people": cohort.people, "variants": cohort.variants}
    for who, timings in found.items():
        row[f"{who}_s"] = [round(one.seconds, 2) for one in timings]
        row[f"{who}_cpu_s"] = [round(one.cpu_seconds, 2) for one in timings]
        row[f"{who}_mb"] = [round(one.peak_mb) for one in timings]
    for who in theirs:
        row[f"{who}_cpu_ratio"] = round(statistics.median(row[f"{who}_cpu_s"]) / statistics.median(row["ours_cpu_s"]), 2)
        row[f"{who}_ratio"] = round(statistics.median(row[f"{who}_s"]) / statistics.median(row["ours_s"]), 2)
    print(row, flush=True)
    return row


def _steps(name: str, cohort: Cohort, peers: Peers, scratch: Path) -> Sides:
    """Steps 1 and 2; step 2 alone reads the predictions of a step 1 that is not measured here."""
    work, regenie = WORKS[name], peers.regenie
    kept = scratch / f"predictions_{work.key}"
    if work.steps == (2,) and not (kept / "fit_pred.list" if regenie else kept).exists():
        timed(cohort.ours(replace(work, steps=(1,)), scratch, for_regenie=regenie is not None))
        keep_predictions(scratch, work)
    ways = {"regenie": False} | ({"regenie_tuned": True} if 2 in work.steps else {})
    return (
        lambda: timed(cohort.ours(work, scratch)),
        {who: partial(_theirs, cohort, regenie, work, scratch, tuned=tuned) for who, tuned in ways.items()} if regenie else {},
    )


def _sets(name: str, cohort: Cohort, peers: Peers, scratch: Path) -> Sides:
    """Gene-based tests of rare variants of the same people."""
    rare, binary, regenie = RareVariants(cohort.folder, cohort.people), SETS[name], peers.regenie
    rare.write()
    trait = BINARY if binary else cohort.names[0]
    return (
        lambda: timed(rare.ours(trait, COVARIATES, scratch, binary=binary)),
        {"regenie_tuned": lambda: timed(with_threads(regenie, 2, rare.regenie(scratch / "sets", trait, binary=binary)))} if regenie else {},
    )


def _mixed(_: str, cohort: Cohort, peers: Peers, scratch: Path) -> Sides:
    """A mixed model of one trait: both steps of ours beside BOLT-LMM-inf, calibrated by LD scores of the same variants.

    BOLT-LMM's own prior, a mixture of two normals, was not done after 22 minutes: its cross-validation took 187 rounds and more.
    """
    trait = cohort.names[0]
    given = ["--bfile", str(cohort.folder / "calls"), "--phenoFile", str(cohort.folder / "pheno.txt"), "--phenoCol", trait]
    given += ["--covarFile", str(cohort.folder / "covar.txt"), *(f"--qCovarCol={name}" for name in COVARIATES)]
    given += ["--lmmInfOnly", "--LDscoresUseChip", "--statsFile", str(scratch / "bolt.stats"), "--numThreads", str(THREADS)]
    return (
        lambda: timed(cohort.ours(Work((1, 2)), scratch)),
        {"bolt": lambda: timed([str(peers.bolt), *given])} if peers.bolt else {},
    )


def _theirs(cohort: Cohort, regenie: Path, work: Work, scratch: Path, *, tuned: bool) -> Timing:
    """What regenie's steps took together; step 2 alone reads our predictions, whose making is not measured here."""
    fit, seconds, peak, cpu = scratch / "theirs", 0.0, 0.0, 0.0
    first = cohort.regenie(regenie, 1, work, fit, tuned=tuned)
    given = fit.with_name("theirs_pred.list") if 1 in work.steps else scratch / f"predictions_{work.key}" / "fit_pred.list"
    second = cohort.regenie(regenie, 2, work, scratch / "scan", "--pred", str(given), tuned=tuned)
    for step, command in ((1, first), (2, second)):
        if step in work.steps:
            one = timed(command)
            seconds, peak, cpu = seconds + one.seconds, max(peak, one.peak_mb), cpu + one.cpu_seconds
    return Timing(seconds, peak, cpu)


def main() -> None:
    """Measure what is asked for and write benchmarks/results/biobank-TIME.json."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True, help="folder for the cohort")
    options.add_argument("--regenie", type=Path, help="regenie's program; without it only ours is measured")
    options.add_argument("--bolt", type=Path, help="BOLT-LMM's program")
    options.add_argument("--only", action="append", choices=[*WORKS, *SETS, MIXED], help="one work alone; may be given several times")
    options.add_argument("--size", default="20000,50000", help="people and variants, with a comma")
    options.add_argument("--runs", type=int, default=1)
    chosen = options.parse_args()
    people, variants = (int(number) for number in chosen.size.split(","))
    peers = Peers(chosen.regenie, chosen.bolt)
    cohort, rows = Cohort(chosen.data, people, variants), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(dir=chosen.data) as scratch:
        try:
            for name in chosen.only or [*WORKS, *SETS, MIXED]:
                rows.append(measured(name, cohort, peers, chosen.runs, Path(scratch)))
        finally:
            given = [who for who, path in vars(peers).items() if path]
            write_result("biobank", rows, {"peers": given or "none was given (--regenie, --bolt)", "threads": THREADS})


if __name__ == "__main__":
    main()
