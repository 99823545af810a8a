"""Relatives and families beside other programs: python benchmarks/related.py [--people N ...] [--variants N].

`mixed_model_gwas` beside GEMMA (-gk 1, then -lmm 1: the relationships, and Wald tests of every variant), and `runs_of_homozygosity` beside
PLINK 1.9's --homozyg, on simulated cohorts (data/make_cohort.py) as PLINK filesets. Whole processes in turn, two threads each, after one
run of each that does not count.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import polars as pl

from benchmarks.cohort import Cohort
from benchmarks.harness import compare, python, write_result
from pipeline.formats._plink.bed_files import read_fam

WORKS = ("mixed_model", "homozygosity")
JOB = """job: related
report: false
results: {results}
inputs:
  calls: {{format: plink, path: {bed}}}
{sheet}stages:
  - {stage}
outputs:
  found: {{from: found}}
"""
SHEET = "  sheet: {{format: csv, path: {path}, columns: {{sample_id: string, y1: float64}}}}\n"
STAGES = {
    "mixed_model": "{use: mixed_model_gwas, from: {genotypes: calls, samples: sheet}, as: found, traits: [y1]}",
    "homozygosity": "{use: runs_of_homozygosity, from: calls, as: found, min_variants: 20, min_kb: 100, max_kb_per_variant: 1000}",
}


def with_trait(cohort: Cohort, folder: Path) -> Path:
    """The cohort's fileset with its trait y1 in the .fam, where GEMMA looks for it."""
    for ending in (".bed", ".bim"):
        (folder / f"gemma{ending}").symlink_to(cohort.folder / f"cohort{ending}")
    trait = pl.read_csv(cohort.sheet).select(pl.col("sample_id").cast(pl.String), "y1")
    people = (
        read_fam(cohort.folder / "cohort.fam")
        .select(pl.col("sample_id").cast(pl.String))
        .join(trait, on="sample_id", how="left", maintain_order="left")
    )
    rows = people.select("sample_id", id="sample_id", f=pl.lit(0), m=pl.lit(0), s=pl.lit(1), y=pl.col("y1").cast(pl.String).fill_null("NA"))
    rows.write_csv(folder / "gemma.fam", separator=" ", include_header=False)
    return folder / "gemma"


def measure(work: str, cohort: Cohort, runs: int, scratch: Path) -> dict[str, Any]:
    """One row: our job beside the program."""
    sheet = SHEET.format(path=cohort.sheet) if work == "mixed_model" else ""
    job = scratch / f"{work}.yaml"
    job.write_text(
        JOB.format(results=scratch / "ours", bed=cohort.folder / "cohort.bed", sheet=sheet, stage=STAGES[work]), encoding="utf-8"
    )
    ours = python("-m", "pipeline.run", str(job), "--quiet", "--fresh")
    if work == "homozygosity":
        limits = "--homozyg-snp 20 --homozyg-kb 100 --homozyg-density 1000"
        command = f"plink1.9 --bfile {cohort.folder / 'cohort'} --homozyg {limits} --threads 2 --out {scratch / 'plink'}"
        return compare(f"{work} of {cohort.people:,} people", ours, "PLINK 1.9", shlex.split(command), runs)
    fileset = with_trait(cohort, scratch)
    options = f"-bfile {fileset} -outdir {scratch} -o"
    both = f"gemma {options} kin -gk 1 && gemma {options} lmm -lmm 1 -k {scratch / 'kin.cXX.txt'}"
    return compare(f"{work} of {cohort.people:,} people", ours, "GEMMA", ["env", "OPENBLAS_NUM_THREADS=2", "sh", "-c", both], runs)


def main() -> None:
    """Run the works asked for and write one result file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", action="append", choices=WORKS)
    options.add_argument("--people", type=int, nargs="+", default=[1_000, 2_500])
    options.add_argument("--variants", type=int, default=20_000)
    options.add_argument("--runs", type=int, default=2)
    options.add_argument("--data", type=Path, help="folder for the cohorts, made there the first time; a temporary one where not given")
    chosen, rows = options.parse_args(), list[dict[str, Any]]()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for people in chosen.people:
                cohort = Cohort((chosen.data or Path(scratch)) / f"of_{people}", people, chosen.variants)
                for work in chosen.only or WORKS:
                    with tempfile.TemporaryDirectory() as own:
                        rows.append({**measure(work, cohort, chosen.runs, Path(own)), **cohort.about()})
    finally:  # what was measured is kept, also where a work fails
        said = {name: _version(command) for name, command in (("gemma", ["gemma", "-h"]), ("plink1.9", ["plink1.9", "--version"]))}
        write_result("related", rows, said)


def _version(command: list[str]) -> str:
    """The first line that a program says of itself."""
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().splitlines()
    return said[0].strip() if said else ""


if __name__ == "__main__":
    main()
