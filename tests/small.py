"""A small genomics job with its files, for tests that run whole jobs: 60 variants, 64 people, a second or less."""

from __future__ import annotations

from pathlib import Path

import numpy as np

VARIANTS, PEOPLE = 60, 64
JOB = """\
job: small
seed: 7
results: results
inputs:
  cohort: {format: vcf, path: cohort.vcf}
  sheet:
    format: csv
    path: sheet.csv
    columns: {sample_id: string, age: float64, ldl: float64, population: string}
stages:
  - {use: variant_qc, from: cohort, as: passed, min_call_rate: 0.5, min_maf: 0.01}
  - {use: join, from: {left: cohort.samples, right: sheet}, as: people, on: sample_id, how: left}
  - {use: derive, from: people, as: older, columns: {decades: age / 10}}
  - {use: linear_gwas, from: {genotypes: passed, samples: older}, as: gwas, traits: [ldl], covariates: [decades]}
outputs:
  associations: {from: gwas, sort_by: p_value}
  people: {from: older}
"""


def write_small_job(folder: Path) -> Path:
    """Write job.yaml, cohort.vcf and sheet.csv; returns the job's path. Its own paths are relative to the folder."""
    random = np.random.default_rng(20261121)
    names = [f"s{number:02d}" for number in range(PEOPLE)]
    alleles = random.binomial(1, random.uniform(0.1, 0.5, (VARIANTS, 1, 1)), (VARIANTS, PEOPLE, 2))
    header = ["##fileformat=VCFv4.2", "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *names])]
    rows = [
        "\t".join([str(1 + row // 30), str(1000 + 10 * row), f"rs{row}", "A", "G", ".", "PASS", ".", "GT", *(f"{a}/{b}" for a, b in calls)])
        for row, calls in enumerate(alleles)
    ]
    (folder / "cohort.vcf").write_text("\n".join([*header, *rows]) + "\n")
    age, ldl = random.integers(20, 80, PEOPLE), random.normal(3, 1, PEOPLE) + alleles[7].sum(axis=1)
    lines = [f"{name},{age[i]},{ldl[i]:.3f},{'north' if i % 2 else 'south'}" for i, name in enumerate(names)]
    (folder / "sheet.csv").write_text("\n".join(["sample_id,age,ldl,population", *lines]) + "\n")
    (folder / "job.yaml").write_text(JOB)
    return folder / "job.yaml"


def replace_in(path: Path, old: str, new: str, count: int = 1) -> None:
    """Replace a text that must be there in a file."""
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new, count))
