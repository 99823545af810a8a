"""The genomics stages beside PLINK 2: python benchmarks/genomics.py [--only WORK ...] [--runs N] [--data DIR] [--backend cpu|gpu].

A simulated cohort of 2,500 people and 200,000 variants (data/make_cohort.py), two threads each, in turn. Ours reads our Parquet and PLINK
its pgen, but for vcf_import and chain, which begin with the VCF. `ours_s` and `peer_s` leave start-up out: ours is the wall time that
run.json gives, of a process that has run the job before; PLINK's is that of its process less that of `plink2 --version`. `ours_whole_s` and
`peer_whole_s` are whole processes; `chain` is judged by those. Memory is the peak of the whole process, on the cohort and, where the work
reads Parquet, on one with twice the variants. fallback_all and firth_all refit every variant of 500 people
and 50,000 variants. PLINK 2 needs libopenblas0-pthread; OPENBLAS_NUM_THREADS is 1, for pca_pruned 2.
"""

from __future__ import annotations

import argparse
import io
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ruamel.yaml import YAML

from benchmarks.cohort import Cohort
from benchmarks.harness import Timing, python, timed, write_result
from benchmarks.warm import Warm

THREADS = 2
SMALL = (500, 50_000)  # people and variants
COVARIATES = [f"c{i}" for i in range(1, 11)]
AXES = [f"pc{i}" for i in range(1, 6)]
TRAITS = [f"y{i}" for i in range(1, 101)]


@dataclass(frozen=True)
class Work:
    """One row of the table: our stages and outputs over the input `calls`, PLINK's commands, and the ratio to reach."""

    reach: float
    stages: list[dict[str, Any]]
    outputs: dict[str, Any]
    plink: list[str]
    data: str = "cohort"
    blas_threads: int = 1
    whole: bool = False
    small: bool = False
    """Of the cohort of 500 people."""
    extra: dict[str, Any] = field(default_factory=dict)


def scan(use: str, traits: list[str], **more: Any) -> list[dict[str, Any]]:
    """An association stage on the sheet's covariates."""
    return [
        {"use": use, "from": {"genotypes": "calls", "samples": "sheet"}, "as": "gwas", "traits": traits, "covariates": COVARIATES, **more}
    ]


GWAS = {"associations": {"from": "gwas"}}
PAIR = "--pfile {data} --pheno {pheno} --covar {covar} --covar-variance-standardize --out {out}"
PCA = {"axes": {"from": "axes"}, "eigenvalues": {"from": "axes.eigenvalues"}}
PRUNE = {"kept": {"from": "pruned", "columns": ["variant_id"]}}


def linear(reach: float, traits: list[str], data: str, **more: Any) -> Work:
    """A linear scan of one trait, or of many with p < 0.01 written."""
    options, names = ("--pfilter 0.01", "y1-y100") if len(traits) > 1 else ("", traits[0])
    more |= {"max_p": 0.01} if len(traits) > 1 else {}
    return Work(reach, scan("linear_gwas", traits, **more), GWAS, [f"{PAIR} --glm hide-covar {options} --pheno-name {names}"], data)


def logistic(trait: str) -> Work:
    """A logistic scan with Firth's correction where the plain fit fails."""
    return Work(5, scan("logistic_gwas", [trait]), GWAS, [f"{PAIR} --glm hide-covar firth-fallback --1 --pheno-name {trait}"])


def refitted(reach: float, method: str, option: str) -> Work:
    """A logistic scan that refits every variant, of few people."""
    command = f"{PAIR} --glm hide-covar {option} --1 --pheno-name case_30"
    return Work(reach, scan("logistic_gwas", ["case_30"], method=method, screen=1), GWAS, [command], small=True)


def pca(reach: float, data: str, method: str, blas_threads: int = 1) -> Work:
    """Ten principal components."""
    command = "--pfile {data} --pca 10 " + ("approx" if method == "randomized" else "") + " --out {out}"
    stage = {"use": "principal_components", "from": "calls", "as": "axes", "components": 10, "method": method}
    return Work(reach, [stage], PCA, [command], data, blas_threads)


def prune(window: str, **options: Any) -> Work:
    """Pruning by linkage disequilibrium."""
    stage = {"use": "ld_prune", "from": "calls", "as": "pruned", "r2": 0.2, **options}
    return Work(1, [stage], PRUNE, [f"--pfile {{data}} --indep-pairwise {window} 0.2 --out {{out}}"])


