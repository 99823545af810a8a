"""Random cohorts beside PLINK 2's --glm: python benchmarks/random_scans.py [--cohorts N] [--start SEED].

The cohorts of random_cohorts.py, of hard calls: quantitative and binary traits, codings, X by sex, rare variants, gaps, covariates of very
different scales; every second one is scanned by several terms (interaction with a covariate, dominance deviation, jointly). PLINK gets
covariates about their means. A row a kind of scan says how many tests both have and what is beyond the limits, and how many only one has.
Of binary traits effects are compared, in our standard errors: PLINK 2.00a3 takes its own before its last step (up to a tenth off).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import timed
from benchmarks.random_cohorts import QUANTITATIVE, TRAIT, Drawn, Rows, Told, compare_cohorts, drawn, run_job

LIMIT, MOST_TOLD = 2e-3, 5
"""Of standard errors and -log10 p (and 0.05) in themselves, of effects in standard errors; variants that are told."""
SCAN = {"binary": "logistic_gwas", QUANTITATIVE: "linear_gwas"}


@dataclass(frozen=True)
class Terms:
    """What is tested of a variant beside its alleles."""

    interaction: str | None = None
    genotypic: bool = False

    @property
    def several(self) -> bool:
        """Whether there is anything."""
        return self.genotypic or self.interaction is not None

    @property
    def names(self) -> dict[str, str]:
        """Ours by PLINK's."""
        found = {"ADD": "additive", "DOMDEV": "dominance_deviation"}
        products = {f"{term}x{self.interaction}": f"{ours} x {self.interaction}" for term, ours in found.items()}
        return {**found, **products, **({} if self.interaction else {"GENO_2DF": "joint"})}


def terms_of(seed: int, cohort: Drawn) -> Terms:
    """Of every second cohort of additive coding some."""
    random = np.random.default_rng([seed, 2])
    interaction = str(random.choice(cohort.covariates)) if cohort.covariates and random.random() < 0.7 else None
    genotypic = interaction is None or bool(random.random() < 0.3)
    return Terms(interaction, genotypic) if seed % 2 and cohort.coding == "additive" else Terms()


def theirs(cohort: Drawn, terms: Terms) -> pl.DataFrame:
    """PLINK's rows of the variants' own tests."""
    place = cohort.folder
    own = ["genotypic"] * terms.genotypic + ["interaction"] * bool(terms.interaction)
    words = [
        *([] if cohort.coding == "additive" else [cohort.coding]),
        *own,
        "omit-ref",
        "hide-covar",
        "log10",
        "cols=+a1freq,+beta,+firth",
    ]
    given = ["--pheno", str(place / "pheno.txt"), "--threads", "2", "--out", str(place / "plink"), "--silent"]
    given += ["--autosome"] if terms.several else []
    if covariates := covariates_of(cohort, terms):
        given += ["--covar", str(place / "covar.txt"), "--covar-name", *covariates]
    else:
        words.append("allow-no-covars")
    given += ["--1"] if cohort.scale == "binary" else []
    timed(["plink2", "--bfile", str(place / "all"), "--glm", *words, *given])
    (written,) = place.glob(f"plink.{TRAIT}.glm.*")
    return pl.read_csv(written, separator="\t", null_values=["NA"], infer_schema_length=None)


def covariates_of(cohort: Drawn, terms: Terms) -> Sequence[str]:
    """Those of both programs: PLINK takes products with all of them."""
    return [terms.interaction] if terms.interaction else cohort.covariates


def ours(cohort: Drawn, terms: Terms) -> pl.DataFrame:
    """The rows of the scan, everything refitted."""
    place, covariates = cohort.folder, covariates_of(cohort, terms)
    scan: dict[str, Any] = {"use": "interaction_gwas", "genotypic": terms.genotypic}
    scan |= {
        "interactions": [terms.interaction] if terms.interaction else [],
        "regression": "logistic" if cohort.scale == "binary" else "linear",
    }
    if not terms.several:
        scan = {"use": SCAN[cohort.scale], "coding": cohort.coding} | ({"screen": 1} if cohort.scale == "binary" else {})
    scan |= {"from": {"genotypes": "all", "samples": "people"}, "as": "gwas", "traits": [TRAIT], "covariates": [*covariates]}
    centred = pl.read_csv(place / "covar.txt", separator="\t").select("IID", *covariates)
    sheet = pl.read_csv(place / "sheet.csv").select("sample_id", TRAIT)
    sheet.join(centred, left_on="sample_id", right_on="IID").write_csv(place / "centred.csv")
    types = {"sample_id": "string"} | dict.fromkeys((TRAIT, *covariates), "float64")
    inputs = {
        "all": {"format": "plink", "path": str(place / "all.bed")},
        "people": {"format": "csv", "path": str(place / "centred.csv"), "columns": types},
    }
    document = {"job": "random_scan", "results": str(place / "results"), "report": False, "inputs": inputs, "stages": [scan]}
    return pl.read_parquet(run_job(place, {**document, "outputs": {"gwas": {"from": "gwas"}}}) / "gwas" / "*.parquet")


