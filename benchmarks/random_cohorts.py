"""Random cohorts beside regenie: python benchmarks/random_cohorts.py --regenie PATH [--cohorts N] [--start SEED] [--times].

Each has its own people, chromosomes, frequencies, relatives, gaps, traits, covariates of very different scales, coding and method; --times:
times to an event, and no other traits. Both programs do step 1, and step 2 with regenie's predictions. regenie gets covariates about their
means (its fits of binary traits go astray with large ones), and in step 1, of times in step 2, too, the people of a trait alone. A row a
kind of trait, coding and method says what is beyond the limits: likelihoods of regenie's that did not converge, and those with two maxima,
are to be looked at by hand.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.biobank_cohort import with_threads
from benchmarks.harness import timed, write_result
from pipeline import api
from pipeline.errors import PipelineError
from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack

Floats = NDArray[np.float64]
Rows = dict[str, dict[str, Any]]
"""What comes out, by kind of cohort."""
Told = dict[str, Any]
Add = Callable[..., tuple[str, Told]]
"""Adds a cohort of this seed, in this folder, beside this regenie, to these rows; gives its kind and what is to be told of it."""
TRAIT, EVENT = "y", "event"
QUANTITATIVE, TIMES = "quantitative", "time_to_event"
PREDICTIONS, P_VALUES, ERRORS, FREQUENCIES = 2e-4, 2e-3, 2e-3, 1e-5
"""Limits: of predictions in their spread, of -log10 p in itself and 0.05, of standard errors in themselves, of frequencies."""
REFITS = {"firth_approximate": ("--firth", "--approx"), "firth": ("--firth",), "spa": ("--spa",), "score": ()}
AT_THE_SCREEN, MOST_TOLD = 2e-3, 5  # of -log10 p, where one program may test again what the other does not; of variants


@dataclass(frozen=True)
class Drawn:
    """A cohort in a folder: what both programs are told of it."""

    folder: Path
    scale: str
    coding: str
    method: str
    block_size: int
    covariates: tuple[str, ...]
    dosages: bool = False

    @property
    def kind(self) -> str:
        """What a row of the results is of."""
        method = "" if self.scale == QUANTITATIVE else f", {self.method}"
        return f"{self.scale}, {self.coding}{method}{', dosages' if self.dosages else ''}"


def drawn(seed: int, folder: Path, *, times: bool = False) -> Drawn:
    """Draw a cohort, with a trait or `times` to an event, and write its files; `common` has the variants of step 1."""
    random = np.random.default_rng([seed, 1] if times else seed)
    people, variants = int(random.choice([150, 400, 1_000, 2_500, 5_200])), int(random.choice([150, 600, 2_000]))
    calls = genotypes(random, people, variants)
    chromosomes = np.sort(random.choice(np.arange(1, 24), variants, p=random.dirichlet(np.full(23, random.choice([0.1, 5])))))
    sexes = random.integers(1, 3, people)
    men_on_x = (chromosomes == 23)[:, None] & (sexes == 1)
    calls[men_on_x & (calls == 1)] = 2
    known = np.where(calls == 3, 0, calls)
    covariates = {f"c{place}": covariate(random, people) for place in range(int(random.integers(0, 5)))}
    liability = liability_of(random, known, list(covariates.values()))
    scale, trait = times_of(random, liability) if times else trait_of(random, liability)
    names = [f"s{place}" for place in range(people)]
    frame = pl.DataFrame({"chromosome": chromosomes.astype(str), "base_pair_location": 1_000 * np.arange(variants) + 1})
    frame = frame.with_columns(pl.format("v{}", pl.int_range(pl.len())).alias("variant_id"), ref=pl.lit("A"), alt=pl.lit("G"))
    called = (calls != 3).sum(axis=1)
    minor = np.minimum(known.sum(axis=1), 2 * called - known.sum(axis=1))
    given = pl.DataFrame({"sample_id": names, "family_id": names, "sex": sexes})
    for name, some in (("all", np.ones(variants, bool)), ("common", minor >= np.maximum(10, 0.01 * 2 * called))):
        write_plink(folder / name, frame.filter(some), given, iter([pack(calls[some])]))
    events = {EVENT: (trait > 0).astype(float)} if times else {}
    sheet = pl.DataFrame({"sample_id": names, TRAIT: abs(trait) if times else trait, **events, **covariates})
    write_people(sheet.with_columns(pl.col(TRAIT).fill_nan(None)), folder)
    coding = str(random.choice(["additive", "additive", "dominant", "recessive"]))
    methods = ["score", "firth_approximate"] if times else [name for name in REFITS if people <= 1_000 or name != "firth"]
    method = str(random.choice(methods))
    block_size, dosages = int(random.choice([20, 100, 1_000])), people <= 1_000 and bool(random.random() < 0.5)
    if dosages:
        write_bgen(folder, frame, names, imputed(random, calls))
    return Drawn(folder, scale, coding, method, block_size, tuple(covariates), dosages)


def write_people(sheet: pl.DataFrame, folder: Path) -> None:
    """The sheet, regenie's two files, its covariates about their means, and who has the trait."""
    events = [EVENT] if EVENT in sheet.columns else []
    covariates = [name for name in sheet.columns[2:] if name not in events]
    sheet.write_csv(folder / "sheet.csv")
    centred = sheet.with_columns(((pl.col(name) - pl.col(name).mean()) / pl.col(name).std()).alias(name) for name in covariates)
    both = centred.rename({"sample_id": "IID"}).select(pl.col("IID").alias("FID"), pl.all())
    both.select("FID", "IID", TRAIT, *events).write_csv(folder / "pheno.txt", separator="\t", null_value="NA")
    both.select("FID", "IID", *covariates).write_csv(folder / "covar.txt", separator="\t")
    both.filter(pl.col(TRAIT).is_not_null()).select("FID", "IID").write_csv(folder / "keep.txt", separator="\t", include_header=False)