QC: list[dict[str, Any]] = [
    {"use": "sample_qc", "from": "calls", "as": "people"},
    {"use": "variant_qc", "from": "calls", "as": "measured"},
]
CHAIN: list[dict[str, Any]] = [
    {"use": "sample_qc", "from": "calls", "as": "people", "min_call_rate": 0.95},
    {"use": "variant_qc", "from": "people", "as": "passed", "min_call_rate": 0.98, "min_maf": 0.01, "min_hwe_p": 1e-15},
    {"use": "ld_prune", "from": "passed", "as": "pruned", "window_variants": 50, "step": 5, "r2": 0.2},
    {"use": "principal_components", "from": "pruned", "as": "axes", "components": 10},
    {"use": "join", "from": {"left": "axes", "right": "sheet"}, "as": "table", "on": "sample_id", "how": "inner"},
    {
        "use": "linear_gwas",
        "from": {"genotypes": "passed", "samples": "table"},
        "as": "gwas",
        "traits": ["y1"],
        "covariates": COVARIATES[2:] + AXES,
    },
]
PLINK_CHAIN = [
    "--vcf {vcf} --make-pgen --out {out}.all",
    "--pfile {out}.all --mind 0.05 --make-pgen --out {out}.people",
    "--pfile {out}.people --geno 0.02 --maf 0.01 --hwe 1e-15 --make-pgen --out {out}.passed",
    "--pfile {out}.passed --indep-pairwise 50 5 0.2 --out {out}.pruned",
    "--pfile {out}.passed --extract {out}.pruned.prune.in --pca 10 --out {out}.axes",
    "--pfile {out}.passed --pheno {pheno} --pheno-name y1 --covar {out}.covar --covar-name c3-c10,PC1-PC5 "
    "--covar-variance-standardize --glm hide-covar --out {out}",
]
WORKS = {
    "linear_missing": linear(8, ["y1"], "cohort"),
    "linear": linear(1.2, ["y1"], "complete"),
    "linear_100_missing": linear(20, TRAITS, "cohort"),
    "linear_100": linear(3, TRAITS, "complete"),
    "logistic_30": logistic("case_30"),
    "logistic_2": logistic("case_2"),
    "fallback_all": refitted(1.5, "firth_fallback", "firth-fallback"),
    "firth_all": refitted(2, "firth", "firth"),
    "pca_exact": pca(2, "cohort", "exact"),
    "pca_pruned": pca(1, "pruned", "exact", 2),
    "pca_randomized": pca(5, "cohort", "randomized"),
    "qc": Work(
        0.7,
        QC,
        {"variants": {"from": "measured"}, "samples": {"from": "people.measured"}},
        ["--pfile {data} --freq --missing --hardy --out {out}"],
    ),
    "prune_50_5": prune("50 5", window_variants=50, step=5),
    "prune_200kb": prune("200kb 1", window_kb=200, step=1),
    "vcf_import": Work(1, [], {"genotypes": {"from": "calls", "calls": True}}, ["--vcf {vcf} --make-pgen --out {out}"], "vcf"),
    "chain": Work(1.5, CHAIN, {**GWAS, "axes": {"from": "axes"}}, PLINK_CHAIN, "vcf", whole=True),
}


class Runner:
    """Runs both sides of a work over one cohort, results in a scratch folder."""

    def __init__(self, cohort: Cohort, scratch: Path, backend: str) -> None:
        self.cohort, self.scratch, self.backend = cohort, scratch, backend

    def job(self, name: str, work: Work, data: str) -> Path:
        """Our job file of a work on one of the cohort's tables."""
        source = {"format": "vcf", "path": str(self.cohort.vcf)} if data == "vcf" else {"path": str(self.cohort.parquet(data))}
        types = {"sample_id": "string", **dict.fromkeys([*COVARIATES, *TRAITS], "float64"), "case_30": "int8", "case_2": "int8"}
        sheet = {"format": "csv", "path": str(self.cohort.sheet), "columns": types}
        document = {
            "job": f"benchmark_{name}",
            "results": str(self.scratch / f"ours_{data}"),
            "backend": self.backend,
            "report": work.whole,
            "inputs": {"calls": {"format": "parquet", **source}, **({"sheet": sheet} if "sheet" in str(work.stages) else {})},
            "stages": work.stages,
            "outputs": work.outputs,
        }
        path, text = self.scratch / f"{name}_{data}.yaml", io.StringIO()
        YAML().dump(document, text)
        path.write_text(text.getvalue(), encoding="utf-8")
        return path

    def plink(self, work: Work) -> Timing:
        """PLINK's commands, one after another."""
        out = self.scratch / "plink"
        places = {"out": out, "vcf": self.cohort.vcf, "pheno": self.cohort.pheno, "covar": self.cohort.covar}
        data = "" if work.data == "vcf" else self.cohort.pgen(work.data)
        environment = ["env", f"OPENBLAS_NUM_THREADS={work.blas_threads}"]
        found = []
        for command in work.plink:
            if f"{out}.covar" in command.format(data=data, **places):
                self.cohort.write_covariates(Path(f"{out}.axes.eigenvec"), Path(f"{out}.covar"), len(AXES))
            words = shlex.split(command.format(data=data, **places))
            found.append(timed([*environment, "plink2", "--threads", str(THREADS), *words]))
        return Timing(sum(run.seconds for run in found), max(run.peak_mb for run in found))


