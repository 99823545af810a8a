"""Makes data/genomics: a simulated cohort as a bgzipped VCF, its sample sheet and the list of causal variants.

    python data/make_genomics.py [--out data/genomics] [--seed 20261121] [--people 1200] [--variants 21300]

Short stretches of 22 autosomes are simulated by msprime under a small out-of-Africa-like history, then spoiled the way real data is:
missing calls, poor people, poor variants, heterozygotes read as homozygotes. The same seed gives the same bytes (same library versions).
"""

from __future__ import annotations

import argparse
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msprime
import numpy as np
import numpy.typing as npt
import polars as pl

Calls = npt.NDArray[np.uint8]  # ALT alleles of variants x people; 3 is a missing call
Floats = npt.NDArray[np.float64]

POPULATIONS = ("north", "south", "east")
LENGTHS_MB = (248, 242, 198, 190, 181, 170, 159, 145, 138, 133, 135, 133, 114, 107, 101, 90, 83, 80, 58, 64, 46, 50)
STRETCH_BP = 100_000
VARIANTS_PER_STRETCH = 100
SHEET_ONLY, VCF_ONLY = 0.0125, 0.01  # shares of people who stand in one of the two files alone
BGZF_BLOCK = 65_280
BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


@dataclass(frozen=True)
class Settings:
    """What to make: the `seed`, the number of `people` in the VCF and of `variants`."""

    seed: int = 20261121
    people: int = 1_200
    variants: int = 21_300


@dataclass(frozen=True)
class Cohort:
    """The true genotypes: one row of `calls` per row of `variants`, one column per entry of `population`."""

    variants: pl.DataFrame
    calls: Calls
    population: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Trait:
    """How a trait comes about: the share of variance of each causal variant, and what age, sex and population do, in noise deviations."""

    name: str
    shares: tuple[float, ...]
    age: float
    sex: float
    population: tuple[float, float, float]


LDL = Trait("ldl", (0.070, 0.065, 0.060, 0.055, 0.050, 0.020, 0.015, 0.012, 0.010, 0.010), 0.25, -0.15, (0.0, -0.5, 0.3))
DISEASE = Trait("disease", (0.105, 0.100, 0.090, 0.085, 0.075, 0.030, 0.020, 0.015, 0.010, 0.010), 0.40, 0.25, (0.0, 0.3, -0.2))


def history() -> msprime.Demography:
    """Three populations: north and east part 400 generations ago, their ancestors left the south's 900 generations ago."""
    demography = msprime.Demography()
    demography.add_population(name="north", initial_size=9_000, growth_rate=0.002)
    demography.add_population(name="south", initial_size=15_000)
    demography.add_population(name="east", initial_size=8_000, growth_rate=0.002)
    demography.add_population(name="travellers", initial_size=4_000)
    demography.add_population(name="ancestors", initial_size=11_000)
    demography.add_population_split(time=400, derived=["north", "east"], ancestral="travellers")
    demography.add_population_split(time=900, derived=["travellers", "south"], ancestral="ancestors")
    demography.set_symmetric_migration_rate(["north", "east"], 2e-4)
    return demography


def simulate_stretch(people: list[int], wanted: int, rng: np.random.Generator) -> tuple[pl.DataFrame, Calls]:
    """`wanted` biallelic variants (`offset`, `ref`, `alt`) of one stretch and their calls; MAF 0.01 or more, but for 3 % rarer ones."""
    seeds = rng.integers(1, 2**31, size=2).tolist()
    samples, past = dict(zip(POPULATIONS, people)), history()
    trees = msprime.sim_ancestry(samples, demography=past, sequence_length=STRETCH_BP, recombination_rate=1.2e-8, random_seed=seeds[0])
    trees = msprime.sim_mutations(trees, rate=1.3e-8, model=msprime.HKY(kappa=4.0), random_seed=seeds[1])
    sites = [site for site in trees.variants(copy=True) if len(site.alleles) == 2]
    haplotypes = np.array([site.genotypes for site in sites], dtype=np.uint8)
    calls = haplotypes[:, ::2] + haplotypes[:, 1::2]
    frequency = calls.mean(axis=1) / 2
    maf = np.minimum(frequency, 1 - frequency)
    common, rare = np.flatnonzero(maf >= 0.01), np.flatnonzero((maf >= 0.002) & (maf < 0.01))
    few = min(round(0.03 * wanted), len(rare))
    chosen = np.sort(np.concatenate([rng.choice(common, wanted - few, replace=False), rng.choice(rare, few, replace=False)]))
    rows = [(int(sites[i].site.position) + 1, *sites[i].alleles) for i in chosen]
    return pl.DataFrame(rows, schema=["offset", "ref", "alt"], orient="row"), np.asarray(calls[chosen], dtype=np.uint8)


