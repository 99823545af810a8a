"""Makes data/imputed: imputed dosages of one chromosome as a bgzipped VCF, a sample sheet, and the weights of a polygenic score.

    python data/make_imputed.py [--out data/imputed] [--seed 20261123] [--people 360] [--variants 1200]

Stretches of chromosome 22 are simulated by msprime under the history of data/make_genomics.py. A third of the variants were on the array;
of the others each copy of an allele is known but for a share that differs between variants, where imputation says about the frequency.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1]))

from data.make_genomics import LENGTHS_MB, POPULATIONS, VARIANTS_PER_STRETCH, Calls, Floats, bgzf_blocks, simulate_stretch

CHROMOSOME, LENGTH = 22, 1_000_000 * LENGTHS_MB[21]
TYPED = 1 / 3  # share of variants on the array
SHARES = (0.12, 0.10, 0.08)  # of the trait's variance, one a causal variant
POPULATION = (0.0, -0.5, 0.3)  # of the trait, in standard deviations
UNRELATED_WEIGHTS = 40  # of variants that do nothing


@dataclass(frozen=True)
class Imputed:
    """Variants with `typed`, ALT alleles that people have, dosages that are said, and the people's populations."""

    variants: pl.DataFrame
    calls: Calls
    dosages: Floats
    population: Calls


def simulate(people: int, variants: int, rng: np.random.Generator) -> Imputed:
    """The variants in order of position. Raises ValueError for fewer than a hundred variants."""
    if variants < VARIANTS_PER_STRETCH:
        raise ValueError(f"variants={variants}: at least {VARIANTS_PER_STRETCH}")
    count = variants // VARIANTS_PER_STRETCH
    sizes = [len(part) for part in np.array_split(np.arange(people), len(POPULATIONS))]
    starts = (np.arange(count) + rng.uniform(0.1, 0.9, count)) * (LENGTH - 18_000_000) / count + 17_000_000
    found = [simulate_stretch(sizes, VARIANTS_PER_STRETCH, rng) for _ in range(count)]
    places = [frame.with_columns(base_pair_location=pl.col("offset") + int(start)) for (frame, _), start in zip(found, starts)]
    calls = np.concatenate([block for _, block in found])
    frame = pl.concat(places).with_columns(typed=pl.Series(rng.random(len(calls)) < TYPED))
    frame = frame.with_columns(variant_id=pl.format(f"{CHROMOSOME}:{{}}:{{}}:{{}}", "base_pair_location", "ref", "alt"))
    population = np.repeat(np.arange(len(sizes)), sizes).astype(np.uint8)
    return Imputed(frame, calls, impute(calls, frame["typed"].to_numpy(), rng), population)


