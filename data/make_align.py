"""Makes the alignment job's inputs: a reference, the reads of two samples, and the variants that were planted into them.

    python data/make_align.py --bases 80000 --depth 30 --out DIR [--seed 20261123]

Pairs of 150 bases from fragments of about 350, with errors as their qualities say; SNVs and short indels in one or both copies of a
chromosome. data/README.md says more.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.formats._bgzip.blocks import EOF_BLOCK
from pipeline.formats._bgzip.writer import bgzip

Bytes = npt.NDArray[np.uint8]

BASES = np.frombuffer(b"ACGT", np.uint8)
COMPLEMENT = np.zeros(256, np.uint8)
COMPLEMENT[BASES] = BASES[::-1]
LENGTH, FRAGMENT, SPREAD = 150, 350, 40
QUALITIES = np.array([2, 12, 23, 37], np.uint8)  # as recent sequencers bin them
SHARES = (0.002, 0.01, 0.03, 0.958)
SNVS, INDELS = 1e-3, 1.2e-4  # a base
SAMPLES = ("mother", "child")
SHARE_OF_FIRST = 0.75  # of the bases are of chromosome 1
REPEAT = 1_500  # bases that stand twice, so that their reads have no one place


@dataclass(frozen=True)
class Planted:
    """A variant: where it lies (from 0), what stands there and instead, and the copies of each sample that have it [samples, 2]."""

    chromosome: str
    at: int
    ref: bytes
    alt: bytes
    copies: npt.NDArray[np.bool_]


def make_reference(bases: int, rng: np.random.Generator) -> dict[str, Bytes]:
    """Two chromosomes; a stretch of the first stands on it twice."""
    first = int(bases * SHARE_OF_FIRST)
    found = {"1": rng.choice(BASES, first, p=[0.3, 0.2, 0.2, 0.3]), "2": rng.choice(BASES, bases - first, p=[0.27, 0.23, 0.23, 0.27])}
    found["1"][-2 * REPEAT : -REPEAT] = found["1"][REPEAT : 2 * REPEAT]
    return found


def plant(reference: dict[str, Bytes], rng: np.random.Generator) -> list[Planted]:
    """Variants at least 40 bases from one another and from the ends, in their order."""
    found = []
    for name, bases in reference.items():
        places = np.arange(100, len(bases) - 100, 40)
        places = places[np.full(len(places), name != "1") | ~(_within(places, REPEAT) | _within(places, len(bases) - 2 * REPEAT))]
        wanted = int(len(bases) * (SNVS + INDELS))
        for at in sorted(rng.choice(places, wanted, replace=False).tolist()):
            copies = rng.random((len(SAMPLES), 2)) < 0.45
            copies[rng.integers(len(SAMPLES)), rng.integers(2)] = True
            ref = bases[at : at + 1].tobytes()
            if rng.random() < SNVS / (SNVS + INDELS):
                alt = bytes([rng.choice(BASES[bases[at] != BASES])])
            elif rng.random() < 0.5:
                alt = ref + rng.choice(BASES, rng.integers(1, 7)).tobytes()
            else:
                ref, alt = bases[at : at + 1 + int(rng.integers(1, 7))].tobytes(), ref
            found.append(Planted(name, *leftmost(bases, at, ref, alt), copies))
    return found


def _within(places: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.bool_]:
    """Which places lie in a repeat that begins there, or so near that their reads do."""
    inside: npt.NDArray[np.bool_] = (places > first - FRAGMENT) & (places < first + REPEAT + FRAGMENT)
    return inside


def leftmost(bases: Bytes, at: int, ref: bytes, alt: bytes) -> tuple[int, bytes, bytes]:
    """An insertion or deletion as VCF has it: as far left as it can lie."""
    while len(ref) != len(alt) and ref[-1] == alt[-1]:
        before = bases[at - 1 : at].tobytes()
        at, ref, alt = at - 1, before + ref[:-1], before + alt[:-1]
    return at, ref, alt


def copy_of(bases: Bytes, planted: list[Planted], sample: int, which: int) -> Bytes:
    """One copy of a chromosome of a sample."""
    pieces, at = [], 0
    for variant in planted:
        if variant.copies[sample, which]:
            pieces += [bases[at : variant.at], np.frombuffer(variant.alt, np.uint8)]
            at = variant.at + len(variant.ref)
    return np.concatenate([*pieces, bases[at:]])


def make_pairs(copies: list[Bytes], depth: float, rng: np.random.Generator) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Bases and qualities `[pairs, LENGTH]` of both reads of each pair; the copies of a chromosome have half the depth each."""
    ends: tuple[list[Bytes], list[Bytes]] = ([], [])
    for bases in copies:
        pairs = round(len(bases) * depth / 2 / (2 * LENGTH))
        sizes = np.clip(rng.normal(FRAGMENT, SPREAD, pairs).astype(np.int64), LENGTH, FRAGMENT + 5 * SPREAD)
        starts = (rng.random(pairs) * (len(bases) - sizes + 1)).astype(np.int64)
        columns = np.arange(LENGTH)
        left = bases[starts[:, None] + columns]
        right = COMPLEMENT[bases[(starts + sizes)[:, None] - 1 - columns]]
        turned = rng.random(pairs) < 0.5
        ends[0].append(np.where(turned[:, None], right, left))
        ends[1].append(np.where(turned[:, None], left, right))
    order = rng.permutation(sum(map(len, ends[0])))
    first, second = (with_errors(np.concatenate(found)[order], rng) for found in ends)
    return *first, *second


