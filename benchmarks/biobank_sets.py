"""Gene-based tests beside regenie: 1,000 sets of 50 rare variants, for benchmarks/biobank.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.harness import python
from benchmarks.people import CHROMOSOMES
from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack

SETS, VARIANTS = 1_000, 50
RAREST, COMMONEST = 1e-4, 0.02
KINDS = ("lof", "missense", "other")
MASKS = {"M1": KINDS[:1], "M2": KINDS[:2], "M3": KINDS}
GREATEST = 0.01  # ALT frequency of a burden mask's variants
AT_ONCE = 1_000

FILES = {
    "annotations": ("variant_id", "set_id", "annotation"),
    "masks": ("mask", "annotations"),
    "sets": ("set_id", "chromosome", "base_pair_location", "variant_ids"),
}
"""regenie's three files by their endings, and the columns of each."""


def write_masks(path: Path) -> None:
    """regenie's file of masks."""
    masks = pl.DataFrame({"mask": [*MASKS], "annotations": [",".join(kinds) for kinds in MASKS.values()]})
    masks.write_csv(path, separator=" ", include_header=False, quote_style="never")


def set_inputs(folder: Path, stem: str) -> dict[str, Any]:
    """The three files as inputs of a job."""
    inputs: dict[str, Any] = {
        name: {"format": "csv", "path": str(folder / f"{stem}.{name}"), "separator": " ", "header": False, "names": list(columns)}
        for name, columns in FILES.items()
    }
    inputs["sets"]["columns"] = {"chromosome": "string"}
    return inputs


@dataclass(frozen=True)
class RareVariants:
    """Files of rare variants of the people of a cohort in `folder`, whose traits and covariates they have: PLINK's and regenie's three."""

    folder: Path
    people: int

    def write(self) -> None:
        """Make them, seeded, where they are not there yet."""
        if (self.folder / "rare.sets").is_file():
            return
        random, number = np.random.default_rng(11), np.arange(SETS * VARIANTS)
        ids = [f"p{place}" for place in range(self.people)]
        frame = pl.DataFrame({"variant_id": [f"r{place}" for place in number]}).with_columns(
            chromosome=pl.Series(number // VARIANTS * CHROMOSOMES // SETS + 1).cast(pl.String),
            base_pair_location=pl.Series(100 * number + 1),
            ref=pl.lit("A"),
            alt=pl.lit("G"),
        )
        write_plink(self.folder / "rare", frame, pl.DataFrame({"sample_id": ids, "family_id": ids}), self._packed(random))
        named = frame.with_columns(set_id=pl.Series(number // VARIANTS).cast(pl.String).str.replace("^", "g"))
        kinds = pl.Series("annotation", random.choice(KINDS, len(number), p=(0.2, 0.4, 0.4)))
        named.select("variant_id", "set_id", kinds).write_csv(self.folder / "rare.annotations", separator=" ", include_header=False)
        write_masks(self.folder / "rare.masks")
        sets = named.group_by("set_id", maintain_order=True).agg(
            pl.col("chromosome", "base_pair_location").first(), pl.col("variant_id").str.join(",")
        )
        sets.write_csv(self.folder / "rare.sets", separator=" ", include_header=False, quote_style="never")

    def _packed(self, random: np.random.Generator) -> Iterator[NDArray[np.uint8]]:
        for start in range(0, SETS * VARIANTS, AT_ONCE):
            count = min(AT_ONCE, SETS * VARIANTS - start)
            frequency = np.exp(random.uniform(np.log(RAREST), np.log(COMMONEST), (count, 1)))
            haplotypes = (random.random((count, self.people), np.float32) < frequency for _ in range(2))
            yield pack(sum(one.astype(np.uint8) for one in haplotypes))

    def ours(self, trait: str, covariates: tuple[str, ...], scratch: Path, *, binary: bool) -> list[str]:
        """Our command: variant_sets and set_association, burden and SKAT-O."""
        inputs = set_inputs(self.folder, "rare")
        types = {"sample_id": "string"} | dict.fromkeys((trait, *covariates), "float64")
        inputs["calls"] = {"format": "plink", "path": str(self.folder / "rare.bed")}
        inputs["sheet"] = {"format": "csv", "path": str(self.folder / "sheet.csv"), "columns": types}
        tested: dict[str, Any] = {"traits": [trait], "covariates": list(covariates), "kind": "binary" if binary else "quantitative"}
        tested |= {"tests": ["burden", "skat_o"], "max_frequencies": [GREATEST]}
        document = {
            "job": "biobank_sets",
            "results": str(scratch / "results"),
            "report": False,
            "cluster": {"kind": "local"},
            "inputs": inputs,
            "stages": [
                {"use": "variant_sets", "from": {name: name for name in FILES}, "as": "members"},
                {"use": "set_association", "from": {"genotypes": "calls", "samples": "sheet", "sets": "members"}, "as": "tests", **tested},
            ],
            "outputs": {"tests": {"from": "tests"}},
        }
        job = scratch / f"sets_{trait}.yaml"
        job.write_text(json.dumps(document), encoding="utf-8")
        return python("-m", "pipeline.run", str(job), "--quiet", "--fresh")

    def regenie(self, out: Path, trait: str, *, binary: bool) -> list[str]:
        """What regenie is given for the same, after its program."""
        files = ["--bed", str(self.folder / "rare"), "--phenoFile", str(self.folder / "pheno.txt"), "--phenoCol", trait]
        files += ["--covarFile", str(self.folder / "covar.txt"), "--anno-file", str(self.folder / "rare.annotations")]
        files += ["--set-list", str(self.folder / "rare.sets"), "--mask-def", str(self.folder / "rare.masks")]
        kind = ["--bt", "--firth", "--approx"] if binary else ["--qt"]
        return [
            "--step",
            "2",
            "--ignore-pred",
            *kind,
            "--bsize",
            "400",
            "--aaf-bins",
            str(GREATEST),
            "--vc-tests",
            "skato",
            *files,
            "--out",
            str(out),
        ]
