"""Random sets of rare variants beside regenie: python benchmarks/random_sets.py --regenie PATH [--cohorts N] [--start SEED].

People, relatives, gaps, traits and covariates are drawn as random_cohorts.py draws them; sets, masks, bins, burdens, weights, X with both
sexes and dosages here. Both programs test the sets with regenie's predictions of its step 1. A row a kind of trait and method says what is
beyond the limits, test by test, and which rows one program alone has: docs/genomics.md names what is known of regenie's own.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.biobank_cohort import with_threads
from benchmarks.biobank_sets import FILES, KINDS, set_inputs, write_masks
from benchmarks.harness import timed
from benchmarks.random_cohorts import (
    TRAIT,
    Rows,
    Told,
    compare_cohorts,
    covariate,
    genotypes,
    imputed,
    liability_of,
    run_job,
    trait_of,
    write_bgen,
    write_people,
)
from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack

TESTS = {
    "ADD": "burden", "ADD-SKAT": "skat", "ADD-SKATO": "skat_o", "ADD-SKATO-ACAT": "skat_o_acat", "ADD-ACATV": "acat_v",
    "ADD-ACATO": "acat_o", "ADD-BURDEN-ACAT": "burden_acat", "ADD-BURDEN-SBAT_POS": "sbat_positive", "ADD-BURDEN-SBAT_NEG": "sbat_negative",
}  # fmt: skip
LIMITS = dict.fromkeys(("sbat_positive", "sbat_negative"), 0.03) | dict.fromkeys(("skat", "skat_o"), 0.01)
"""Of -log10 p: SBAT's weights are counts, and of SKAT regenie's p is often Kuonen's."""
NEAR_ONE = 1.0  # -log10 p below which Cauchy's combination of p-values near 1 makes much of little: skat_o_acat and acat_o are not compared
ERRORS, FREQUENCIES, MOST_TOLD = 2e-3, 1e-5, 5
ALONE = "--vc-tests acatv --vc-MACthr 0 --minMAC 0.5"
REFITS = {"firth_approximate": ("--firth", "--approx"), "spa": ("--spa",), "score": ()}


Printed = dict[tuple[str, str], dict[str, str]]


@dataclass(frozen=True)
class Drawn:
    """A cohort in a folder: what both programs are told of it."""

    folder: Path
    binary: bool
    dosages: bool
    method: str
    covariates: tuple[str, ...]
    burden: str
    bins: tuple[float, ...]
    greatest: float
    collapse: int
    least: int
    weights: tuple[float, float]

    @property
    def kind(self) -> str:
        """What a row of the results is of."""
        return f"{f'binary, {self.method}' if self.binary else 'quantitative'}, {self.burden}{', dosages' if self.dosages else ''}"