def imputed(random: np.random.Generator, calls: NDArray[np.uint8]) -> Floats:
    """Dosages `[variants, people]` near the calls by variants' own quality, NaN where there is none."""
    spread = random.choice([0, 0.02, 0.1, 0.4], (len(calls), 1))
    near = (calls + random.normal(size=calls.shape) * spread).clip(0, 2).round(3)
    return np.where(calls == 3, np.nan, near)


def write_bgen(folder: Path, sites: pl.DataFrame, names: list[str], dosages: Floats) -> None:
    """Dosages as `all.bgen`, by a job of ours: its bytes are checked against the bgen package by the tests."""
    head = (
        "##fileformat=VCFv4.2\n##FORMAT=<ID=DS,Number=A,Type=Float,Description=>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t"
    )
    with (folder / "all.vcf").open("w", encoding="utf-8") as file:
        file.write(head + "\t".join(names) + "\n")
        for site, values in zip(sites.iter_rows(), dosages, strict=True):
            cells = ("." if np.isnan(value) else f"{value:.3f}" for value in values)
            file.write("\t".join((*map(str, site), ".", ".", ".", "DS", *cells)) + "\n")
    document = {"job": "bgen", "results": str(folder / "bgen"), "report": False, "outputs": {"all": {"from": "all", "format": "bgen"}}}
    document["inputs"] = {"all": {"format": "vcf", "path": str(folder / "all.vcf"), "field": "dosages"}}
    for written in (run_job(folder, document) / "all").iterdir():
        written.rename(folder / f"all{written.suffix}")


def run_job(folder: Path, document: dict[str, Any]) -> Path:
    """Run a job of ours, whose file is written to a folder, without a word; the folder of what it published."""
    path = folder / f"{document['job']}.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        return Path(api.load(path).run().path)


def genotypes(random: np.random.Generator, people: int, variants: int) -> NDArray[np.uint8]:
    """Calls `[variants, people]` of three populations, rare and common, with gaps (3) and relatives or without."""
    rare = random.random(variants) < 0.2
    frequency = np.where(rare, random.uniform(1.5 / people, max(0.02, 3 / people), variants), random.uniform(0.02, 0.98, variants))
    drift = random.normal(0, random.choice([0, 0.05, 0.3]), (variants, 3)) * np.sqrt(frequency * (1 - frequency))[:, None]
    of_people = (frequency[:, None] + drift).clip(5e-4, 1 - 5e-4)[:, random.integers(0, 3, people)]
    calls = np.asarray(random.binomial(2, of_people), np.uint8)
    if random.random() < 0.5:
        some = people // 4
        calls[:, :some] = np.where(random.random((variants, some)) < 0.5, calls[:, some : 2 * some], calls[:, :some])
    calls[random.random(calls.shape) < random.choice([0, 0.01, 0.1]) * random.uniform(0, 2, (variants, 1))] = 3
    return calls