def stretches(settings: Settings, rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    """Chromosome, first position and number of variants of each stretch, spread evenly over the chromosomes by their lengths."""
    lengths = np.array(LENGTHS_MB)
    counts = np.maximum(1, np.round(settings.variants / VARIANTS_PER_STRETCH * lengths / lengths.sum())).astype(int)
    wanted = np.diff(np.linspace(0, settings.variants, counts.sum() + 1).astype(int)).tolist()
    chromosomes = np.repeat(np.arange(len(lengths)), counts)
    within = np.concatenate([np.arange(count) for count in counts])
    for chromosome, place, variants in zip(chromosomes, within, wanted):
        step_bp = lengths[chromosome] * 1_000_000 / counts[chromosome]
        start = step_bp * (place + rng.uniform(0.1, 0.9)) - STRETCH_BP / 2
        yield int(chromosome) + 1, int(start), variants


def simulate_cohort(settings: Settings, rng: np.random.Generator) -> Cohort:
    """Everyone who stands in the VCF or in the sheet, in order of population."""
    everyone = settings.people + round(SHEET_ONLY * settings.people)
    people = [len(part) for part in np.array_split(np.arange(everyone), len(POPULATIONS))]
    frames, calls = [], []
    for chromosome, start, wanted in stretches(settings, rng):
        frame, block = simulate_stretch(people, wanted, rng)
        place = pl.lit(start, dtype=pl.Int64) + pl.col("offset")
        frames.append(frame.with_columns(chromosome=pl.lit(chromosome), base_pair_location=place))
        calls.append(block)
    variants = pl.concat(frames)
    numbers = np.unique(rng.integers(1_000_000, 1_600_000_000, size=2 * len(variants)))
    names = [f"rs{number}" for number in rng.permutation(numbers)[: len(variants)]]
    return Cohort(variants.with_columns(variant_id=pl.Series(names)), np.concatenate(calls), np.repeat(np.arange(len(people)), people))


def choose_causal(cohort: Cohort, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """One common variant a chromosome (where it has one) of alike frequency in all populations, in random order."""
    by_population = np.stack([cohort.calls[:, cohort.population == p].mean(axis=1) / 2 for p in range(len(POPULATIONS))])
    frequency = by_population.mean(axis=0)
    fit = (np.minimum(frequency, 1 - frequency) > 0.15) & (np.ptp(by_population, axis=0) < 0.15)
    rows = rng.permutation(np.flatnonzero(fit))
    first = np.unique(cohort.variants["chromosome"].to_numpy()[rows], return_index=True)[1]
    return np.asarray(rng.permutation(rows[first]))


def simulate_trait(
    trait: Trait, cohort: Cohort, rows: npt.NDArray[np.int64], people: pl.DataFrame, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """The trait in standard units of its noise (which take the causal shares of variance off), and the effect of each causal ALT allele."""
    shares = np.array(trait.shares[: len(rows)])
    dosage = cohort.calls[rows].astype(np.float64)
    effects = np.sqrt(shares) / dosage.std(axis=1) * rng.choice([-1.0, 1.0], size=len(rows))
    age, sex = (people["age"].to_numpy() - 55) / 12, people["sex"].to_numpy() == 2
    known = trait.age * age + trait.sex * sex + np.array(trait.population)[cohort.population]
    noise = rng.normal(0, np.sqrt(1 - shares.sum()), size=dosage.shape[1])
    return effects @ (dosage - dosage.mean(axis=1, keepdims=True)) + known + noise, effects


def make_sheet(cohort: Cohort, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The people in the cohort's order with their traits, and the causal variants (effects in mg/dL, or on the liability scale)."""
    count, chosen = len(cohort.population), choose_causal(cohort, rng)
    names = [f"P{number:05d}" for number in rng.choice(np.arange(10_000, 99_999), count, replace=False)]
    people = pl.DataFrame({"sample_id": names, "population": np.array(POPULATIONS)[cohort.population]}).with_columns(
        sex=pl.Series(rng.integers(1, 3, size=count)),
        age=pl.Series(np.clip(np.round(rng.normal(55, 12, size=count)), 25, 85).astype(np.int64)),
    )
    causal, values = [], {}
    for trait, unit in ((LDL, 22.0), (DISEASE, 1.0)):
        rows, chosen = np.split(chosen, [len(trait.shares)])
        values[trait.name], effects = simulate_trait(trait, cohort, rows, people, rng)
        found = cohort.variants[rows].select(trait=pl.lit(trait.name), variant_id="variant_id", effect_allele="alt")
        causal.append(found.with_columns(effect=pl.Series(effects * unit).round(4)))
    ldl = pl.Series(128 + 22 * values["ldl"]).round(1)
    unknown = pl.Series(rng.random(count) < 0.012)
    disease = (values["disease"] > np.quantile(values["disease"], 0.7)).astype(np.int64)
    people = people.with_columns(ldl=pl.select(pl.when(~unknown).then(ldl)).to_series(), disease=pl.Series(disease))
    return people, pl.concat(causal)


def spoil(cohort: Cohort, protected: npt.NDArray[np.bool_], rng: np.random.Generator) -> Calls:
    """The calls as a laboratory gives them: 0.3 % missing, 1 % of variants and 0.7 % of people poor, 0.5 % of common variants misread."""
    calls = cohort.calls.copy()
    variants, people = calls.shape
    misread = np.flatnonzero(~protected & (rng.random(variants) < 0.005) & ((calls == 1).mean(axis=1) > 0.2))
    errors = (calls[misread] == 1) & (rng.random((len(misread), people)) < 0.6)
    calls[misread] = np.where(errors, 2 * rng.integers(0, 2, size=errors.shape, dtype=np.uint8), calls[misread])
    variant_rate = np.where(~protected & (rng.random(variants) < 0.01), rng.uniform(0.05, 0.2, size=variants), 0.003)
    person_rate = np.zeros(people)
    poor = rng.choice(people, max(1, round(0.007 * people)), replace=False)
    person_rate[poor] = rng.uniform(0.08, 0.2, size=len(poor))
    for row in range(variants):
        calls[row, rng.random(people) < np.maximum(variant_rate[row], person_rate)] = 3
    return calls


def bgzf_blocks(data: bytes) -> Iterator[bytes]:
    """The blocks of a BGZF file (SAM specification 4.1): gzip members that carry their own size, and the empty last one."""
    for start in range(0, len(data), BGZF_BLOCK):
        block = data[start : start + BGZF_BLOCK]
        packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
        packed = packer.compress(block) + packer.flush()
        head = struct.pack("<4BI2BH2B2H", 31, 139, 8, 4, 0, 0, 255, 6, 66, 67, 2, len(packed) + 25)
        yield head + packed + struct.pack("<2I", zlib.crc32(block), len(block))
    yield BGZF_END


def vcf_text(cohort: Cohort, calls: Calls, names: list[str], seed: int) -> bytes:
    """The VCF: header, then one line a variant with unphased genotypes, the smaller allele first."""
    contigs = "".join(f"##contig=<ID={number},length={length}000000>\n" for number, length in enumerate(LENGTHS_MB, 1))
    head = (
        f'##fileformat=VCFv4.3\n##source=data/make_genomics.py --seed {seed}\n##FILTER=<ID=PASS,Description="All filters passed">\n'
        f'{contigs}##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n'
    )
    titles = "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *names])
    genotypes = np.frombuffer(b"\t0/0\t0/1\t1/1\t./.", dtype="V4")
    columns = cohort.variants.select("chromosome", "base_pair_location", "variant_id", "ref", "alt")
    lines = [
        "\t".join(map(str, row)).encode() + b"\t.\tPASS\t.\tGT" + genotypes[calls[i]].tobytes() for i, row in enumerate(columns.iter_rows())
    ]
    return (head + titles + "\n").encode() + b"\n".join(lines) + b"\n"


def write_genomics(out: Path, settings: Settings) -> None:
    """Write cohort.vcf.gz, samples.csv and causal.csv into the folder `out`."""
    rng = np.random.default_rng(settings.seed)
    cohort = simulate_cohort(settings, rng)
    people, causal = make_sheet(cohort, rng)
    protected = np.asarray(cohort.variants["variant_id"].is_in(causal["variant_id"].to_list()).to_numpy())
    calls = spoil(cohort, protected, rng)
    order = rng.permutation(len(people))
    in_vcf = np.sort(order[: settings.people])
    in_sheet = rng.permutation(order[round(VCF_ONLY * settings.people) :])
    names = people["sample_id"].to_list()
    text = vcf_text(cohort, calls[:, in_vcf], [names[i] for i in in_vcf], settings.seed)
    out.mkdir(parents=True, exist_ok=True)
    (out / "cohort.vcf.gz").write_bytes(b"".join(bgzf_blocks(text)))
    people[in_sheet].write_csv(out / "samples.csv")
    causal.write_csv(out / "causal.csv")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "genomics", help="folder to write to")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--people", type=int, default=Settings.people)
    parser.add_argument("--variants", type=int, default=Settings.variants)
    given = parser.parse_args()
    write_genomics(given.out, Settings(given.seed, given.people, given.variants))
    for path in sorted(given.out.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
