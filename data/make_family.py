"""Makes data/family: a PLINK fileset of families, and a sample sheet with a trait that relatives share.

    python data/make_family.py [--out data/family] [--seed 20261123] [--families 70]

Couples of a population that msprime simulates have two to four children each; some of the couples are siblings of others, so that families
are of cousins. What comes of such a study is in it: two children of different families exchanged in the laboratory, people whose sex was
noted wrongly, variants that are called badly, calls that are missing or wrong.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import msprime
import numpy as np
import numpy.typing as npt
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1]))

from data.make_genomics import STRETCH_BP, Calls, history
from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack

CHROMOSOMES = (*map(str, range(1, 23)), "X")
STRETCHES, VARIANTS, APART_BP = {"X": (10, 20)}, (2, 50), 12_000_000
"""Stretches of a chromosome and variants of each, of X and of the others, and how far apart they are."""
BAD_VARIANTS, WRONG_SEX = 40, 3
WRONG, WRONG_OF_BAD, MISSING = 0.0005, 0.06, 0.004  # shares of calls
HERITABLE, CAUSAL, SHARE = 0.45, 100, 0.18  # of the trait's variance, variants with small effects, and what one more variant explains
Haplotypes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Pedigree:
    """Everyone: family, places of father and mother (-1 for founders), sex (1 male, 2 female)."""

    family: list[int]
    parents: list[tuple[int, int]]
    sex: list[int]

    def add(self, family: int, parents: tuple[int, int], sex: int) -> int:
        """One more person; their place."""
        self.family.append(family)
        self.parents.append(parents)
        self.sex.append(sex)
        return len(self.sex) - 1


def pedigree_of(families: int, rng: np.random.Generator) -> Pedigree:
    """Couples with children; every fifth family has grandparents, whose two children married."""
    people = Pedigree([], [], [])
    for family in range(1, families + 1):
        couples = [(people.add(family, (-1, -1), 1), people.add(family, (-1, -1), 2))]
        if family % 5 == 0:
            grown = [people.add(family, couples[0], sex) for sex in (1, 2)]
            couples = [(grown[0], people.add(family, (-1, -1), 2)), (people.add(family, (-1, -1), 1), grown[1])]
        for couple in couples:
            for _ in range(int(rng.integers(2, 5))):
                people.add(family, couple, int(rng.integers(1, 3)))
    return people


def founders_of(count: int, rng: np.random.Generator) -> tuple[pl.DataFrame, list[Haplotypes]]:
    """The variants in order, and of each chromosome the founders' haplotypes `uint8[variants, 2 count]`."""
    frames, blocks = [], []
    for chromosome in CHROMOSOMES:
        parts = []
        stretches, wanted = STRETCHES.get(chromosome, VARIANTS)
        for stretch in range(stretches):
            seeds = rng.integers(1, 2**31, size=2).tolist()
            trees = msprime.sim_ancestry(
                {"north": count}, demography=history(), sequence_length=STRETCH_BP, recombination_rate=1.2e-8, random_seed=seeds[0]
            )
            trees = msprime.sim_mutations(trees, rate=1.3e-8, model=msprime.HKY(kappa=4.0), random_seed=seeds[1])
            sites = [site for site in trees.variants(copy=True) if len(site.alleles) == 2]
            found = np.array([site.genotypes for site in sites], np.uint8)
            share = found.mean(axis=1)
            common = np.flatnonzero((share > 0.03) & (share < 0.97))
            chosen = np.sort(rng.choice(common, min(wanted, len(common)), replace=False))
            start = 10_000_000 + stretch * APART_BP
            rows = [(chromosome, start + int(sites[i].site.position), *sites[i].alleles) for i in chosen]
            frames.append(pl.DataFrame(rows, schema=["chromosome", "base_pair_location", "ref", "alt"], orient="row"))
            parts.append(found[chosen])
        blocks.append(np.concatenate(parts))
    named = pl.format("{}:{}:{}:{}", "chromosome", "base_pair_location", "ref", "alt")
    return pl.concat(frames).with_columns(variant_id=named, centimorgan=pl.lit(0.0)), blocks


def gamete(pair: Haplotypes, places: npt.NDArray[np.int64], rng: np.random.Generator) -> Haplotypes:
    """One haplotype of a parent's `uint8[variants, 2]`, crossed over once in 100 million bases about."""
    crossings = np.sort(rng.uniform(places[0], places[0] + 1e8, rng.poisson(1.0)))
    side = (np.searchsorted(crossings, places) + rng.integers(2)) % 2
    return np.where(side == 0, pair[:, 0], pair[:, 1]).astype(np.uint8)


