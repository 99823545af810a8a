"""Makes tests/data/hapmap3 anew: some variants of HapMap 3, and what PLINK 2 prints for them. Run by hand; what it wrote is kept.

python tests/data/make_share.py --source DIR/hapmap3/data --reference DIR/reference/hapmap3 --plink2 plink2
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent / "hapmap3"
COVARIATES = ("#FID", "IID", "age", "PC1", "PC2", "PC3")
# Of some chromosomes this many variants in a row, from that one on: neighbours, so that pruning has something to do.
STRETCHES = {"6": (330, 60), "22": (0, 130), "23": (0, 40), "25": (0, 12), "26": (0, 9)}
# The strongest association, and those of most missing calls and rarest alleles that lie elsewhere.
PICKED = {"rs1611699", "rs3843920", "rs12554453", "rs1369203", "rs16921613", "rs4858790", "rs12031044", "rs12518983"}
COLUMNS = "cols=chrom,ref,alt,a1freq,nobs,beta,se,tz,p"
# What PLINK is asked, by the name of what it prints.
ASKED = {
    "qc": ("--freq", "--missing", "--hardy", "--het"),
    "midp": ("--hardy", "midp"),
    "linear": ("--pheno-name", "y_lin,y_null", "--glm", "hide-covar", "omit-ref", COLUMNS),
    "strong": ("--pheno-name", "y_strong", "--glm", "hide-covar", "omit-ref", "log10", COLUMNS),
    "hybrid": ("--pheno-name", "y_bin,y_rare", "--glm", "hide-covar", "omit-ref", "firth-fallback", COLUMNS.replace("nobs", "firth,nobs")),
    "pca": ("--autosome", "--pca", "5"),
    "king": ("--autosome", "--make-king-table", "--king-table-filter", "0.255"),
    "prune_50_5_0.02": ("--indep-pairwise", "50", "5", "0.02"),
    "prune_3000kb_0.02": ("--indep-pairwise", "3000kb", "1", "0.02"),
    "score": ("--score", "share.weights", "1", "2", "3", "cols=scoreavgs,scoresums,nallele"),
    "score_called": ("--score", "share.weights", "1", "2", "3", "no-mean-imputation", "cols=scoreavgs,scoresums,nallele"),
}


def chosen(source: Path, weights: Path) -> Iterator[str]:
    """The ids of the variants of the share, in the order of the whole set."""
    picked = PICKED | {line.split()[0] for line in weights.read_text().splitlines()}
    seen = dict.fromkeys(STRETCHES, 0)
    for line in source.with_suffix(".bim").read_text().splitlines():
        chromosome, variant = line.split()[:2]
        first, count = STRETCHES.get(chromosome, (0, 0))
        if variant in picked or first <= seen.get(chromosome, 0) < first + count:
            yield variant
        if chromosome in seen:
            seen[chromosome] += 1


def covariates(table: Path) -> Iterator[str]:
    """The lines of a table of covariates, of some columns alone."""
    lines = [line.split() for line in table.read_text().splitlines()]
    places = [lines[0].index(name) for name in COVARIATES]
    return ("\t".join(line[place] for place in places) for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="prefix of HapMap 3 as bed, bim and fam")
    parser.add_argument("--reference", type=Path, required=True, help="folder with hm3.pheno, hm3.covar12 and prs.weights")
    parser.add_argument("--plink2", default="plink2")
    given = parser.parse_args()
    HERE.mkdir(exist_ok=True)
    weights = given.reference / "prs.weights"
    for name, lines in {
        "share.snps": chosen(given.source, weights),
        "share.covar": covariates(given.reference / "hm3.covar12"),
        "share.pheno": (given.reference / "hm3.pheno").read_text().splitlines(),
        "share.weights": weights.read_text().splitlines(),
    }.items():
        (HERE / name).write_text("\n".join(lines) + "\n")

    def plink(*asked: str) -> None:
        subprocess.run([given.plink2, "--silent", "--threads", "1", *asked], cwd=HERE, check=True)

    plink("--bfile", str(given.source.resolve()), "--extract", "share.snps", "--make-bed", "--out", "share")
    traits = ("--pheno", "share.pheno", "--covar", "share.covar", "--covar-variance-standardize")
    for name, asked in ASKED.items():
        plink("--bfile", "share", *(traits if "--glm" in asked else ()), *asked, "--out", f"plink.{name}")
    for left in ("share.snps", *(file.name for file in HERE.glob("*.log"))):
        (HERE / left).unlink()


if __name__ == "__main__":
    main()