def covariate(random: np.random.Generator, people: int) -> Floats:
    """One of any scale and shape: normal, a code, a year, an income, a rare mark."""
    shapes = (
        lambda: random.normal(size=people),
        lambda: random.integers(1, 3, people).astype(float),
        lambda: 2_000.0 + random.integers(0, 9, people),
        lambda: random.lognormal(10, 2, people).round(2),
        lambda: (random.random(people) < 0.08).astype(float),
    )
    return np.asarray(shapes[random.integers(len(shapes))](), np.float64)


def liability_of(random: np.random.Generator, copies: NDArray[np.uint8], covariates: list[Floats]) -> Floats:
    """What variants, covariates and chance make of people."""
    variants, people = copies.shape
    causal = random.choice(variants, min(variants, int(random.choice([3, 50]))), replace=False)
    share, liability = float(random.choice([0, 0.3, 0.8])), random.normal(size=len(causal)) @ copies[causal].astype(float)
    values = np.sqrt(share) * (liability - liability.mean()) / (liability.std() + 1e-9) + np.sqrt(1 - share) * random.normal(size=people)
    values += sum(((one - one.mean()) / (one.std() + 1e-9) * random.choice([0, 0.5]) for one in covariates), np.zeros(people))
    return np.asarray(values)


def times_of(random: np.random.Generator, liability: Floats) -> tuple[str, Floats]:
    """Times until the event, or less those of who is seen no longer; NaN where missing."""
    people = len(liability)
    event = random.exponential(10, people) * np.exp(-liability * random.choice([0.3, 1]))
    seen = random.exponential(10 * random.choice([0.1, 1, 10]), people)
    values = np.where(event <= seen, event, -seen) * random.choice([1e-2, 1, 1e3])
    if random.random() < 0.5:  # many end at one time
        values = np.sign(values) * np.ceil(abs(values) * 20 / abs(values).max())
    values = np.sign(values) * abs(values).round(5).clip(1e-5)
    values[random.random(people) < random.choice([0, 0, 0.02, 0.2])] = np.nan
    return TIMES, values


def trait_of(random: np.random.Generator, values: Floats) -> tuple[str, Floats]:
    """The scale of a trait that follows a liability, and its values, NaN where missing."""
    people = len(values)
    binary = bool(random.random() < 2 / 3)
    if binary:
        values = (values > np.quantile(values, 1 - random.choice([0.5, 0.2, 0.1 if people >= 400 else 0.3]))).astype(float)
    else:
        values = np.exp(1.5 * values) if random.random() < 0.3 else values
        values = (values * random.choice([1e-3, 1, 1e5]) + random.choice([0, 1e3])).round(7)
    values[random.random(people) < random.choice([0, 0, 0.02, 0.2])] = np.nan
    return "binary" if binary else QUANTITATIVE, values


def theirs(cohort: Drawn, regenie: Path) -> None:
    """Both steps of regenie's, in the cohort's folder. Raises RuntimeError where it gives up."""
    place = cohort.folder
    kinds = {"binary": ["--bt"], QUANTITATIVE: ["--qt"], TIMES: ["--t2e", "--phenoColList", TRAIT, "--eventColList", EVENT]}
    given = ["--phenoFile", str(place / "pheno.txt"), *kinds[cohort.scale]]
    given += ["--covarFile", str(place / "covar.txt")] if cohort.covariates else []
    first = ["--step", "1", "--bed", str(place / "common"), "--bsize", str(cohort.block_size), "--out", str(place / "s1")]
    first += ["--keep", str(place / "keep.txt")]  # whom step 1 drops itself moves its predictions by up to 2e-3 of their spread
    calls = ["--bed", str(place / "all")]
    if cohort.dosages:
        calls = ["--bgen", str(place / "all.bgen"), "--sample", str(place / "all.sample"), "--ref-first"]
    second = ["--step", "2", *calls, "--bsize", "200", "--pred", str(place / "s1_pred.list"), "--minMAC", "1"]
    second += [*(() if cohort.scale == QUANTITATIVE else REFITS[cohort.method]), "--out", str(place / "s2")]
    second += ["--keep", str(place / "keep.txt")] if cohort.scale == TIMES else []
    second += [] if cohort.coding == "additive" else ["--test", cohort.coding]
    for step, own in ((1, first), (2, second)):
        timed(with_threads(regenie, step, [*own, *given]))