def inherited(people: Pedigree, founders: Haplotypes, places: npt.NDArray[np.int64], on_x: bool, rng: np.random.Generator) -> Calls:
    """ALT alleles of everyone on a chromosome; a man's X counts twice."""
    pairs, next_founder = list[Haplotypes](), 0
    for (father, mother), sex in zip(people.parents, people.sex, strict=True):
        if father < 0:
            pair = founders[:, 2 * next_founder : 2 * next_founder + 2]
            next_founder += 1
        else:
            of_father = pairs[father][:, 0] if on_x else gamete(pairs[father], places, rng)
            pair = np.stack([of_father, gamete(pairs[mother], places, rng)], axis=1)
        if on_x and sex == 1:
            pair = np.repeat(pair[:, -1:], 2, axis=1)
        pairs.append(pair)
    return np.stack([pair.sum(axis=1, dtype=np.uint8) for pair in pairs], axis=1)


def spoiled(calls: Calls, rng: np.random.Generator) -> tuple[Calls, npt.NDArray[np.int64]]:
    """The calls as a laboratory gives them, and the variants that it calls badly."""
    bad = rng.choice(len(calls), BAD_VARIANTS, replace=False)
    rate = np.full((len(calls), 1), WRONG)
    rate[bad] = WRONG_OF_BAD
    wrong = np.where(rng.random(calls.shape) < rate, rng.integers(0, 3, calls.shape), calls)
    return np.where(rng.random(calls.shape) < MISSING, 3, wrong).astype(np.uint8), np.sort(bad)


def make_sheet(calls: Calls, autosomal: npt.NDArray[np.bool_], names: list[str], rng: np.random.Generator) -> tuple[pl.DataFrame, int]:
    """Age and the trait, `height`, of everyone; and the row of the variant that explains the most of it."""
    frequency = calls.mean(axis=1) / 2
    fit = rng.permutation(np.flatnonzero(autosomal & (np.minimum(frequency, 1 - frequency) > 0.2)))
    main, small = fit[0], fit[1 : 1 + CAUSAL]

    def scaled(values: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float64]:
        return np.asarray(np.sqrt(share) * (values - values.mean()) / values.std())

    polygenic = scaled(rng.normal(0, 1, len(small)) @ calls[small].astype(np.float64), HERITABLE)
    age = np.round(rng.uniform(20, 80, calls.shape[1]))
    trait = scaled(calls[main].astype(np.float64), SHARE) + polygenic + 0.01 * (age - 50)
    trait += rng.normal(0, np.sqrt(1 - SHARE - HERITABLE), calls.shape[1])
    sheet = pl.DataFrame({"sample_id": names, "age": age.astype(np.int64), "height": np.round(170 + 7 * trait, 1)})
    return sheet, int(main)


def write_family(out: Path, families: int, seed: int) -> dict[str, list[str]]:
    """Write family.bed, .bim, .fam and samples.csv into the folder `out`; who and which variants were spoiled, and the causal variant."""
    rng = np.random.default_rng(seed)
    people = pedigree_of(families, rng)
    variants, founders = founders_of(sum(father < 0 for father, _ in people.parents), rng)
    places = [variants.filter(pl.col("chromosome") == name)["base_pair_location"].to_numpy() for name in CHROMOSOMES]
    found = [inherited(people, block, at, name == "X", rng) for name, block, at in zip(CHROMOSOMES, founders, places, strict=True)]
    calls, names = np.concatenate(found), [f"F{family:02d}-{place:03d}" for place, family in enumerate(people.family)]
    sheet, main = make_sheet(calls, (variants["chromosome"] != "X").to_numpy(), names, rng)
    children = [place for place, (father, _) in enumerate(people.parents) if father >= 0]
    first = children[3]
    other = next(place for place in reversed(children) if people.sex[place] == people.sex[first])
    laboratory, bad = spoiled(calls, rng)
    laboratory[:, [first, other]] = laboratory[:, [other, first]]
    of_others = {place for pair in people.parents for place in pair}
    noted = rng.choice([place for place in children if place not in {first, other, *of_others}], WRONG_SEX, replace=False)
    parent = [[names[place] if place >= 0 else None for place in pair] for pair in people.parents]
    fam = pl.DataFrame(
        {
            "sample_id": names,
            "family_id": [f"F{family:02d}" for family in people.family],
            "father_id": [father for father, _ in parent],
            "mother_id": [mother for _, mother in parent],
            "sex": [3 - sex if place in noted else sex for place, sex in enumerate(people.sex)],
        },
        schema_overrides={"father_id": pl.String, "mother_id": pl.String},
    )
    out.mkdir(parents=True, exist_ok=True)
    write_plink(out / "family", variants, fam, [pack(laboratory)])
    sheet[rng.permutation(len(sheet))].write_csv(out / "samples.csv")
    return {
        "exchanged": [names[first], names[other]],
        "sex": [names[place] for place in sorted(noted)],
        "variants": variants["variant_id"][bad.tolist()].to_list(),
        "causal": [variants["variant_id"][main]],
    }


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "family", help="folder to write to")
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--families", type=int, default=70)
    given = parser.parse_args()
    spoilt = write_family(given.out, given.families, given.seed)
    for what in ("exchanged", "sex", "causal"):
        print(f"{what}: {', '.join(spoilt[what])}")
    for path in sorted(given.out.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