def impute(calls: Calls, typed: npt.NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """Dosages to three digits: each copy is nearly sure to be what it is, but for a share of them said to be about the frequency."""
    unsure = np.where(typed, 0, 0.9 * rng.beta(1.2, 3, len(calls)))[:, None]
    frequency = calls.mean(axis=1, keepdims=True) / 2
    total = np.zeros(calls.shape)
    for copy in (1, 2):
        allele = (calls >= copy).astype(np.float64)
        sure = np.abs(allele - 0.03 * rng.random(calls.shape) ** 4)
        guess = np.clip(frequency + 0.25 * (allele - frequency) + rng.normal(0, 0.08, calls.shape), 0.001, 0.999)
        total += np.where(rng.random(calls.shape) < unsure, guess, sure)
    return np.where(typed[:, None], calls, np.round(total, 3))


def r_squared(dosages: Floats) -> Floats:
    """MaCH's R2 of variants, as an imputation server writes it: the variance of dosages over 2f(1 - f)."""
    frequency = dosages.mean(axis=1) / 2
    return np.asarray(np.minimum(1, dosages.var(axis=1) / (2 * frequency * (1 - frequency))))


def vcf_text(imputed: Imputed, names: list[str], seed: int) -> bytes:
    """The VCF: best guess and dosage of everyone, INFO with AF, R2 and TYPED."""
    head = (
        f"##fileformat=VCFv4.2\n##source=data/make_imputed.py --seed {seed}\n##contig=<ID={CHROMOSOME},length={LENGTH}>\n"
        '##FILTER=<ID=PASS,Description="All filters passed">\n'
        '##INFO=<ID=AF,Number=A,Type=Float,Description="Estimated ALT allele frequency">\n'
        '##INFO=<ID=R2,Number=1,Type=Float,Description="Estimated imputation accuracy">\n'
        '##INFO=<ID=TYPED,Number=0,Type=Flag,Description="On the array">\n'
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Best-guess genotype">\n'
        '##FORMAT=<ID=DS,Number=A,Type=Float,Description="Estimated ALT allele dosage">\n'
    )
    titles = "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *names])
    lines, guesses = [head + titles], ("0/0", "0/1", "1/1")
    accuracy, frequency = r_squared(imputed.dosages), imputed.dosages.mean(axis=1) / 2
    for row, variant in enumerate(imputed.variants.iter_rows(named=True)):
        info = f"AF={frequency[row]:.4f};R2={accuracy[row]:.4f}" + (";TYPED" if variant["typed"] else "")
        people = [f"{guesses[round(dosage)]}:{dosage:g}" for dosage in imputed.dosages[row].tolist()]
        place = (str(CHROMOSOME), str(variant["base_pair_location"]), variant["variant_id"], variant["ref"], variant["alt"])
        lines.append("\t".join([*place, ".", "PASS", info, "GT:DS", *people]))
    return ("\n".join(lines) + "\n").encode()


def make_sheet(imputed: Imputed, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The people, with a trait of three causal variants, age and population; and the score's weights, per allele, of ALT or of REF."""
    n = len(imputed.population)
    accuracy, frequency = r_squared(imputed.dosages), imputed.calls.mean(axis=1) / 2
    apart = np.ptp([imputed.calls[:, imputed.population == p].mean(axis=1) for p in range(len(POPULATIONS))], axis=0)
    fit = (accuracy > 0.8) & ~imputed.variants["typed"].to_numpy() & (np.minimum(frequency, 1 - frequency) > 0.15) & (apart < 0.3)
    stretch = np.arange(len(fit)) // VARIANTS_PER_STRETCH
    rows = rng.permutation(np.flatnonzero(fit))
    causal = rows[np.unique(stretch[rows], return_index=True)[1]][: len(SHARES)]
    calls = imputed.calls[causal].astype(np.float64)
    effects = np.sqrt(SHARES[: len(causal)]) / calls.std(axis=1)
    age = np.clip(np.round(rng.normal(55, 12, n)), 25, 85)
    trait = effects @ (calls - calls.mean(axis=1, keepdims=True)) + 0.25 * (age - 55) / 12 + np.array(POPULATION)[imputed.population]
    trait = 5.2 + trait + rng.normal(0, np.sqrt(1 - sum(SHARES)), n)
    sheet = pl.DataFrame(
        {
            "sample_id": [f"P{number:04d}" for number in rng.choice(np.arange(1_000, 9_999), n, replace=False)],
            "population": np.array(POPULATIONS)[imputed.population],
            "sex": rng.integers(1, 3, n),
            "age": age.astype(np.int64),
            "cholesterol": np.round(trait, 2),
        }
    )
    others = rng.choice(np.setdiff1d(np.arange(len(fit)), causal), min(UNRELATED_WEIGHTS, len(fit) - len(causal)), replace=False)
    weighed = np.concatenate([causal, others])
    weight = np.concatenate([effects * rng.normal(1, 0.1, len(causal)), rng.normal(0, 0.02, len(others))])
    turned = pl.Series(rng.random(len(weighed)) < 0.5)
    weights = imputed.variants[weighed].select(
        "variant_id",
        effect_allele=pl.when(turned).then("ref").otherwise("alt"),
        weight=pl.when(turned).then(-pl.Series(weight)).otherwise(pl.Series(weight)).round(4),
    )
    return sheet, weights


def write_imputed(out: Path, people: int, variants: int, seed: int) -> None:
    """Write chr22.vcf.gz, samples.csv and weights.csv into the folder `out`."""
    rng = np.random.default_rng(seed)
    imputed = simulate(people, variants, rng)
    sheet, weights = make_sheet(imputed, rng)
    out.mkdir(parents=True, exist_ok=True)
    (out / "chr22.vcf.gz").write_bytes(b"".join(bgzf_blocks(vcf_text(imputed, sheet["sample_id"].to_list(), seed))))
    sheet[rng.permutation(len(sheet))].write_csv(out / "samples.csv")
    weights.write_csv(out / "weights.csv")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "imputed", help="folder to write to")
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--people", type=int, default=360)
    parser.add_argument("--variants", type=int, default=1_200)
    given = parser.parse_args()
    write_imputed(given.out, given.people, given.variants, given.seed)
    for path in sorted(given.out.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
