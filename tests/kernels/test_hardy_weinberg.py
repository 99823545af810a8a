from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from pipeline.kernels.hardy_weinberg import hwe_by_logarithms, hwe_exact
from tests.kernels.plink_files import REFERENCE, assert_printed, needs_data, read_columns


def by_fractions(hom_ref: int, het: int, hom_alt: int, midp: bool) -> float:
    """The definition in exact arithmetic: every possible count, weighed by the ways to reach it."""
    people, minor = hom_ref + het + hom_alt, het + 2 * min(hom_ref, hom_alt)
    ways = {h: comb(people, h) * comb(people - h, (minor - h) // 2) * 2**h for h in range(minor % 2, minor + 1, 2)}
    less, same = sum(w for w in ways.values() if w < ways[het]), sum(w for w in ways.values() if w == ways[het])
    return float((less + (Fraction(same, 2) if midp else same)) / Fraction(sum(ways.values())))


@pytest.mark.parametrize("midp", [False, True])
@pytest.mark.parametrize("people", [1, 2, 3, 8, 13, 30])
def test_hwe_exact__equals_exact_arithmetic_for_every_small_table(people: int, midp: bool) -> None:
    tables = [(a, h, people - a - h) for a in range(people + 1) for h in range(people + 1 - a)]
    expected = [by_fractions(*table, midp) for table in tables]
    hom_ref, het, hom_alt = np.array(tables).T
    np.testing.assert_allclose(hwe_exact(hom_ref, het, hom_alt, midp), np.array(expected), rtol=1e-11)


@pytest.mark.parametrize("midp", [False, True])
def test_hwe_exact__equals_exact_arithmetic_far_in_the_tails(midp: bool) -> None:
    tables = [
        (0, 1000, 0),
        (500, 0, 500),
        (1000, 4, 30),
        (30, 4, 1000),
        (700, 2, 300),
        (250, 500, 250),
        (3, 40, 900),
        (1, 0, 1999),
        (10, 900, 50),
    ]
    expected = [by_fractions(*table, midp) for table in tables]
    assert min(expected) < 1e-250
    hom_ref, het, hom_alt = np.array(tables).T
    np.testing.assert_allclose(hwe_exact(hom_ref, het, hom_alt, midp), np.array(expected), rtol=1e-9)


@pytest.mark.parametrize(("het", "hom_alt"), [(251_000, 124_500), (249_000, 125_400), (4_000, 30), (3_000, 1), (270_000, 115_000)])
def test_hwe_exact__equals_the_sum_over_all_outcomes_of_half_a_million_people(het: int, hom_alt: int) -> None:
    people = 500_000
    minor = het + 2 * min(hom_alt, people - het - hom_alt)
    every = np.arange(minor % 2, minor + 1, 2)
    rare = (minor - every) // 2
    weights = every * np.log(2) - gammaln(rare + 1) - gammaln(every + 1) - gammaln(people - every - rare + 1)
    observed = weights[every == het][0]
    expected = np.exp(logsumexp(weights[weights <= observed + 1e-7]) - logsumexp(weights))
    found = hwe_exact(np.array([people - het - hom_alt]), np.array([het]), np.array([hom_alt]))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_hwe_exact__survives_tables_beyond_the_smallest_float() -> None:
    found = hwe_exact(np.array([200_000, 0, 400_000]), np.array([0, 400_000, 0]), np.array([200_000, 0, 0]))
    assert found.tolist() == [0.0, 0.0, 1.0]


def test_hwe_exact__does_not_care_which_allele_is_the_reference() -> None:
    tables = np.random.default_rng(5).multinomial(200, [0.1, 0.4, 0.5], 300).T
    assert np.array_equal(hwe_exact(*tables), hwe_exact(*tables[::-1]))


def test_hwe_exact__is_nan_where_nobody_is_called_and_empty_for_no_variants() -> None:
    zero = np.array([0, 5])
    np.testing.assert_allclose(hwe_exact(zero, zero * 0, zero), [np.nan, by_fractions(5, 0, 5, False)], rtol=1e-12)
    assert hwe_exact(zero[:0], zero[:0], zero[:0]).shape == (0,)


@pytest.mark.parametrize("midp", [False, True])
def test_hwe_exact__gives_what_logarithms_do(midp: bool) -> None:
    rng = np.random.default_rng(6)
    frequency = rng.beta(0.4, 0.9, 4_000)
    shares = np.stack([(1 - frequency) ** 2, 2 * frequency * (1 - frequency), frequency**2], axis=1)
    shares[::4] = rng.dirichlet([1, 1, 1], 1_000)
    counts = np.stack([rng.multinomial(int(people), share) for people, share in zip(rng.integers(1, 3_000, 4_000), shares, strict=True)])
    plain = hwe_by_logarithms(counts, midp)
    assert plain.min() < 1e-200
    np.testing.assert_allclose(hwe_exact(counts[:, 0], counts[:, 1], counts[:, 2], midp), plain, rtol=1e-10, atol=1e-320)


def test_hwe_exact__refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match="cannot be negative; found -3"):
        hwe_exact(np.array([5]), np.array([-3]), np.array([5]))


@needs_data
@pytest.mark.parametrize(
    ("file", "column"),
    [("hapmap3/qc.hardy", "P"), ("hapmap3/qc_midp.hardy", "MIDP"), ("kgchr20/qc.hardy", "P"), ("regenie_example/qc.hardy", "P")],
)
def test_hwe_exact__is_what_plink_printed(file: str, column: str) -> None:
    table = read_columns(REFERENCE / file)
    hom_ref, het, hom_alt = (table[name].astype(int) for name in ("HOM_A1_CT", "HET_A1_CT", "TWO_AX_CT"))
    assert_printed(hwe_exact(hom_ref, het, hom_alt, midp=column == "MIDP"), table[column], 5e-6)