@cache
def plink_startup() -> float:
    """Seconds of a PLINK process that does nothing."""
    return statistics.median(timed(["plink2", "--version"]).seconds for _ in range(5))


def measure(name: str, runner: Runner, runs: int) -> dict[str, Any]:
    """One row: both sides in turn, after one run of ours that does not count (it compiles what is not compiled yet)."""
    work = WORKS[name]
    job = runner.job(name, work, work.data)
    command = python("-m", "pipeline.run", str(job), "--quiet", "--fresh")
    warm, whole, peer = list[float](), list[Timing](), list[Timing]()
    with Warm() as process:
        process.run(job)
        timed(command)
        for _ in range(runs):
            warm.append(process.run(job))
            whole.append(timed(command))
            peer.append(runner.plink(work))
    ours_s = [round(run.seconds, 3) for run in whole] if work.whole else [round(seconds, 3) for seconds in warm]
    taken_off = 0.0 if work.whole else plink_startup() * len(work.plink)
    peer_s = [round(run.seconds - taken_off, 3) for run in peer]
    each = [round(b / a, 3) for a, b in zip(ours_s, peer_s, strict=True)]
    row = {
        "work": name,
        "ours_s": ours_s,
        "peer": "PLINK 2" + (" (whole processes)" if work.whole else ""),
        "peer_s": peer_s,
        "ratio": round(statistics.median(peer_s) / statistics.median(ours_s), 3),
        "ratio_spread": [min(each), max(each)],
        "ratio_to_reach": work.reach,
        "ours_whole_s": [round(run.seconds, 3) for run in whole],
        "peer_whole_s": [round(run.seconds, 3) for run in peer],
        "ours_peak_mb": [round(run.peak_mb) for run in whole],
        "peer_peak_mb": [round(run.peak_mb) for run in peer],
    }
    if work.data == "cohort":
        doubled = python("-m", "pipeline.run", str(runner.job(name, work, "doubled")), "--quiet", "--fresh")
        row["ours_peak_mb_twice_the_variants"] = round(timed(doubled).peak_mb)
    print(_line(row), flush=True)
    return row


def _line(row: dict[str, Any]) -> str:
    """A row for the reader."""
    ours, peer = statistics.median(row["ours_s"]), statistics.median(row["peer_s"])
    memory = f"{max(row['ours_peak_mb'])} MB"
    if "ours_peak_mb_twice_the_variants" in row:
        memory += f", {row['ours_peak_mb_twice_the_variants']} MB for twice the variants"
    return f"{row['work']}: ours {ours:.2f} s, PLINK 2 {peer:.2f} s, ratio {row['ratio']} (to reach {row['ratio_to_reach']}); {memory}"


def main() -> None:
    """Run the works asked for and write one result file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", action="append", choices=[*WORKS], help="one work alone; may be given several times")
    options.add_argument("--runs", type=int, default=3, help="counted runs of each side")
    options.add_argument("--data", type=Path, help="folder for the cohort, made there the first time; a temporary one where not given")
    options.add_argument("--backend", choices=["cpu", "gpu"], default="cpu")
    options.add_argument("--people", type=int, default=2_500)
    options.add_argument("--variants", type=int, default=200_000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, names = chosen.data or Path(scratch) / "cohort", chosen.only or [*WORKS]
        sizes = {False: (folder, chosen.people, chosen.variants), True: (folder / "small", *SMALL)}
        cohorts = {small: Cohort(*sizes[small]) for small in sorted({WORKS[name].small for name in names})}
        plink = subprocess.run(["plink2", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        rows = list[dict[str, Any]]()
        try:
            for name in names:
                runner = Runner(cohorts[WORKS[name].small], Path(scratch), chosen.backend)
                rows.append({**measure(name, runner, chosen.runs), **runner.cohort.about()})
        finally:  # what was measured is kept, also where a work fails
            write_result("genomics", rows, {"plink2": plink})


if __name__ == "__main__":
    main()
