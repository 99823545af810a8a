"""Whole-genome regression and its scan beside regenie: python benchmarks/biobank.py --data DIR [--regenie PATH] [--only WORK ...].

Cohort B: 20,000 people of three populations, of every fifty the last a child of the first two, 50,000 variants of 22 chromosomes with half
a percent of the calls missing, two covariates, fifty traits of 500 causal variants each, and the upper tenth of the first as a binary one
(seeded; made in DIR the first time). Each work is a whole process, ours and regenie's in turn, both with two threads; without
--regenie ours alone is measured, and the result says so.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import Timing, python, timed, write_result
from benchmarks.people import CHROMOSOMES, calls
from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack

TRAITS, CAUSAL, HERITABILITY = 50, 500, 0.4
BLOCK_SIZE, SCAN_BLOCK = 1_000, 1_000
COVARIATES = ("c1", "c2")
BINARY, CASES = "case", 0.1
THREADS = 2


@dataclass(frozen=True)
class Work:
    """Which steps, of how many traits."""

    steps: tuple[int, ...]
    traits: int = 1
    binary: bool = False

    @property
    def key(self) -> str:
        """What its predictions are kept by."""
        return f"{'binary' if self.binary else 'quantitative'}_{self.traits}"


class Cohort:
    """The files of both sides: PLINK's, a sheet for us, and traits and covariates for regenie."""

    def __init__(self, folder: Path, people: int, variants: int) -> None:
        self.folder = folder.absolute() / f"biobank_{people}x{variants}_{BINARY}"
        self.people, self.variants = people, variants
        self.names = [f"y{number + 1}" for number in range(TRAITS)]
        if not (self.folder / "sheet.csv").is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write()

    def _write(self) -> None:
        number, random = np.arange(self.variants), np.random.default_rng(3)
        effects = np.zeros((self.variants, TRAITS))
        for column in effects.T:
            column[random.choice(self.variants, min(CAUSAL, self.variants), replace=False)] = random.normal(size=min(CAUSAL, self.variants))
        genetic = np.zeros((self.people, TRAITS))
        ids = [f"p{place}" for place in range(self.people)]
        frame = pl.DataFrame(
            {
                "chromosome": (number * CHROMOSOMES // self.variants + 1).astype(str),
                "base_pair_location": 1_000 * number + 1,
                "variant_id": [f"v{place}" for place in number],
                "ref": ["A"] * self.variants,
                "alt": ["G"] * self.variants,
            }
        )
        people = pl.DataFrame({"sample_id": ids, "family_id": ids})
        write_plink(self.folder / "calls", frame, people, self._packed(effects, genetic))
        genetic = (genetic - genetic.mean(axis=0)) / genetic.std(axis=0)
        values = np.sqrt(HERITABILITY) * genetic + np.sqrt(1 - HERITABILITY) * random.normal(size=genetic.shape)
        columns = dict(zip(self.names, values.round(5).T, strict=True))
        columns |= {name: random.normal(size=self.people).round(4) for name in COVARIATES}
        columns[BINARY] = (columns["y1"] > np.quantile(columns["y1"], 1 - CASES)).astype(np.int64)
        for path, names in (("pheno.txt", (*self.names, BINARY)), ("covar.txt", COVARIATES)):
            table = pl.DataFrame({"FID": ids, "IID": ids, **{name: columns[name] for name in names}})
            table.write_csv(self.folder / path, separator="\t")
        pl.DataFrame({"sample_id": ids, **columns}).write_csv(self.folder / "sheet.csv")

    def _packed(self, effects: NDArray[np.float64], genetic: NDArray[np.float64]) -> Iterator[NDArray[np.uint8]]:
        """Blocks of packed calls; what each block adds to the traits is added to `genetic`."""
        start = 0
        for block in calls(self.people, self.variants):
            some = effects[start : start + len(block)]
            causal = np.flatnonzero(some.any(axis=1))
            genetic += np.where(block[causal] == 3, 1, block[causal]).T.astype(float) @ some[causal]
            start += len(block)
            yield pack(block)

    def traits(self, work: Work) -> list[str]:
        """Those of a work."""
        return [BINARY] if work.binary else self.names[: work.traits]

    def regenie(self, path: Path, step: int, work: Work, out: Path, *more: str) -> list[str]:
        """regenie's command."""
        files = ["--bed", str(self.folder / "calls"), "--phenoFile", str(self.folder / "pheno.txt")]
        files += ["--covarFile", str(self.folder / "covar.txt"), "--phenoColList", ",".join(self.traits(work))]
        kind = (["--bt", "--firth", "--approx"] if step == 2 else ["--bt"]) if work.binary else ["--qt"]
        given = ["--step", str(step), *kind, "--bsize", str(BLOCK_SIZE if step == 1 else SCAN_BLOCK), "--threads", str(THREADS)]
        blas = ["env", f"OMP_NUM_THREADS={THREADS}", f"OPENBLAS_NUM_THREADS={THREADS if step == 1 else 1}"]
        return [*blas, str(path), *given, *files, "--out", str(out), *more]

    def ours(self, work: Work, scratch: Path, *, for_regenie: bool = False, workers: int | None = None) -> list[str]:
        """Our command: step 1 writes its predictions, `for_regenie` too; step 2 alone reads those of the step 1 before."""
        roles = {"genotypes": "calls", "samples": "sheet"}
        fields = {"traits": self.traits(work), "covariates": list(COVARIATES)}
        kind = {"kind": "binary"} if work.binary else {}
        first = {"use": "whole_genome_regression", "from": roles, "as": "wgr", "block_size": BLOCK_SIZE, **kind, **fields}
        scan = "logistic_gwas" if work.binary else "linear_gwas"
        second = {"use": scan, "from": roles | {"predictions": "wgr"}, "as": "gwas", **fields}
        steps = work.steps
        results, kept = scratch / "results", scratch / f"predictions_{work.key}"
        types = {"sample_id": "string"} | dict.fromkeys((*self.names, BINARY, *COVARIATES), "float64")
        inputs: dict[str, Any] = {
            "calls": {"format": "plink", "path": str(self.folder / "calls.bed")},
            "sheet": {"format": "csv", "path": str(self.folder / "sheet.csv"), "columns": types},
        }
        if 1 not in steps:
            inputs["wgr"] = {"format": "parquet", "path": str(kept / "*.parquet")}
        document = {
            "job": f"biobank{''.join(map(str, steps))}",
            "results": str(results),
            "report": False,
            "cluster": {"kind": "local"} | ({} if workers is None else {"workers": workers}),
            "inputs": inputs,
            "stages": [stage for step, stage in ((1, first), (2, second)) if step in steps],
            "outputs": ({"gwas": {"from": "gwas"}} if 2 in steps else {"wgr": {"from": "wgr"}})
            | ({"fit": {"from": "wgr", "format": "loco"}} if for_regenie else {}),
        }
        job = scratch / f"job_{''.join(map(str, steps))}_{work.key}.yaml"
        job.write_text(json.dumps(document), encoding="utf-8")
        return python("-m", "pipeline.run", str(job), "--quiet", "--fresh")


WORKS = {
    "step 1, one quantitative trait": Work((1,)),
    f"step 1, {TRAITS} quantitative traits": Work((1,), TRAITS),
    "step 1, one binary trait": Work((1,), binary=True),
    "step 2, one quantitative trait": Work((2,)),
    f"step 2, {TRAITS} quantitative traits": Work((2,), TRAITS),
    "step 2, one binary trait, approximate Firth": Work((2,), binary=True),
    f"both steps, {TRAITS} quantitative traits": Work((1, 2), TRAITS),
}


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


def measured(name: str, cohort: Cohort, regenie: Path | None, runs: int, scratch: Path) -> dict[str, Any]:
    """So many runs of a work, ours and regenie's in turn."""
    work = WORKS[name]
    kept = scratch / f"predictions_{work.key}"
    if work.steps == (2,) and not (kept / "fit_pred.list" if regenie else kept).exists():
        timed(cohort.ours(replace(work, steps=(1,)), scratch, for_regenie=regenie is not None))
        keep_predictions(scratch, work)
    found = dict[str, list[Timing]]()
    for _ in range(runs):
        found.setdefault("ours", []).append(timed(cohort.ours(work, scratch)))
        if work.steps == (1,):
            keep_predictions(scratch, work)
        if regenie is not None:
            found.setdefault("regenie", []).append(_theirs(cohort, regenie, work, scratch))
    row: dict[str, Any] = {"work": name, "people": cohort.people, "variants": cohort.variants}
    for who, timings in found.items():
        row[f"{who}_s"] = [round(one.seconds, 2) for one in timings]
        row[f"{who}_cpu_s"] = [round(one.cpu_seconds, 2) for one in timings]
        row[f"{who}_mb"] = [round(one.peak_mb) for one in timings]
    if "regenie_s" in row:
        row["cpu_ratio"] = round(statistics.median(row["regenie_cpu_s"]) / statistics.median(row["ours_cpu_s"]), 2)
        row["ratio"] = round(statistics.median(row["regenie_s"]) / statistics.median(row["ours_s"]), 2)
    print(row, flush=True)
    return row


def _theirs(cohort: Cohort, regenie: Path, work: Work, scratch: Path) -> Timing:
    """What regenie's steps took together; step 2 alone reads our predictions, whose making is not measured here."""
    fit, seconds, peak, cpu = scratch / "theirs", 0.0, 0.0, 0.0
    first = cohort.regenie(regenie, 1, work, fit)
    given = fit.with_name("theirs_pred.list") if 1 in work.steps else scratch / f"predictions_{work.key}" / "fit_pred.list"
    second = cohort.regenie(regenie, 2, work, scratch / "scan", "--pred", str(given))
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
    options.add_argument("--only", action="append", choices=[*WORKS], help="one work alone; may be given several times")
    options.add_argument("--size", default="20000,50000", help="people and variants, with a comma")
    options.add_argument("--runs", type=int, default=1)
    chosen = options.parse_args()
    people, variants = (int(number) for number in chosen.size.split(","))
    cohort, rows = Cohort(chosen.data, people, variants), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(dir=chosen.data) as scratch:
        try:
            for name in chosen.only or WORKS:
                rows.append(measured(name, cohort, chosen.regenie, chosen.runs, Path(scratch)))
        finally:
            peers = "regenie" if chosen.regenie else "no peer was given (--regenie)"
            write_result("biobank", rows, {"peers": peers, "threads": THREADS})


if __name__ == "__main__":
    main()