def ours(cohort: Drawn) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Predictions of step 1, the rows of step 2 with regenie's, and what the run warned of."""
    place, scan = cohort.folder, {"binary": "logistic_gwas", QUANTITATIVE: "linear_gwas", TIMES: "cox_gwas"}[cohort.scale]
    traits = {TRAIT: {"time": TRAIT, "event": EVENT}} if cohort.scale == TIMES else [TRAIT]
    fields = {"traits": traits, "covariates": [*cohort.covariates]}
    types = (
        {"sample_id": "string"} | dict.fromkeys((TRAIT, *cohort.covariates), "float64") | ({EVENT: "float64"} if scan == "cox_gwas" else {})
    )
    first: dict[str, Any] = {"use": "whole_genome_regression", "from": {"genotypes": "common", "samples": "people"}, "as": "wgr", **fields}
    first |= {"block_size": cohort.block_size, "kind": cohort.scale}
    roles = {"genotypes": "all", "samples": "people", "predictions": "theirs"}
    second: dict[str, Any] = {
        "use": scan,
        "from": roles,
        "as": "gwas",
        "coding": cohort.coding,
        **fields,
    }
    second |= {} if cohort.scale == QUANTITATIVE else {"method": cohort.method}
    inputs: dict[str, Any] = {name: {"format": "plink", "path": str(place / f"{name}.bed")} for name in ("common", "all")}
    if cohort.dosages:
        inputs["all"] = {"format": "bgen", "path": str(place / "all.bgen"), "field": "dosages"}
    inputs["people"] = {"format": "csv", "path": str(place / "sheet.csv"), "columns": types}
    inputs["theirs"] = {"format": "loco", "path": str(place / "s1_pred.list")}
    document = {"job": "random_cohort", "results": str(place / "results"), "report": False, "inputs": inputs, "stages": [first, second]}
    document["outputs"] = {name: {"from": name} for name in ("gwas", "wgr")}
    published = run_job(place, document)
    predictions, rows = (pl.read_parquet(published / name / "*.parquet") for name in ("wgr", "gwas"))
    return predictions, rows, json.loads((published / "run.json").read_text())["warnings"]


def predictions_apart(cohort: Drawn, found: pl.DataFrame) -> float:
    """The largest difference of predictions, in the spread of regenie's."""
    header, *lines = (cohort.folder / "s1_1.loco").read_text().splitlines()
    people, worst = [name.partition("_")[0] for name in header.split()[1:]], 0.0
    own = {name: dict(rows.select("sample_id", "prediction").iter_rows()) for (name,), rows in found.group_by("chromosome")}
    for line in lines:
        chromosome, *numbers = line.split()
        values = np.array([np.nan if number == "NA" else float(number) for number in numbers])
        mine = np.array([own["X" if chromosome == "23" else chromosome].get(name, np.nan) for name in people], np.float64)
        there = ~np.isnan(values)
        worst = max(worst, float(np.nan_to_num(abs(mine - values)[there], nan=np.inf).max() / max(values[there].std(), 1e-6)))
    return worst


