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
from pipeline.stages.genomics._relationships import MOST_IN_TILES, MOST_PEOPLE

SIZES = ((2_500, 20_000), (20_000, 5_000), (100_000, 5_000))
BLOCK, POPULATIONS, CHROMOSOMES = 250, 3, 22
WEIGHED = 20  # of so many variants one has a weight, and so many neighbours are a set
ON_X = 50  # of so many variants the last is on X
FAMILY = 50  # people of whom the last is a child of the first two
MISSING = 0.005
Job = tuple[list[dict[str, Any]], list[str]]
SHEET = {"genotypes": "calls", "samples": "sheet"}
DEATH = {"death": {"time": "years", "event": "died"}}


def scan(use: str, traits: Any, **more: Any) -> Job:
    """A scan of some traits with two covariates."""
    return [{"use": use, "from": SHEET, "as": "gwas", "traits": traits, "covariates": ["c1", "c2"], **more}], ["gwas"]


def of_calls(use: str, *outputs: str, **more: Any) -> Job:
    """A stage that reads the calls alone."""
    return [{"use": use, "from": "calls", "as": "found", **more}], [f"found{output}" for output in outputs or ("",)]


def of_hits(use: str, output: str) -> Job:
    """A stage that reads a scan's clumps."""
    roles = {"associations": "gwas", "genotypes": "calls", "loci": "hits"}
    return [*CLUMPED, {"use": use, "from": roles, "as": "found"}], [output]


def axes(method: str) -> Job:
    """Ten axes of ancestry."""
    return [{"use": "principal_components", "from": "calls", "as": "axes", "components": 10, "method": method}], [
        "axes",
        "axes.eigenvalues",
    ]