def drawn(seed: int, folder: Path) -> Drawn:
    """Draw a cohort and write its files: `common` for step 1, `rare` for the sets."""
    random = np.random.default_rng(seed)
    people = int(random.choice([400, 1_000, 2_500]))
    names, sexes = [f"s{place}" for place in range(people)], random.integers(1, 3, people)
    given = pl.DataFrame({"sample_id": names, "family_id": names, "sex": sexes})
    common = genotypes(random, people, 600)
    minor = np.where(common == 3, 0, common).sum(axis=1)
    common = common[(minor > 0.05 * people) & (minor < 1.95 * people)]
    write_plink(folder / "common", _sites("c", np.sort(random.integers(1, 23, len(common)))), given, iter([pack(common)]))
    sizes = random.integers(3, 40, int(random.integers(8, 26)))
    rare = _rare(random, people, int(sizes.sum()))
    of_sets = np.sort(random.integers(1, 24 if random.random() < 0.5 else 23, len(sizes)))
    chromosomes = np.repeat(of_sets, sizes)
    men_on_x = (chromosomes == 23)[:, None] & (sexes == 1)
    rare[men_on_x & (rare == 1)] = 2
    sites = _sites("r", chromosomes)
    dosages = people <= 1_000 and bool(random.random() < 0.3)
    write_plink(folder / "rare", sites, given, iter([pack(rare)]))
    if dosages:
        write_bgen(folder, sites.select("chromosome", "base_pair_location", "variant_id", "ref", "alt"), names, imputed(random, rare))
    _write_sets(
        random, sites.with_columns(set_id=pl.Series(np.repeat(np.arange(len(sizes)), sizes)).cast(pl.String).str.replace("^", "g")), folder
    )
    covariates = {f"c{place}": covariate(random, people) for place in range(int(random.integers(0, 4)))}
    scale, trait = trait_of(random, liability_of(random, np.where(rare == 3, 0, rare), list(covariates.values())))
    write_people(pl.DataFrame({"sample_id": names, TRAIT: trait, **covariates}).with_columns(pl.col(TRAIT).fill_nan(None)), folder)
    return Drawn(
        folder,
        scale == "binary",
        dosages,
        str(random.choice([*REFITS])),
        tuple(covariates),
        str(random.choice(["max", "max", "sum", "comphet"])),
        tuple(float(one) for one in np.sort(random.choice([0.005, 0.01, 0.05, 0.2], int(random.integers(1, 4)), replace=False))),
        float(random.choice([0.01, 0.1, 1.0])),
        int(random.choice([10, 10, 0, 30])),
        int(random.choice([5, 5, 1, 10])),
        ((1.0, 25.0), (1.0, 1.0), (0.5, 0.5))[int(random.choice([0, 0, 1, 2]))],
    )


