"""Piles of bases, beside a plain walk along every read."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from pipeline.kernels.cigars import operations
from pipeline.kernels.diploid_calls import support_of
from pipeline.kernels.pileup import ALLELES, Reads, Window, passing, pile, supported

CIGARS = ("20M", "3S17M", "8M4D12M", "9M3I8M", "5M2I5M6D8M", "20=", "1H20M")
COUNT = 60


def made(seed: int) -> tuple[list[str], Reads]:
    """Reads of 20 bases, two or three of a fragment, many of which overlap."""
    rng = np.random.default_rng(seed)
    cigars = [CIGARS[at] for at in rng.integers(0, len(CIGARS), COUNT)]
    bases = rng.choice(np.frombuffer(b"ACGTNac", np.uint8), 20 * COUNT)
    reads = Reads(
        rng.integers(0, 90, COUNT), rng.integers(1, 61, COUNT), rng.integers(0, COUNT // 2, COUNT), bases,
        rng.integers(35, 75, 20 * COUNT).astype(np.uint8), np.arange(0, 20 * COUNT + 1, 20),
    )  # fmt: skip
    return cigars, reads


def walked(
    cigars: list[str], reads: Reads, low: int, high: int, least: int
) -> tuple[dict[tuple[int, int], tuple[int, int]], list[tuple[int, ...]]]:
    """By position and fragment the base and its quality; and which positions reads go on behind, with the room that they have."""
    piled, passed = defaultdict[tuple[int, int], dict[int, int]](dict), list[tuple[int, ...]]()
    for read, cigar in enumerate(cigars):
        at, place = int(reads.start[read]), int(reads.offsets[read])
        for letter, length in zip(*_taken_apart(cigar), strict=True):
            if letter in "M=":
                for step in range(length):
                    fragment, mapping = int(reads.fragment[read]), int(reads.mapping_quality[read])
                    allele = ALLELES.find(bytes([reads.bases[place + step]]).upper())
                    raw = int(reads.qualities[place + step]) - 33
                    if low <= at + step < high:
                        if step < length - 1:
                            passed.append((at + step - low, fragment, mapping, min(step + 1, length - 1 - step)))
                        if allele >= 0 and raw >= least:
                            of = piled[at + step - low, fragment]
                            of[allele] = of.get(allele, 0) + min(raw, mapping, 60)
            at += length * (letter in "M=D")
            place += length * (letter in "M=IS")
    found = {}
    for key, alleles in piled.items():
        ranked = sorted(alleles.items(), key=lambda pair: -pair[1])
        rest = ranked[1][1] if len(ranked) > 1 else 0
        if ranked[0][1] > rest or len(ranked) == 1:
            found[key] = (ranked[0][0], min(ranked[0][1] - rest, 60))
    return found, passed


def _taken_apart(cigar: str) -> tuple[list[str], list[int]]:
    letters = [letter for letter in cigar if not letter.isdigit()]
    lengths = [int(number) for number in "".join(letter if letter.isdigit() else " " for letter in cigar).split()]
    return letters, lengths


@pytest.mark.parametrize(("seed", "low", "high"), [(1, 0, 200), (2, 30, 47), (3, 30, 31), (4, 150, 160)])
def test_pile__is_that_of_a_plain_walk(seed: int, low: int, high: int) -> None:
    cigars, reads = made(seed)
    found = operations(np.frombuffer("".join(cigars).encode(), np.uint8), np.cumsum([0, *map(len, cigars)]))
    bases = pile(found.aligned, reads, low, high, 10)
    expected, gone_on = walked(cigars, reads, low, high, 10)
    keys = list(zip(bases.at.tolist(), bases.fragment.tolist(), strict=True))
    assert len(keys) == len({*keys})
    assert dict(zip(keys, zip(bases.allele.tolist(), bases.quality.tolist(), strict=True), strict=True)) == expected
    sites = np.unique(np.random.default_rng(seed).integers(low, high, 40))
    passed = passing(found.aligned, reads, sites)
    number = {int(site) - low: at for at, site in enumerate(sites)}
    crossing = sorted((number[at], *rest) for at, *rest in gone_on if at in number)
    assert sorted(zip(*(column.tolist() for column in passed), strict=True)) == crossing


@pytest.mark.parametrize(("seed", "low", "high"), [(1, 0, 200), (2, 30, 47), (3, 30, 31), (4, 150, 160)])
def test_supported__adds_up_what_pile_gives(seed: int, low: int, high: int) -> None:
    cigars, reads = made(seed)
    found = operations(np.frombuffer("".join(cigars).encode(), np.uint8), np.cumsum([0, *map(len, cigars)])).aligned
    of_fragment = np.random.default_rng(seed).integers(0, 3, COUNT)
    bases = pile(found, reads, low, high, 10)
    key = (bases.at * 3 + of_fragment[bases.fragment]) * len(ALLELES) + bases.allele
    expected = support_of(key, bases.quality, (high - low) * 3 * len(ALLELES))
    together = supported(found, reads, Window(low, high, 10), of_fragment, 3)
    assert expected.reads.any() == (low < 150)
    assert [column.tolist() for column in together] == [column.tolist() for column in expected]
