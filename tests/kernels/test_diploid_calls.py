"""Genotype likelihoods, beside the formula written out, and genotypes of reads drawn from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

from pipeline.kernels.diploid_calls import MOST_QUALITY, Support, call_genotypes, support_of

HETEROZYGOSITY = 0.001


def supports(reads: list[list[tuple[int, int]]]) -> tuple[Support, Support]:
    """REF's and ALT's support at one site of several samples, of which each has reads (allele, quality)."""
    rows = [(sample * 2 + allele, quality) for sample, some in enumerate(reads) for allele, quality in some]
    keys, qualities = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
    found = support_of(keys, qualities, 2 * len(reads))
    shaped = [column.reshape(1, len(reads), 2) for column in found]
    return Support(*(column[:, :, 0] for column in shaped)), Support(*(column[:, :, 1] for column in shaped))


def posterior(reads: list[tuple[int, int]]) -> np.ndarray:
    """Li (2011), equation 2, read by read, and the prior."""
    log = np.log([1 - 1.5 * HETEROZYGOSITY, HETEROZYGOSITY, HETEROZYGOSITY / 2])
    for allele, quality in reads:
        wrong = 10 ** (-min(quality, MOST_QUALITY) / 10)
        for copies in range(3):
            ref = ((2 - copies) * (1 - wrong) + copies * wrong) / 2
            log[copies] += np.log(1 - ref if allele else ref)
    found: np.ndarray = log - logsumexp(log)
    return found


def test_calls__are_those_of_the_formula() -> None:
    rng = np.random.default_rng(3)
    samples = [
        [(int(rng.random() < share), int(rng.integers(3, 80))) for _ in range(rng.integers(1, 40))] for share in (0, 0.1, 0.5, 0.9, 1) * 8
    ]
    found = call_genotypes(*supports(samples), HETEROZYGOSITY)
    expected = np.array([posterior(reads) for reads in samples])
    assert found.genotype[0].tolist() == expected.argmax(axis=1).tolist()
    wrong = [-10 / np.log(10) * logsumexp(np.delete(row, row.argmax())) for row in expected]
    np.testing.assert_allclose(found.quality[0], np.clip(np.rint(wrong), 0, 99), atol=1)
    assert (found.quality[0] != np.clip(np.rint(wrong), 0, 99)).mean() < 0.05  # a half may round either way
    np.testing.assert_allclose(found.site_quality, [-10 / np.log(10) * expected[:, 0].sum()], rtol=1e-6)


def test_calls__do_not_depend_on_the_order_of_reads() -> None:
    rng = np.random.default_rng(4)
    reads = [(int(rng.random() < 0.5), int(rng.integers(2, 61))) for _ in range(500)]
    first, again = (call_genotypes(*supports([some]), HETEROZYGOSITY) for some in (reads, [reads[at] for at in rng.permutation(500)]))
    assert [column.tobytes() for column in first] == [column.tobytes() for column in again]


def test_calls__without_reads_are_missing_and_say_nothing_of_a_site() -> None:
    found = call_genotypes(*supports([[], [(1, 40), (1, 40)]]), HETEROZYGOSITY)
    assert found.genotype.tolist() == [[-1, 2]]
    assert found.quality[0, 0] == 0
    assert found.site_quality[0] == pytest.approx(-10 / np.log(10) * posterior([(1, 40), (1, 40)])[0], rel=1e-6)


def test_calls__of_drawn_reads_are_right_as_often_as_they_say() -> None:
    rng = np.random.default_rng(5)
    truth, depth = rng.choice(3, 4_000, p=[1 - 1.5 * 0.2, 0.2, 0.1]), 5
    reads = rng.random((4_000, depth)) < np.choose(truth, [0.01, 0.5, 0.99])[:, None]
    alt, ref = reads.sum(axis=1), depth - reads.sum(axis=1)
    units = support_of(np.array([0]), np.array([20]), 1)
    of_ref, of_alt = (Support(count[:, None], count[:, None] * units.right, count[:, None] * units.wrong) for count in (ref, alt))
    found = call_genotypes(of_ref, of_alt, 0.2)
    said = (10 ** (-found.quality[:, 0] / 10)).sum()
    errors = (found.genotype[:, 0] != truth).sum()
    assert binom.sf(errors - 1, 4_000, said / 4_000) > 1e-3 < binom.cdf(errors, 4_000, said / 4_000)