def beyond(cohort: Drawn, found: pl.DataFrame) -> tuple[int, list[dict[str, Any]]]:
    """How many variants both tested, and those whose numbers are apart by more than the limits, the worst first."""
    printed = pl.read_csv(cohort.folder / f"s2_{TRAIT}.regenie", separator=" ", null_values=["NA"], infer_schema_length=None)
    columns = {"LOG10P": "their_log_p", "SE": "their_error", "BETA": "their_beta", "N": "their_n", "A1FREQ": "their_frequency"}
    numbers = printed.select(pl.col("ID").alias("variant_id"), *(pl.col(one).cast(pl.Float64).alias(name) for one, name in columns.items()))
    both = (
        numbers.drop_nulls("their_log_p")
        .join(found, on="variant_id", how="left")
        .filter(~((pl.col("their_log_p") - 1.30103).abs() < AT_THE_SCREEN))
    )
    p_apart = (pl.col("their_log_p") - pl.col("neg_log_10_p_value")).abs() / (pl.col("their_log_p").abs() + 0.05)
    apart = both.with_columns(p_apart=p_apart, error_apart=(pl.col("standard_error") / pl.col("their_error") - 1).abs())
    frequency = (pl.col("their_frequency") - pl.col("effect_allele_frequency")).abs() > FREQUENCIES
    far = frequency | (pl.col("p_apart") > P_VALUES) | (pl.col("error_apart") > ERRORS) | (pl.col("their_n") != pl.col("n"))
    bad = apart.filter(far | pl.col("neg_log_10_p_value").is_null()).sort("p_apart", descending=True, nulls_last=False)
    shown = (
        "variant_id",
        "chromosome",
        "their_frequency",
        "effect_allele_frequency",
        "their_n",
        "n",
        "their_beta",
        "beta",
        "their_error",
        "standard_error",
        "their_log_p",
    )
    return both.height, bad.select(*shown, "neg_log_10_p_value", "test", "reason").to_dicts()


def compare_cohorts(name: str, description: str, counts: dict[str, Any], add: Add, *, with_regenie: bool = True, **switches: str) -> None:
    """Draw, run and compare the cohorts that the command line asks for, each by `add`; print and write what came out.

    `switches` are those of the command line that `add` is told besides, with what they do.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--regenie", type=Path, required=with_regenie, default=Path())
    parser.add_argument("--cohorts", type=int, default=100)
    parser.add_argument("--start", type=int, default=1)
    for switch, what in switches.items():
        parser.add_argument(f"--{switch}", action="store_true", help=what)
    given = parser.parse_args()
    asked = {switch: getattr(given, switch) for switch in switches}
    rows = defaultdict[str, dict[str, Any]](lambda: {"cohorts": 0, **counts, "beyond": 0, "told": []})
    for seed in range(given.start, given.start + given.cohorts):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                kind, told = add(seed, Path(scratch), given.regenie.absolute(), rows, **asked)
            except RuntimeError as error:
                kind, told = "given up by regenie", {"error": next((line for line in str(error).splitlines() if "ERROR" in line), "")}
            except PipelineError as error:
                kind, told = "ended with an error here", {"error": str(error)}
        rows[kind]["cohorts"] += 1
        if told:
            rows[kind]["told"].append({"seed": seed, **told})
            print(kind, json.dumps(rows[kind]["told"][-1]), flush=True)
    for kind, row in sorted(rows.items()):
        print(f"{kind}: {', '.join(f'{value} {key}' for key, value in row.items() if key != 'told')}")
    write_result(name, [{"work": kind, **row} for kind, row in sorted(rows.items())])


def one_cohort(seed: int, folder: Path, regenie: Path, rows: Rows, *, times: bool) -> tuple[str, Told]:
    """Add a cohort, with a trait or `times` to an event, to the rows of the results."""
    cohort = drawn(seed, folder, times=times)
    theirs(cohort, regenie)
    predictions, found, warned = ours(cohort)
    apart, (variants, bad) = predictions_apart(cohort, predictions), beyond(cohort, found)
    row = rows[cohort.kind]
    row["variants"] += variants
    row["beyond"] += len(bad)
    row["predictions_apart"] = max(row["predictions_apart"], apart)
    told = {"predictions_apart": apart, "warnings": warned, "variants": bad[:MOST_TOLD]}
    return cohort.kind, told if bad or warned or apart > PREDICTIONS else {}


if __name__ == "__main__":
    counts = {"variants": 0, "predictions_apart": 0.0}
    compare_cohorts("random_cohorts", __doc__ or "", counts, one_cohort, times="draw times to an event, and no other traits")
