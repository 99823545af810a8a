"""Linkage disequilibrium of pairs, and pruning: the compiled kernel against the plain one, both against what others print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.kernels import linkage_pruning
from pipeline.kernels.genotypes import pack
from pipeline.kernels.linkage import Samples, haplotype_linkage, haplotype_r_squared, paired_calls, without_haploid_heterozygotes
from pipeline.kernels.linkage_pairs import call_tables, correlations, linked
from pipeline.kernels.linkage_pruning import Pruned, PruneRule, prune

RULES = [
    PruneRule(20, 3, 0.2, by_position=False),
    PruneRule(20, 20, 0.1, by_position=False),
    PruneRule(2, 1, 0.05, by_position=False),
    PruneRule(20_000, 1, 0.2, by_position=True),
    PruneRule(10**6, 1, 0.01, by_position=True),
]


def linked_codes(variants: int, people: int, missing: float, seed: int = 1) -> NDArray[np.uint8]:
    """Neighbours correlated, some alike, one without a call, one all heterozygous, one all REF."""
    rng = np.random.default_rng(seed)
    state, codes = rng.normal(size=(2, people)), np.zeros((variants, people), np.uint8)
    for row in range(variants):
        state = 0.9 * state + 0.43 * rng.normal(size=(2, people))
        codes[row] = (state < rng.normal()).sum(axis=0)
    codes[rng.random(codes.shape) < missing] = 3
    for row, value in ((5, 0), (11, 3), (12, 1)):
        codes[row % max(variants, 1)] = value
    if variants > 20:
        codes[14], codes[16] = codes[13], np.array([2, 1, 0, 3], np.uint8)[codes[15]]
    return codes


def positions_of(variants: int) -> NDArray[np.int64]:
    """In order, some alike, with a gap that no window spans."""
    found = np.sort(np.random.default_rng(2).integers(1, 400 * variants + 1, variants))
    return np.where(np.arange(variants) > variants // 2, found + 5 * 10**6, found)


def in_pieces(codes: NDArray[np.uint8], samples: Samples, rule: PruneRule, cuts: Sequence[int]) -> Iterator[Pruned]:
    """What pruning gives for the pieces between the cuts, each with the variants that waited."""
    before, low, positions = None, 0, positions_of(len(codes))
    for high in cuts[1:]:
        before = prune(pack(codes[low:high]), positions[low:high], samples, rule, before, high == cuts[-1] and before is not None)
        low += before.start
        yield before


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("people", "variants", "missing"), [(41, 130, 0.05), (64, 90, 0.0), (513, 60, 0.3), (1, 30, 0.0), (130, 1, 0.0)])
def test_prune__compiled_is_the_plain_one_whole_and_in_pieces(people: int, variants: int, missing: float, rule: PruneRule) -> None:
    codes, positions = linked_codes(variants, people, missing), positions_of(variants)
    for haploid in (None, np.random.default_rng(3).random(people) < 0.4):
        samples = Samples(people, haploid)
        whole = prune(pack(codes), positions, samples, rule)
        with patch.object(linkage_pruning, "_walk_compiled", linkage_pruning._walk):
            plain = prune(pack(codes), positions, samples, rule)
            cut = [list(in_pieces(codes, samples, rule, [0, 3, 3, variants // 2, variants, variants]))]
        cut.append(list(in_pieces(codes, samples, rule, [*range(0, variants, 7), variants, variants])))
        assert whole.start == plain.start == variants
        for name in ("removed", "constant"):
            expected = getattr(whole, name)
            np.testing.assert_array_equal(getattr(plain, name), expected)
            for pieces in cut:
                np.testing.assert_array_equal(np.concatenate([getattr(piece, name)[: piece.start] for piece in pieces]), expected)


def test_prune__is_what_was_reckoned_by_hand() -> None:
    # The second is the first with another allele counted, the third is rarer than both and linked with neither, the last is constant.
    codes = np.array([[0, 1, 2, 0, 1, 0, 0, 2], [2, 1, 0, 2, 1, 2, 2, 0], [0, 0, 0, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]], np.uint8)
    found = prune(pack(codes), np.arange(4), Samples(8), PruneRule(4, 1, 0.5, by_position=False))
    assert found.removed.tolist() == [False, True, False, True]
    assert found.constant.tolist() == [False, False, False, True]


def test_prune__of_two_linked_the_one_with_the_rarer_minor_allele_goes() -> None:
    rare, common = [0, 0, 0, 0, 0, 0, 1, 2], [0, 0, 0, 0, 0, 1, 1, 2]
    for codes, removed in (([rare, common], [True, False]), ([common, rare], [False, True]), ([rare, rare], [False, True])):
        found = prune(pack(np.array(codes, np.uint8)), np.arange(2), Samples(8), PruneRule(2, 1, 0.5, by_position=False))
        assert found.removed.tolist() == removed


def test_prune__nothing_is_nothing() -> None:
    found = prune(np.zeros((0, 3), np.uint8), np.zeros(0, np.int64), Samples(9), RULES[0])
    assert (found.removed.tolist(), found.start) == ([], 0)


def test_paired_calls__are_those_of_a_loop() -> None:
    codes = linked_codes(40, 43, 0.1)
    for index in (3, 11, 20):
        counts = paired_calls(pack(codes), 43, index)
        expected = [[[int(((codes[index] == a) & (row == b)).sum()) for b in range(3)] for a in range(3)] for row in codes]
        assert counts.tolist() == expected


def expected_maximization(counts: NDArray[np.float64]) -> float:
    """r^2 of haplotypes by expectation and maximization, a step after the other, from half coupled."""
    alt, ref, doubles, rest = np.arange(3.0), 2 - np.arange(3.0), counts[1, 1], counts.copy()
    rest[1, 1] = 0
    certain = np.array([one @ rest @ other / 2 for one in (alt, ref) for other in (alt, ref)])
    share, coupled = certain, doubles / 2
    for _ in range(5_000):
        share = certain + np.array([coupled, doubles - coupled, doubles - coupled, coupled])
        share = share / share.sum()
        coupled = doubles * share[0] * share[3] / (share[0] * share[3] + share[1] * share[2])
    first, second = share[0] + share[1], share[0] + share[2]
    return float((share[0] - first * second) ** 2 / (first * (1 - first) * second * (1 - second)))


def test_haplotype_r_squared__is_what_expectation_maximization_comes_to() -> None:
    codes = linked_codes(40, 83, 0.05)
    found = haplotype_r_squared(pack(codes), 83, 20)
    counts = paired_calls(pack(codes), 83, 20).astype(float)
    rows = np.flatnonzero([(pair.sum(axis=0) > 0).sum() > 1 and (pair.sum(axis=1) > 0).sum() > 1 for pair in counts])
    np.testing.assert_allclose(found[rows], [expected_maximization(counts[row]) for row in rows], rtol=1e-9)
    assert len(rows) > 30
    assert np.isnan(found[[5, 11]]).all()


def test_haplotype_r_squared__is_what_plink_printed() -> None:
    # plink1.9 --ld of two variants with these counts: R-sq = 0.494528.
    counts = [[8, 1, 0], [8, 32, 1], [2, 13, 23]]
    pairs = [(a, b) for a in range(3) for b in range(3) for _ in range(counts[a][b])]
    packed = pack(np.array(pairs, np.uint8).T)
    assert haplotype_r_squared(packed, 88, 0)[1] == pytest.approx(0.494528, abs=5e-7)
    assert haplotype_r_squared(packed, 88, 0)[0] == pytest.approx(1)


def test_haplotype_r_squared__is_one_for_a_variant_and_its_mirror() -> None:
    codes = np.array([[0, 1, 2, 1, 0, 3], [2, 1, 0, 1, 2, 0], [1, 1, 1, 1, 1, 1]], np.uint8)
    assert haplotype_r_squared(pack(codes), 6, 0)[:2].tolist() == pytest.approx([1, 1])


def test_without_haploid_heterozygotes__leaves_the_others() -> None:
    codes = np.array([[0, 1, 2, 3, 1, 1, 2], [1, 1, 1, 1, 1, 1, 1]], np.uint8)
    haploid = np.array([True, True, True, True, False, True, False])
    found = without_haploid_heterozygotes(pack(codes), Samples(7, haploid))
    np.testing.assert_array_equal(found, pack(np.where((codes == 1) & haploid, 3, codes)))
    assert without_haploid_heterozygotes(found, Samples(7)) is found


@pytest.mark.parametrize(("people", "missing"), [(41, 0.1), (64, 0.0), (1, 0.0)])
def test_correlations__are_those_of_numpy_over_the_people_called_for_both(people: int, missing: float) -> None:
    codes = linked_codes(30, people, missing)
    if not missing:
        codes[11] = 2
    packed = pack(codes)
    calls = np.where(codes == 3, np.nan, codes.astype(float))
    with patch("pipeline.kernels.linkage_pairs._PEOPLE", 24):
        found, tables = correlations(packed[:9], packed, people), call_tables(packed[:9], packed, people)
    for i in range(9):
        np.testing.assert_array_equal(tables[i], paired_calls(packed, people, i))
        for j in range(30):
            both = ~np.isnan(calls[i] + calls[j])
            one, other = calls[i, both], calls[j, both]
            varies = both.any() and np.ptp(one) > 0 and np.ptp(other) > 0
            assert found[i, j] == pytest.approx(np.corrcoef(one, other)[0, 1] if varies else np.nan, abs=1e-12, nan_ok=True)


def test_linked__does_not_depend_on_the_tiles() -> None:
    packed = pack(linked_codes(70, 50, 0.05))
    ends = np.minimum(np.arange(60) + 20, 70)
    whole = linked(packed, ends, 50, 0.1)
    with patch("pipeline.kernels.linkage_pairs._TILE", 7):
        for one, other in zip(whole, linked(packed, ends, 50, 0.1), strict=True):
            np.testing.assert_array_equal(one, other)
    assert whole[0].max() < 60
    assert (whole[1] > whole[0]).all()
    assert (whole[1] < ends[whole[0]]).all()


def test_haplotype_linkage__knows_haplotypes_that_are_certain() -> None:
    """No double heterozygotes: D and its bound by hand. 10 people AB/AB, 6 ab/ab, 4 Ab/Ab; the same with ALT and REF of one exchanged."""
    counts = np.zeros((2, 3, 3))
    counts[0, 2, 2], counts[0, 0, 0], counts[0, 2, 0] = 10, 6, 4
    counts[1] = counts[0, ::-1]
    r, d_prime = haplotype_linkage(counts)
    covariance = 0.5 - 0.7 * 0.5
    np.testing.assert_allclose(r, np.array([1, -1]) * covariance / np.sqrt(0.7 * 0.3 * 0.5 * 0.5))
    np.testing.assert_allclose(d_prime, [1, -1])
    assert np.isnan(haplotype_linkage(np.zeros((1, 3, 3)))).all()