def _rare(random: np.random.Generator, people: int, variants: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Calls of rare variants, some frequent and some of frequent ALT, with gaps; relatives or none."""
    frequency = np.exp(random.uniform(np.log(0.5 / people), np.log(0.05), variants))
    frequency = np.where(random.random(variants) < 0.1, random.uniform(0.05, 0.97, variants), frequency)
    calls = np.asarray(random.binomial(2, frequency[:, None], (variants, people)), np.uint8)
    if random.random() < 0.5:
        some = people // 4
        calls[:, :some] = np.where(random.random((variants, some)) < 0.5, calls[:, some : 2 * some], calls[:, :some])
    calls[random.random(calls.shape) < random.choice([0, 0.01, 0.05]) * random.uniform(0, 2, (variants, 1))] = 3
    return calls


def _sites(letter: str, chromosomes: np.ndarray[Any, Any]) -> pl.DataFrame:
    frame = pl.DataFrame({"chromosome": chromosomes.astype(str), "base_pair_location": 1_000 * np.arange(len(chromosomes)) + 1})
    return frame.with_columns(pl.format(letter + "{}", pl.int_range(pl.len())).alias("variant_id"), ref=pl.lit("A"), alt=pl.lit("G"))


def _write_sets(random: np.random.Generator, sites: pl.DataFrame, folder: Path) -> None:
    """regenie's three files."""
    kinds = pl.Series("annotation", random.choice(KINDS, len(sites), p=(0.3, 0.3, 0.4)))
    sites.select("variant_id", "set_id", kinds).write_csv(folder / "set.annotations", separator=" ", include_header=False)
    alone = sites.with_columns(kinds)
    name = pl.col("variant_id").alias("set_id")
    alone.select("variant_id", name, "annotation").write_csv(folder / "alone.annotations", separator=" ", include_header=False)
    alone.select(name, "chromosome", "base_pair_location", "variant_id").write_csv(
        folder / "alone.sets", separator=" ", include_header=False
    )
    write_masks(folder / "set.masks")
    sets = sites.group_by("set_id", maintain_order=True).agg(
        pl.col("chromosome", "base_pair_location").first(), pl.col("variant_id").str.join(",")
    )
    sets.write_csv(folder / "set.sets", separator=" ", include_header=False, quote_style="never")


def theirs(cohort: Drawn, regenie: Path) -> tuple[Printed, set[str]]:
    """The rows that regenie prints, by name of the mask and test, and sets with a variant or burden whose test it gives up.

    Its Firth test of a set's variants is with --skip-fast-firth, that of burdens without. Raises RuntimeError where it gives up.
    """
    place, method = cohort.folder, REFITS[cohort.method] if cohort.binary else ()
    slow = ("--skip-fast-firth",) if "--firth" in method else ()
    given = ["--phenoFile", str(place / "pheno.txt"), "--bt" if cohort.binary else "--qt"]
    given += ["--covarFile", str(place / "covar.txt")] if cohort.covariates else []
    first = ["--step", "1", "--bed", str(place / "common"), "--bsize", "100", "--keep", str(place / "keep.txt"), "--out", str(place / "s1")]
    timed(with_threads(regenie, 1, [*first, *given]))
    calls = f"--bgen {place}/all.bgen --sample {place}/all.sample --ref-first" if cohort.dosages else f"--bed {place}/rare"
    files, alone = (
        f"--anno-file {place}/{it}.annotations --set-list {place}/{it}.sets --mask-def {place}/set.masks" for it in ("set", "alone")
    )
    bins, weights = (",".join(map(str, numbers)) for numbers in (cohort.bins, cohort.weights))
    sets = f"{files} --build-mask {cohort.burden} --aaf-bins {bins} --vc-maxAAF {cohort.greatest} --vc-MACthr {cohort.collapse}"
    sets += f" --minMAC {cohort.least} --skat-params {weights} --vc-tests skat,skato,skato-acat,acatv,acato"
    sets += " --joint acat" if cohort.binary else " --joint acat,sbat --sbat-napprox 300 --sbat-verbose"

    def printed(told: str, *more: str) -> Printed:
        second = ["--step", "2", *calls.split(), "--bsize", "200", "--pred", str(place / "s1_pred.list"), "--out", str(place / "s2")]
        timed(with_threads(regenie, 2, [*second, *given, *told.split(), *more]))
        lines = [line.split() for line in (place / f"s2_{TRAIT}.regenie").read_text().splitlines() if not line.startswith("##")]
        return {(row["ID"], row["TEST"]): row for row in (dict(zip(lines[0], line, strict=True)) for line in lines[1:])}

    rows = printed(sets, *method)
    if slow:
        of_variants = printed(sets, *method, *slow)
        rows |= {key: row for key, row in of_variants.items() if key[1] not in ("ADD", "ADD-BURDEN-ACAT")}
    given_up = {name.partition(".")[0] for (name, _), row in rows.items() if row["LOG10P"] == "NA"}
    if method:
        by_score, tested = (
            {name.partition(".")[0] for name, test in printed(f"{alone} {ALONE}", *how) if test == "ADD-ACATV"}
            for how in ((), (*method, *slow))
        )
        lost = by_score - tested
        given_up |= {name for name, _, _, own in map(str.split, (place / "set.sets").open()) if lost & {*own.split(",")}}
    return rows, given_up


def ours(cohort: Drawn) -> tuple[pl.DataFrame, list[str]]:
    """The rows of set_association, and what the run warned of."""
    place, types = cohort.folder, {"sample_id": "string"} | dict.fromkeys((TRAIT, *cohort.covariates), "float64")
    inputs = set_inputs(place, "set")
    inputs["rare"] = {"format": "plink", "path": str(place / "rare.bed")}
    if cohort.dosages:
        inputs["rare"] = {"format": "bgen", "path": str(place / "all.bgen"), "field": "dosages"}
    inputs["people"] = {"format": "csv", "path": str(place / "sheet.csv"), "columns": types}
    inputs["theirs"] = {"format": "loco", "path": str(place / "s1_pred.list")}
    tested: dict[str, Any] = {
        "traits": [TRAIT], "covariates": [*cohort.covariates], "burden": cohort.burden, "max_frequencies": [*cohort.bins],
        "component_max_frequency": cohort.greatest, "collapse_mac": cohort.collapse, "min_mac": cohort.least, "weights": [*cohort.weights],
        "tests": ["burden", "skat", "skat_o", "skat_o_acat", "acat_v", "acat_o", "burden_acat", *([] if cohort.binary else ["sbat"])],
    }  # fmt: skip
    tested |= {"kind": "binary", "method": cohort.method} if cohort.binary else {}
    roles = {"genotypes": "rare", "samples": "people", "sets": "members", "predictions": "theirs"}
    document = {
        "job": "random_sets", "results": str(place / "results"), "report": False, "inputs": inputs, "outputs": {"tests": {"from": "tests"}},
        "stages": [
            {"use": "variant_sets", "from": {name: name for name in FILES}, "as": "members"},
            {"use": "set_association", "from": roles, "as": "tests", **tested},
        ],
    }  # fmt: skip
    published = run_job(place, document)
    return pl.read_parquet(published / "tests" / "*.parquet"), json.loads((published / "run.json").read_text())["warnings"]


def beyond(printed: Printed, given_up: set[str], found: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows whose numbers are farther apart than the limits, and those that one program alone has; not of sets that regenie gave up on."""
    bad, left, codes = list[dict[str, Any]](), dict(printed), {test: code for code, test in TESTS.items()}
    for row in found.filter(pl.col("neg_log_10_p_value").is_not_null() & (pl.col("test") != "sbat")).iter_rows(named=True):
        name = ".".join(word for word in (row["set_id"], row["mask"], row["frequency_bin"]) if word)
        line, test, own = left.pop((name, codes[row["test"]]), None), row["test"], row["neg_log_10_p_value"]
        told = {"row": name, "test": test} | {one: row[one] for one in ("n", "effect_allele_frequency", "beta", "standard_error")}
        if line is None and test != "skat_o":  # of which regenie leaves rows out
            bad.append({**told, "neg_log_10_p_value": own, "theirs": None})
        elif line is not None and line["LOG10P"] != "NA" and (test == "burden" or row["set_id"] not in given_up):
            theirs = float(line["LOG10P"])
            far = abs(own - theirs) > LIMITS.get(test, 2e-3) * max(1, theirs)
            far &= test not in ("skat_o_acat", "acat_o") or max(theirs, own) > NEAR_ONE
            if test == "burden":
                far |= abs(row["standard_error"] / float(line["SE"]) - 1) > ERRORS
                far |= abs(row["effect_allele_frequency"] - float(line["A1FREQ"])) > FREQUENCIES
            if far or row["n"] != int(line["N"]):
                bad.append(
                    {**told, "neg_log_10_p_value": own, "theirs": {one: line[one] for one in ("N", "A1FREQ", "BETA", "SE", "LOG10P")}}
                )
    only = [(name, TESTS[code], line["LOG10P"]) for (name, code), line in left.items() if line["LOG10P"] != "NA" and code in TESTS]
    return bad + [{"row": name, "test": test, "theirs": theirs, "only": "regenie"} for name, test, theirs in only]


def one_cohort(seed: int, folder: Path, regenie: Path, rows: Rows) -> tuple[str, Told]:
    """Add a cohort to the rows of the results."""
    cohort = drawn(seed, folder)
    printed, given_up = theirs(cohort, regenie)
    found, warned = ours(cohort)
    row, bad = rows[cohort.kind], beyond(printed, given_up, found)
    row["rows"] += len(printed)
    row["beyond"] += len(bad)
    return cohort.kind, {"warnings": warned, "beyond": len(bad), "rows": bad[:MOST_TOLD]} if bad or warned else {}


if __name__ == "__main__":
    compare_cohorts("random_sets", __doc__ or "", {"rows": 0}, one_cohort)
