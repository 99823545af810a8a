"""The files of benchmarks/genomics.py: what data/make_cohort.py makes, and what both sides read, made once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.harness import python, timed
from pipeline.formats._plink.bed_files import read_bed, read_bim, read_fam, write_plink

SHIFT_BP = 300_000_000  # puts the second copy of a chromosome behind the first
COPIES = {"cohort": "cohort", "complete": "complete", "pruned": "cohort", "doubled": "doubled"}


class Cohort:
    """A folder with the cohort; files are made when they are first asked for. PLINK's files are made by plink2."""

    def __init__(self, folder: Path, people: int, variants: int) -> None:
        self.folder, self.people, self.variants = folder.absolute(), people, variants
        if not (self.folder / "cohort.vcf.gz").exists():
            print(f"making a cohort of {people:,} people and {variants:,} variants", flush=True)
            timed(python("data/make_cohort.py", "--out", str(self.folder), "--people", str(people), "--variants", str(variants)))
        self.vcf, self.sheet = self.folder / "cohort.vcf.gz", self.folder / "samples.csv"
        self.pheno, self.covar = self.folder / "pheno.txt", self.folder / "covar.txt"
        if not self.pheno.exists():
            sheet = pl.read_csv(self.sheet)
            names = sheet.columns
            for path, start in ((self.pheno, ("y", "case")), (self.covar, ("c",))):
                columns = [name for name in names if name.startswith(start) and (start != ("c",) or not name.startswith("case"))]
                self._write(sheet.select(pl.lit(0).alias("#FID"), pl.col("sample_id").alias("IID"), *columns), path)

    def _write(self, frame: pl.DataFrame, path: Path) -> None:
        frame.write_csv(path, separator="\t")

    def about(self) -> dict[str, Any]:
        """Size of the cohort, for the result file."""
        return {"people": self.people, "variants": read_bim(self.folder / "cohort.bim").height}

    def write_covariates(self, eigenvec: Path, path: Path, axes: int) -> None:
        """PLINK's covariate file with its first principal components added."""
        covariates = pl.read_csv(self.covar, separator="\t")
        found = (
            pl.read_csv(eigenvec, separator="\t")
            .rename({"#IID": "IID"}, strict=False)
            .select(pl.col("IID").cast(pl.String), *(f"PC{i}" for i in range(1, axes + 1)))
        )
        self._write(covariates.join(found, on="IID", maintain_order="left"), path)

    def pgen(self, name: str) -> Path:
        """PLINK 2's own fileset of one table."""
        prefix = self.folder / f"plink_{name}"
        if not prefix.with_suffix(".pgen").exists():
            extract = ["--extract", str(self._pruned())] if name == "pruned" else []
            self._plink("--bfile", str(self.folder / COPIES[name]), *extract, "--make-pgen", "--out", str(prefix))
        return prefix

    def _pruned(self) -> Path:
        """Ids of the variants that PLINK keeps at 50 5 0.2."""
        prefix = self.folder / "pruned"
        path = self.folder / "pruned.prune.in"
        if not path.exists():
            self._plink("--bfile", str(self.folder / "cohort"), "--indep-pairwise", "50", "5", "0.2", "--out", str(prefix))
        return path

    def _plink(self, *arguments: str) -> None:
        subprocess.run(["plink2", "--threads", "2", *arguments], check=True, capture_output=True)

    def parquet(self, name: str) -> Path:
        """Our Parquet of one table."""
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            self._convert(name, path)
        return path

    def _convert(self, name: str, path: Path) -> None:
        if name == "doubled" and not (self.folder / "doubled.bed").exists():
            self._double()
        filters = []
        if name == "pruned":
            ids = self.folder / "pruned.csv"
            pl.DataFrame({"variant_id": self._pruned().read_text(encoding="utf-8").split()}).write_csv(ids)
            filters = [{"use": "join", "from": {"left": "bed", "right": "ids"}, "as": "calls", "on": "variant_id", "how": "semi"}]
        lines = [
            f"job: convert\nresults: {self.folder}/convert\nreport: false\ninputs:",
            f"  bed: {{format: plink, path: {self.folder / COPIES[name]}.bed}}",
            *([f"  ids: {{format: csv, path: {self.folder}/pruned.csv}}"] if filters else []),
            f"stages: {filters}",
            f"outputs:\n  genotypes: {{from: {'calls' if filters else 'bed'}, calls: true}}\n",
        ]
        job = self.folder / "convert.yaml"
        job.write_text("\n".join(lines), encoding="utf-8")
        timed(python("-m", "pipeline.run", str(job), "--quiet", "--fresh"))
        (self.folder / "convert" / "current" / "genotypes").rename(path)

    def _double(self) -> None:
        """The cohort with every chromosome's variants twice, the second time further along."""
        bim, fam = read_bim(self.folder / "cohort.bim"), read_fam(self.folder / "cohort.fam")
        calls = read_bed(self.folder / "cohort.bed", 0, bim.height, fam.height)
        again = bim.with_columns(pl.col("base_pair_location") + SHIFT_BP, pl.format("{}b", "variant_id").alias("variant_id"))
        both = pl.concat([bim, again]).with_row_index("row").with_columns(pl.col("chromosome").cast(pl.Int64).alias("number"))
        both = both.sort("number", "base_pair_location", maintain_order=True)
        rows = both["row"].to_numpy() % bim.height
        write_plink(self.folder / "doubled", both.drop("row", "number"), fam, (calls[piece] for piece in np.array_split(rows, 20)))
