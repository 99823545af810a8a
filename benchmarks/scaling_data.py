"""The data of benchmarks/scaling.py: so many times the least of each work, made once for each size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.harness import python, timed
from pipeline.formats._plink.bed_files import write_plink

BASE = {"loans": 25_000, "scan": 80_000, "traffic": 50_000}
SMALL = {"loans": 1_000, "scan": 1_000, "traffic": 10_000}
PEOPLE, BLOCK = 1_000, 20_000
FILES = {"loans": ("loans", "performance"), "scan": ("calls.bed", "sheet.csv"), "traffic": ("readings", "holidays.csv")}
SCAN = """\
job: scan
seed: 1
inputs:
  calls: {format: plink, path: calls.bed}
  sheet: {format: csv, path: sheet.csv, columns: {sample_id: string, y: float64, c1: float64, c2: float64}}
stages:
  - {use: linear_gwas, from: {genotypes: calls, samples: sheet}, as: gwas, traits: [y], covariates: [c1, c2]}
outputs:
  associations: {from: gwas}
"""


class Data:
    """A folder with the data of the works, `base` rows of each being the least."""

    def __init__(self, folder: Path, base: dict[str, int]) -> None:
        self.folder, self.base, self.job = folder, base, folder / "scan.yaml"
        self.job.write_text(SCAN, encoding="utf-8")

    def arguments(self, work: str, size: int) -> list[str]:
        """The job, and the changes that say where so many times the least data are; they are made if need be."""
        place = self.folder / f"{work}-{size}"
        if not place.exists():
            self._make(work, place, self.base[work] * size)
        changes = [f"--set=inputs.{name.partition('.')[0]}.path={place / name}" for name in FILES[work]]
        return [str(self.job) if work == "scan" else f"jobs/{work}.yaml", "--backend=cpu", *changes]

    def _make(self, work: str, place: Path, rows: int) -> None:
        if work == "scan":
            place.mkdir()
            make_scan(place, rows)
        else:
            named = {"loans": ["--scale", str(rows)], "traffic": ["--readings", str(rows), "--files", "2"]}[work]
            timed(python(f"data/make_{work}.py", *named, "--out", str(place)))


def make_scan(place: Path, variants: int) -> None:
    """Random genotypes of a thousand people without missing calls, and their sheet."""
    names = pl.DataFrame({"sample_id": [f"s{number}" for number in range(PEOPLE)]})
    at = pl.int_range(1, variants + 1, eager=True)
    rows = pl.DataFrame({"base_pair_location": at * 100}).with_columns(
        chromosome=pl.lit("1"), variant_id=pl.format("v{}", "base_pair_location"), ref=pl.lit("A"), alt=pl.lit("C"), centimorgan=pl.lit(0.0)
    )
    write_plink(place / "calls", rows, names, _blocks(variants))
    sheet = np.random.default_rng(2).normal(size=(PEOPLE, 3))
    names.with_columns(y=sheet[:, 0], c1=sheet[:, 1], c2=sheet[:, 2]).write_csv(place / "sheet.csv")


def _blocks(variants: int) -> Iterator[NDArray[np.uint8]]:
    """Packed calls of a block of variants after the other: of two bits each that are 0, 1 or 2."""
    random = np.random.default_rng(1)
    for start in range(0, variants, BLOCK):
        calls = random.integers(0, 3, (min(BLOCK, variants - start), PEOPLE // 4, 4), np.uint8)
        yield (calls << np.array([0, 2, 4, 6], np.uint8)).sum(axis=2, dtype=np.uint8)