def with_errors(bases: Bytes, rng: np.random.Generator) -> tuple[Bytes, Bytes]:
    """Bases of which some are wrong, as often as the qualities that come with them say."""
    qualities = rng.choice(QUALITIES, bases.shape, p=SHARES)
    wrong = rng.random(bases.shape) < 10 ** (qualities / -10.0)
    code = np.searchsorted(BASES, bases)
    return np.where(wrong, BASES[(code + rng.integers(1, 4, bases.shape)) % 4], bases), qualities + 33


def fastq(sample: str, bases: Bytes, qualities: Bytes) -> bytes:
    """Reads as FASTQ, bgzipped."""
    reads = (f"@{sample[0]}{at}\n".encode() + bases[at].tobytes() + b"\n+\n" + qualities[at].tobytes() + b"\n" for at in range(len(bases)))
    return bgzip(b"".join(reads)) + EOF_BLOCK


def write_align(out: Path, bases: int, depth: float, seed: int) -> None:
    """Write reference.fa.gz, SAMPLE_1.fastq.gz and SAMPLE_2.fastq.gz of each sample, and planted.csv; ValueError for too few bases."""
    if bases < 20_000:
        raise ValueError(f"bases={bases} are too few for two chromosomes; 20,000 at least")
    rng = np.random.default_rng(seed)
    reference = make_reference(bases, rng)
    planted = plant(reference, rng)
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        f">{name}\n" + "".join(text.tobytes()[at : at + 80].decode() + "\n" for at in range(0, len(text), 80))
        for name, text in reference.items()
    ]
    (out / "reference.fa.gz").write_bytes(bgzip("".join(lines).encode()) + EOF_BLOCK)
    for number, sample in enumerate(SAMPLES):
        copies = [
            copy_of(text, [one for one in planted if one.chromosome == name], number, which)
            for name, text in reference.items()
            for which in (0, 1)
        ]
        first, first_qualities, second, second_qualities = make_pairs(copies, depth, rng)
        (out / f"{sample}_1.fastq.gz").write_bytes(fastq(sample, first, first_qualities))
        (out / f"{sample}_2.fastq.gz").write_bytes(fastq(sample, second, second_qualities))
    rows = [f"chromosome,base_pair_location,ref,alt,{','.join(SAMPLES)}"]
    for one in planted:
        genotypes = ["/".join(map(str, sorted(had.astype(int).tolist()))) for had in one.copies]
        rows.append(f"{one.chromosome},{one.at + 1},{one.ref.decode()},{one.alt.decode()},{','.join(genotypes)}")
    (out / "planted.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bases", type=int, required=True, help="bases of the reference")
    parser.add_argument("--depth", type=float, default=30, help="how many reads cover a base of a sample")
    parser.add_argument("--out", type=Path, required=True, help="folder to write reference, reads and planted variants to")
    parser.add_argument("--seed", type=int, default=20261123)
    given = parser.parse_args()
    write_align(given.out, given.bases, given.depth, given.seed)
    for path in sorted(given.out.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
