"""The cohorts of benchmarks/biobank.py, and what ours and regenie are given to work on them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.harness import python
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


def with_threads(regenie: Path, step: int, given: Sequence[str], *, tuned: bool = True) -> list[str]:
    """regenie's command with two threads (`--threads`).

    `tuned` has each thread of step 2 do its own linear algebra: untold, OpenBLAS starts threads for every one of them, which wait for one
    another (26.5 s of 20,000 people and 50,000 variants, where it takes 7.8).
    """
    blas = ["env", f"OMP_NUM_THREADS={THREADS}", f"OPENBLAS_NUM_THREADS={THREADS if step == 1 else 1}"] if tuned else []
    return [*blas, str(regenie), *given, "--threads", str(THREADS)]


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

    def regenie(self, path: Path, step: int, work: Work, out: Path, *more: str, tuned: bool) -> list[str]:
        """regenie's command, plain or `tuned`."""
        files = ["--bed", str(self.folder / "calls"), "--phenoFile", str(self.folder / "pheno.txt")]
        files += ["--covarFile", str(self.folder / "covar.txt"), "--phenoColList", ",".join(self.traits(work))]
        kind = (["--bt", "--firth", "--approx"] if step == 2 else ["--bt"]) if work.binary else ["--qt"]
        given = ["--step", str(step), *kind, "--bsize", str(BLOCK_SIZE if step == 1 else SCAN_BLOCK)]
        return with_threads(path, step, [*given, *files, "--out", str(out), *more], tuned=tuned)

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