def compared(terms: Terms, printed: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """A row a variant and test of PLINK's, with ours beside it and how far they are apart."""
    statistic = next(name for name in printed.columns if name.endswith("STAT"))
    test = pl.col("TEST").replace_strict(terms.names, default=None) if terms.several else pl.lit("")
    firth = pl.col("FIRTH?") == "Y" if "FIRTH?" in printed.columns else pl.lit(value=False)
    numbers = {"BETA": "their_beta", "SE": "their_error", "LOG10_P": "their_log_p", "OBS_CT": "their_n", statistic: "their_statistic"}
    told = printed.select(
        pl.col("ID").alias("variant_id"),
        test.alias("test"),
        firth.alias("firth"),
        *(pl.col(name).cast(pl.Float64).alias(as_) for name, as_ in numbers.items()),
    ).filter(pl.col("test").is_not_null())
    own = found if terms.several else found.with_columns(pl.lit("").alias("test"))
    own = own.select(
        "variant_id",
        "chromosome",
        "test",
        "beta",
        "standard_error",
        "neg_log_10_p_value",
        "statistic",
        "n",
        "effect_allele_frequency",
        "reason",
    )
    unfinished: Any = printed.filter(pl.col("ERRCODE") == "UNFINISHED")["ID"].implode() if "ERRCODE" in printed.columns else []
    both = told.filter(~pl.col("variant_id").is_in(unfinished)).join(own, on=["variant_id", "test"], how="left")
    p_apart = (pl.col("their_log_p") - pl.col("neg_log_10_p_value")).abs() / (pl.col("their_log_p") + 0.05)
    error_apart = (pl.col("standard_error") / pl.col("their_error") - 1).abs().fill_null(0)
    beta_apart = ((pl.col("beta") - pl.col("their_beta")) / pl.col("standard_error")).abs().fill_null(0)
    n_apart = (pl.col("n") != pl.col("their_n")).fill_null(value=False)
    of_fit = (p_apart > LIMIT) | (error_apart > LIMIT) if statistic.startswith("T") else pl.lit(value=False)
    far = of_fit | (beta_apart > LIMIT) | n_apart
    return both.with_columns(p_apart=p_apart, beta_apart=beta_apart, far=far.fill_null(value=False))


def one_cohort(seed: int, folder: Path, _regenie: Path, rows: Rows) -> tuple[str, Told]:
    """Add a cohort to the rows of the results."""
    cohort = drawn(seed, folder)
    terms = terms_of(seed, cohort)
    both = compared(terms, theirs(cohort, terms), ours(cohort, terms))
    kind = f"{cohort.scale}, {('interaction' if terms.interaction else 'genotypic') if terms.several else cohort.coding}"
    here, there = pl.col("neg_log_10_p_value").is_not_null(), pl.col("their_log_p").is_not_null()
    bad = both.filter("far").sort("beta_apart", "p_apart", descending=True, nulls_last=True)
    row = rows[kind]
    row["tests"] += both.filter(here & there).height
    row["beyond"] += bad.height
    only_here, only_there = both.filter(here & ~there), both.filter(~here & there)
    row["ours_alone"] += only_here.height
    row["theirs_alone"] += only_there.height
    shown = [some.head(MOST_TOLD).to_dicts() for some in (bad, only_there)]
    return kind, {"beyond": shown[0], "theirs_alone": shown[1]} if any(shown) else {}


if __name__ == "__main__":
    compare_cohorts("random_scans", __doc__ or "", {"tests": 0, "ours_alone": 0, "theirs_alone": 0}, one_cohort, with_regenie=False)