SUMS = {
    "use": "site_gwas_sums",
    "from": SHEET,
    "as": "sums",
    "site": "here",
    "sites": ["here", "there"],
    "study": "people",
    "secrets": {"there": "of nobody, since nothing is sent from here"},
    "trait": "y",
    "covariates": ["c1", "c2"],
    "missing": "mean",
}
CLUMPED = [
    *scan("linear_gwas", ["y"])[0],
    {"use": "clump", "from": {"associations": "gwas", "genotypes": "calls"}, "as": "hits", "p1": 0.001},
]
WORKS: dict[str, Job] = {
    "sample_qc": ([{"use": "sample_qc", "from": "calls", "as": "passed", "min_call_rate": 0.9}], ["passed.measured"]),
    "variant_qc": ([{"use": "variant_qc", "from": "calls", "as": "passed"}], ["passed"]),
    "relatedness": ([{"use": "relatedness", "from": "calls", "as": "unrelated"}], ["unrelated.pairs"]),
    "ld_prune": ([{"use": "ld_prune", "from": "calls", "as": "pruned", "r2": 0.2, "window_variants": 50, "step": 5}], ["pruned"]),
    "axes, exact": axes("exact"),
    "axes, randomized": axes("randomized"),
    "linear_gwas": scan("linear_gwas", ["y"]),
    "logistic_gwas": scan("logistic_gwas", ["case"]),
    "linear_gwas and clump": (CLUMPED, ["hits", "hits.ld"]),
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
    "relationship_matrix": of_calls("relationship_matrix"),
    "heritability, haseman_elston": scan("heritability", ["y"], method="haseman_elston"),
    "heritability, reml": scan("heritability", ["y"]),
    "mixed_model_gwas": ([{**scan("mixed_model_gwas", ["y"])[0][0], "from": {**SHEET, "markers": "calls"}}], ["gwas"]),
    "whole_genome_regression": scan("whole_genome_regression", ["y"]),
    "whole_genome_regression, binary": scan("whole_genome_regression", ["case"], kind="binary"),
    "whole_genome_regression, times": scan("whole_genome_regression", DEATH, kind="time_to_event"),
    "cox_gwas": scan("cox_gwas", DEATH),
    "interaction_gwas": scan("interaction_gwas", ["y"], interactions=["c1"]),
    "set_association": (
        [{**scan("set_association", ["y"], max_frequencies=[1.0])[0][0], "from": {**SHEET, "sets": "sets"}}],
        ["gwas"],
    ),
    "gwas_moments and gwas_from_moments": (
        [*scan("gwas_moments", ["y"], cohort="all")[0], {"use": "gwas_from_moments", "from": "gwas", "as": "found"}],
        ["found"],
    ),
    "linear_gwas, clump and fine_map": of_hits("fine_map", "found"),
    "linear_gwas, clump and joint_analysis": of_hits("joint_analysis", "found.conditional"),
    "ld_scores": of_calls("ld_scores", kb=100),
    "ld_table": of_calls("ld_table", kb=100),
    "mendel_errors": of_calls("mendel_errors", "", ".variants"),
    "runs_of_homozygosity": of_calls("runs_of_homozygosity", "", ".people", ".variants"),
    "sex_check": of_calls("sex_check"),
    "keep_people, keep_regions and variant_qc": (
        [
            {"use": "filter", "from": "sheet", "as": "some", "where": "c1 > 0"},
            {"use": "keep_people", "from": {"genotypes": "calls", "people": "some"}, "as": "fewer"},
            {"use": "keep_regions", "from": {"genotypes": "fewer", "regions": "regions"}, "as": "own", "leave_out": True},
            {"use": "variant_qc", "from": "own", "as": "passed"},
        ],
        ["passed"],
    ),
}
MOST = {
    "axes, exact": MOST_IN_TILES,
    "relationship_matrix": MOST_IN_TILES,
    "heritability, haseman_elston": MOST_IN_TILES,
    "heritability, reml": MOST_PEOPLE,
    "mixed_model_gwas": MOST_PEOPLE,
}
"""People that a work is for at most; the others are for any number."""
INPUTS = {
    "sheet": {"sample_id": "string", "y": "float64", "c1": "float64", "c2": "float64", "case": "int8", "years": "float64", "died": "int8"},
    "weights": {"variant_id": "string", "effect_allele": "string", "weight": "float64"},
    "sets": {"set_id": "string", "variant_id": "string", "masks": "string"},
    "regions": {"chromosome": "string", "start": "int64", "end": "int64"},
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
                "chromosome": np.where(number < variants - variants // ON_X, (number * CHROMOSOMES // variants + 1).astype(str), "X"),
                "base_pair_location": 1_000 * number + 1,
                "variant_id": [f"v{i}" for i in range(variants)],
                "ref": ["A"] * variants,
                "alt": ["G"] * variants,
            }
        )
        random, ids = np.random.default_rng(2), [f"p{i}" for i in range(people)]
        numbers = {name: random.normal(size=people).round(4) for name in ("y", "c1", "c2")}
        case, died = ((random.random(people) < share).astype(np.int8) for share in (0.3, 0.2))
        times = {"years": random.exponential(10, people).round(3), "died": died}
        sheet = pl.DataFrame({"sample_id": ids, **numbers, "case": case, **times})
        write_plink(place / "calls", frame, _families(ids), (pack(block) for block in calls(people, variants)))
        weights = {"variant_id": frame["variant_id"], "effect_allele": frame["alt"], "weight": random.normal(size=variants).round(4)}
        pl.DataFrame(weights).gather_every(WEIGHED).write_csv(place / "weights.csv")
        sets = {
            "set_id": [f"{name}:{i // WEIGHED}" for i, name in enumerate(frame["chromosome"])],
            "variant_id": frame["variant_id"],
            "masks": "all",
        }
        pl.DataFrame(sets).write_csv(place / "sets.csv")
        regions = {"chromosome": [str(i + 1) for i in range(CHROMOSOMES)], "start": 0, "end": 100 * variants // CHROMOSOMES}
        pl.DataFrame(regions).write_csv(place / "regions.csv")
        sheet.write_csv(place / "sheet.csv")
    return place


def _families(ids: list[str]) -> pl.DataFrame:
    """Everyone's sex and parents: of every fifty the last is a child."""
    child = [place % FAMILY == FAMILY - 1 for place in range(len(ids))]
    parents = {
        name: [ids[place - FAMILY + first] if is_child else "0" for place, is_child in enumerate(child)]
        for name, first in (("father_id", 1), ("mother_id", 2))
    }
    return pl.DataFrame({"sample_id": ids, **parents, "sex": [place % 2 + 1 for place in range(len(ids))]})


def measured(name: str, place: Path, workers: int, scratch: Path) -> dict[str, Any]:
    """One run of a work on so many workers."""
    stages, outputs = WORKS[name]
    document: dict[str, Any] = {
        "job": "people",
        "results": str(scratch / "results"),
        "report": False,
        "cluster": {"kind": "local"} | ({"workers": workers, "threads": 1} if workers > 1 else {}),
        "inputs": {
            "calls": {"format": "plink", "path": str(place / "calls.bed")},
            **{
                table: {"format": "csv", "path": str(place / f"{table}.csv"), "columns": columns}
                for table, columns in INPUTS.items()
                if f"'{table}'" in str(stages)
            },
        },
        "stages": stages,
        "outputs": {
            output.replace(".", "_"): {"from": output} | ({"format": "grm"} if name == "relationship_matrix" else {}) for output in outputs
        },
    }
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
                for name in chosen.only or [name for name in WORKS if people <= MOST.get(name, people)]:
                    rows += [measured(name, place, workers, Path(scratch)) for workers in chosen.workers or (1, 2)]
        finally:  # what was measured is kept, also where a work fails
            write_result("people", rows)


if __name__ == "__main__":
    main()
