"""Makes the large cohort of benchmarks/genomics.py: PLINK files with and without missing calls, a VCF, and a sheet with many traits.

    python data/make_cohort.py --out DIR [--people 2500] [--variants 200000] [--missing 0.005] [--seed 20261121]

Written to DIR: cohort.{bed,bim,fam} and cohort.vcf.gz (missing calls at random), complete.{bed,bim,fam} (the same calls, none missing) and
samples.csv: sample_id, sex, population, ten covariates c1 to c10 (the first two tell the populations apart), a hundred traits y1 to y100,
and case_30 and case_2 (0 or 1; 30 % and 2 % cases). Stretches of 22 autosomes come from msprime under the history of make_genomics.py. The
same seed gives the same files (same library versions), however many processes work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data.make_genomics import LENGTHS_MB, POPULATIONS, Calls, Floats, Settings, bgzf_blocks, simulate_stretch, stretches
from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack, unpack

TRAITS, COVARIATES = 100, 10
CAUSAL_SHARE = 0.3  # of a trait's variance, over 20 variants
ANCESTRY = np.array([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])  # c1 and c2 of each population, as two principal components would be
VCF_ROWS = 500


def simulate(place: tuple[int, int, int, int], people: list[int]) -> tuple[pl.DataFrame, Calls]:
    """Variants of one stretch and their packed calls; `place` is its seed, chromosome, first position and number of variants."""
    seed, chromosome, start, wanted = place
    frame, calls = simulate_stretch(people, wanted, np.random.default_rng(seed))
    position = pl.col("offset") + start
    frame = frame.select(pl.lit(str(chromosome)).alias("chromosome"), position.alias("base_pair_location"), "ref", "alt")
    return frame, pack(calls)


def cohort(settings: Settings, people: list[int]) -> tuple[pl.DataFrame, Calls]:
    """All variants with ids, in order, and their packed calls without a missing one."""
    rng = np.random.default_rng(settings.seed)
    places = [(int(rng.integers(1, 2**62)), *place) for place in stretches(settings, rng)]
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(partial(simulate, people=people), places, chunksize=8))
    variants = pl.concat([frame for frame, _ in found])
    # Stretches that overlap are put in order; two variants at one position would be one site with two rows.
    variants = variants.with_row_index("row").with_columns(pl.col("chromosome").cast(pl.Int64).alias("number"))
    variants = variants.sort("number", "base_pair_location").unique(["number", "base_pair_location"], keep="first", maintain_order=True)
    calls = np.concatenate([block for _, block in found])[variants["row"].to_numpy()]
    ids = pl.format("rs{}", pl.int_range(1, variants.height + 1))
    return variants.drop("row", "number").with_columns(ids.alias("variant_id")), calls


def spoiled(calls: Calls, people: int, share: float, seed: int) -> Iterator[Calls]:
    """Blocks of packed calls, a random share of them missing."""
    rng = np.random.default_rng([seed, 1])
    for start in range(0, len(calls), VCF_ROWS):
        codes = np.array(unpack(calls[start : start + VCF_ROWS], people, np.uint8))
        codes[rng.random(codes.shape, np.float32) < share] = 3
        yield pack(codes)


def sheet(calls: Calls, people: list[int], seed: int) -> pl.DataFrame:
    """Everyone's sex, population, covariates and traits."""
    rng, count = np.random.default_rng([seed, 2]), sum(people)
    population = np.repeat(np.arange(len(people)), people)
    covariates = rng.normal(size=(count, COVARIATES))
    covariates[:, :2] = 0.05 * covariates[:, :2] + ANCESTRY[population]
    traits = np.column_stack([_trait(calls, covariates, rng) for _ in range(TRAITS + 2)])
    liabilities = {"case_30": (traits[:, -2], 0.7), "case_2": (traits[:, -1], 0.98)}
    columns: dict[str, Floats] = {f"c{i + 1}": covariates[:, i] for i in range(COVARIATES)}
    columns |= {f"y{i + 1}": traits[:, i] for i in range(TRAITS)}
    frame = pl.DataFrame({"sample_id": [f"S{i:05d}" for i in range(count)], "sex": rng.integers(1, 3, count)})
    named = frame.with_columns(pl.Series("population", np.array(POPULATIONS)[population]))
    cases = [pl.Series(name, (value > np.quantile(value, at)).astype(np.int64)) for name, (value, at) in liabilities.items()]
    return named.hstack(pl.DataFrame(columns)).hstack(cases)


def _trait(calls: Calls, covariates: Floats, rng: np.random.Generator) -> Floats:
    """Twenty causal variants, a little of every covariate, and noise."""
    rows = rng.choice(len(calls), 20, replace=False)
    dosage = unpack(calls[rows], len(covariates), np.float64)
    scale = np.maximum(dosage.std(axis=1, keepdims=True), 0.05)
    effects = rng.normal(0, np.sqrt(CAUSAL_SHARE / len(rows)), len(rows))
    genetic = effects @ ((dosage - dosage.mean(axis=1, keepdims=True)) / scale)
    return np.asarray(genetic + covariates @ rng.normal(0, 0.15, COVARIATES) + rng.normal(0, np.sqrt(1 - CAUSAL_SHARE), len(covariates)))


def write_vcf(path: Path, variants: pl.DataFrame, names: list[str], blocks: Iterator[Calls]) -> None:
    """A bgzipped VCF with unphased genotypes, a block of variants at a time."""
    contigs = "".join(f"##contig=<ID={number},length={length}000000>\n" for number, length in enumerate(LENGTHS_MB, 1))
    titles = "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *names])
    form = '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n'
    genotypes = np.frombuffer(b"\t0/0\t0/1\t1/1\t./.", dtype="V4")
    rows = variants.select("chromosome", "base_pair_location", "variant_id", "ref", "alt").iter_rows()
    with path.open("wb") as file:
        head = f"##fileformat=VCFv4.3\n{contigs}{form}{titles}\n".encode()
        *filled, end = bgzf_blocks(head)
        file.writelines(filled)
        for block in blocks:
            codes = unpack(block, len(names), np.uint8)
            text = b"".join(
                "\t".join(map(str, next(rows))).encode() + b"\t.\tPASS\t.\tGT" + genotypes[row].tobytes() + b"\n" for row in codes
            )
            *filled, end = bgzf_blocks(text)
            file.writelines(filled)
        file.write(end)


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--people", type=int, default=2_500)
    parser.add_argument("--variants", type=int, default=200_000)
    parser.add_argument("--missing", type=float, default=0.005, help="share of the calls that is missing")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    given = parser.parse_args()
    people = [len(part) for part in np.array_split(np.arange(given.people), len(POPULATIONS))]
    variants, calls = cohort(Settings(given.seed, given.people, given.variants), people)
    samples = sheet(calls, people, given.seed)
    given.out.mkdir(parents=True, exist_ok=True)
    samples.write_csv(given.out / "samples.csv")
    write_plink(given.out / "complete", variants, samples, [calls])
    write_plink(given.out / "cohort", variants, samples, spoiled(calls, given.people, given.missing, given.seed))
    names = samples["sample_id"].to_list()
    write_vcf(given.out / "cohort.vcf.gz", variants, names, spoiled(calls, given.people, given.missing, given.seed))


if __name__ == "__main__":
    main()
