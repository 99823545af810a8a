"""The genomics stages by the number of people: python benchmarks/people.py [--size PEOPLE,VARIANTS ...] [--only WORK ...] [--workers N].

Simulated PLINK files of three populations with half a percent of the calls missing; of every fifty people the last is a child of the first
two. Each work is a job of its own, a whole process that writes all it gives, on one process of as many threads as there are cores (1)
or on worker processes of a thread each. Memory is the peak of the largest process, `cpu_s` what all of them computed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import python, timed, write_result
from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.principal_components import MOST_PEOPLE

SIZES = ((2_500, 20_000), (20_000, 5_000), (100_000, 5_000))
BLOCK, POPULATIONS, CHROMOSOMES = 250, 3, 22
WEIGHED = 20  # of so many variants one has a weight
FAMILY = 50  # people of whom the last is a child of the first two
MISSING = 0.005
Job = tuple[list[dict[str, Any]], list[str]]


def scan(use: str, trait: str) -> Job:
    """A scan of a trait with two covariates."""
    roles = {"genotypes": "calls", "samples": "sheet"}
    return [{"use": use, "from": roles, "as": "gwas", "traits": [trait], "covariates": ["c1", "c2"]}], ["gwas"]


def axes(method: str) -> Job:
    """Ten axes of ancestry."""
    return [{"use": "principal_components", "from": "calls", "as": "axes", "components": 10, "method": method}], [
        "axes",
        "axes.eigenvalues",
    ]


SUMS = {
    "use": "site_gwas_sums",
    "from": {"genotypes": "calls", "samples": "sheet"},
    "as": "sums",
    "site": "here",
    "sites": ["here", "there"],
    "study": "people",
    "secrets": {"there": "of nobody, since nothing is sent from here"},
    "trait": "y",
    "covariates": ["c1", "c2"],
    "missing": "mean",
}
WORKS: dict[str, Job] = {
    "sample_qc": ([{"use": "sample_qc", "from": "calls", "as": "passed", "min_call_rate": 0.9}], ["passed.measured"]),
    "variant_qc": ([{"use": "variant_qc", "from": "calls", "as": "passed"}], ["passed"]),
    "relatedness": ([{"use": "relatedness", "from": "calls", "as": "unrelated"}], ["unrelated.pairs"]),
    "ld_prune": ([{"use": "ld_prune", "from": "calls", "as": "pruned", "r2": 0.2, "window_variants": 50, "step": 5}], ["pruned"]),
    "axes, exact": axes("exact"),
    "axes, randomized": axes("randomized"),
    "linear_gwas": scan("linear_gwas", "y"),
    "logistic_gwas": scan("logistic_gwas", "case"),
    "linear_gwas and clump": (
        [*scan("linear_gwas", "y")[0], {"use": "clump", "from": {"associations": "gwas", "genotypes": "calls"}, "as": "hits", "p1": 0.001}],
        ["hits", "hits.ld"],
    ),
    "polygenic_score": ([{"use": "polygenic_score", "from": {"genotypes": "calls", "weights": "weights"}, "as": "score"}], ["score"]),
    "genotype_features": (
        [{"use": "genotype_features", "from": {"genotypes": "calls", "variants": "weights"}, "as": "features"}],
        ["features"],
    ),
    "randomized axes and project_components": (
        [
            *axes("randomized")[0],
            {"use": "project_components", "from": {"genotypes": "calls", "loadings": "axes.loadings"}, "as": "placed"},
        ],
        ["placed"],
    ),
    "site_gwas_sums": ([SUMS], ["sums"]),
}


def calls(people: int, variants: int, seed: int = 1) -> Iterator[NDArray[np.uint8]]:
    """Blocks of ALT alleles `uint8[v, people]`, 3 where missing."""
    random = np.random.default_rng(seed)
    population = np.arange(people) // FAMILY % POPULATIONS
    children = np.arange(FAMILY - 1, people, FAMILY)
    for start in range(0, variants, BLOCK):
        count = min(BLOCK, variants - start)
        base = random.uniform(0.1, 0.9, (count, 1)) + random.normal(0, 0.08, (count, POPULATIONS))
        limits = (256 * np.clip(base, 0.02, 0.98)).astype(np.uint8)[:, population]
        haplotypes = [(random.integers(0, 256, (count, people), np.uint8) < limits).view(np.uint8) for _ in range(2)]
        for side, first in enumerate((FAMILY - 1, FAMILY - 2)):
            parent, passed = children - first, random.integers(0, 2, (count, len(children))) > 0
            haplotypes[side][:, children] = np.where(passed, haplotypes[0][:, parent], haplotypes[1][:, parent])
        found = haplotypes[0] + haplotypes[1]
        found[random.integers(0, 1 << 16, found.shape, np.uint16) < MISSING * (1 << 16)] = 3
        yield found


def made(folder: Path, people: int, variants: int) -> Path:
    """The folder of the PLINK files and the sheet; they are made where they are not there yet."""
    place = folder / f"{people}x{variants}"
    if not (place / "sheet.csv").is_file():
        place.mkdir(parents=True, exist_ok=True)
        number = np.arange(variants)
        frame = pl.DataFrame(
            {
                "chromosome": (number * CHROMOSOMES // variants + 1).astype(str),
                "base_pair_location": 1_000 * number + 1,
                "variant_id": [f"v{i}" for i in range(variants)],
                "ref": ["A"] * variants,
                "alt": ["G"] * variants,
            }
        )
        random, ids = np.random.default_rng(2), [f"p{i}" for i in range(people)]
        numbers = {name: random.normal(size=people).round(4) for name in ("y", "c1", "c2")}
        sheet = pl.DataFrame({"sample_id": ids, **numbers, "case": (random.random(people) < 0.3).astype(np.int8)})
        write_plink(place / "calls", frame, pl.DataFrame({"sample_id": ids}), (pack(block) for block in calls(people, variants)))
        weights = {"variant_id": frame["variant_id"], "effect_allele": frame["alt"], "weight": random.normal(size=variants).round(4)}
        pl.DataFrame(weights).gather_every(WEIGHED).write_csv(place / "weights.csv")
        sheet.write_csv(place / "sheet.csv")
    return place


def measured(name: str, place: Path, workers: int, scratch: Path) -> dict[str, Any]:
    """One run of a work on so many workers."""
    stages, outputs = WORKS[name]
    types = {"sample_id": "string", "y": "float64", "c1": "float64", "c2": "float64", "case": "int8"}
    document: dict[str, Any] = {
        "job": "people",
        "results": str(scratch / "results"),
        "report": False,
        "cluster": {"kind": "local"} | ({"workers": workers, "threads": 1} if workers > 1 else {}),
        "inputs": {
            "calls": {"format": "plink", "path": str(place / "calls.bed")},
            "sheet": {"format": "csv", "path": str(place / "sheet.csv"), "columns": types},
            "weights": {
                "format": "csv",
                "path": str(place / "weights.csv"),
                "columns": {"variant_id": "string", "effect_allele": "string", "weight": "float64"},
            },
        },
        "stages": stages,
        "outputs": {output.replace(".", "_"): {"from": output} for output in outputs},
    }
    for unused in [name for name in document["inputs"] if name not in str(stages)]:
        del document["inputs"][unused]
    job = scratch / "job.yaml"
    job.write_text(json.dumps(document), encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = timed(python("-m", "pipeline.run", str(job), "--quiet", "--fresh"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    people, variants = (int(number) for number in place.name.split("x"))
    took = {"seconds": round(found.seconds, 2), "cpu_s": round(cpu_s, 2), "peak_mb": round(found.peak_mb)}
    row = {"work": name, "people": people, "variants": variants, "workers": workers, **took}
    print(row, flush=True)
    return row


def main() -> None:
    """Measure what is asked for and write benchmarks/results/people-TIME.json."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--size", action="append", help="people and variants, with a comma; may be given several times")
    options.add_argument("--only", action="append", choices=[*WORKS], help="one work alone; may be given several times")
    options.add_argument("--workers", action="append", type=int, help="worker processes; 1 and 2 where not given")
    options.add_argument("--data", type=Path, help="folder for the cohorts, made there the first time; a temporary one where not given")
    chosen = options.parse_args()
    sizes = [tuple(int(number) for number in size.split(",")) for size in chosen.size or []] or SIZES
    with tempfile.TemporaryDirectory() as scratch:
        rows = list[dict[str, Any]]()
        try:
            for people, variants in sizes:
                place = made(chosen.data or Path(scratch) / "data", people, variants)
                for name in chosen.only or [name for name in WORKS if people <= MOST_PEOPLE or name != "axes, exact"]:
                    rows += [measured(name, place, workers, Path(scratch)) for workers in chosen.workers or (1, 2)]
        finally:  # what was measured is kept, also where a work fails
            write_result("people", rows)


if __name__ == "__main__":
    main()
