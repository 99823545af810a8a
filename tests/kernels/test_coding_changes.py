"""Changes of codons against translating whole sequences, and what alleles share."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.coding_changes import CodingChanges, are_equal, has
from pipeline.kernels.genetic_code import STOP, base_codes
from pipeline.kernels.ragged import Ragged, entries, shared_ends
from tests.stages.genomics.gene_models import protein

BASES = np.array(list("ACGT"))


def ragged(texts: list[str]) -> Ragged:
    letters = np.frombuffer("".join(texts).encode(), np.uint8)
    return Ragged.of(base_codes(letters), np.array([len(text) for text in texts]))


def texts(rows: Ragged) -> list[str]:
    return [bytes(rows.values[a : a + n]).decode() for a, n in zip(rows.first, rows.length, strict=True)]


def changes(seed: int, rows: int = 400) -> tuple[list[str], list[str], CodingChanges]:
    random = np.random.default_rng(seed)
    coding = ["ATG" * (i % 2) + "".join(random.choice(BASES, 3 * random.integers(2, 9))) for i in range(rows)]
    at = np.array([random.integers(0, len(text)) for text in coding])
    removed = np.array([min(random.integers(0, 7), len(text) - begin) for text, begin in zip(coding, at, strict=True)])
    added = ["".join(random.choice(BASES, random.integers(0, 8))) for _ in range(rows)]
    new = [text[:a] + more + text[a + n :] for text, a, n, more in zip(coding, at, removed, added, strict=True)]
    return coding, new, CodingChanges(ragged(coding), at, removed, ragged(added), np.zeros(rows, bool))


@pytest.mark.parametrize("seed", [1, 2])
def test_coding_changes__are_those_of_whole_proteins(seed: int) -> None:
    old, new, change = changes(seed)
    before, after = texts(change.before()), texts(change.after())
    for i, (whole, changed) in enumerate(zip(old, new, strict=True)):
        first = int(change.begin[i]) // 3
        assert protein(whole)[first:].startswith(before[i])
        assert bool(change.is_in_frame[i]) == ((len(changed) - len(whole)) % 3 == 0)
        if change.is_in_frame[i]:
            assert protein(whole)[:first] + after[i] + protein(whole)[first + len(before[i]) :] == protein(changed)
        assert bool(change.keeps_start()[i]) == changed.startswith("ATG")
    assert has(change.before(), STOP).tolist() == ["*" in text for text in before]
    assert are_equal(change.before(), change.after()).tolist() == [a == b for a, b in zip(before, after, strict=True)]


def test_shared_ends__count_no_base_twice() -> None:
    pairs = [("A", "AA"), ("AA", "A"), ("CAT", "CGT"), ("ATAT", "AT"), ("GG", "GG"), ("C", "T"), ("TAC", "TGAC"), ("", "A")]
    begin, end = shared_ends(ragged([a for a, _ in pairs]), ragged([b for _, b in pairs]))
    assert list(zip(begin.tolist(), end.tolist(), strict=True)) == [(1, 0), (1, 0), (1, 1), (2, 0), (2, 0), (0, 0), (1, 2), (0, 0)]


def test_entries__are_rows_and_places() -> None:
    row, place = entries(np.array([2, 0, 3]))
    assert (row.tolist(), place.tolist()) == ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2])
