from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import factorial

import numpy as np
import pytest

from pipeline.kernels.hardy_weinberg import hwe_exact
from pipeline.kernels.hardy_weinberg_x import hwe_x_by_logarithms, hwe_x_exact
from tests.kernels.plink_files import REFERENCE, assert_printed, needs_data, read_columns

Outcome = tuple[int, int, int, int, int]


def outcomes(observed: Outcome) -> Iterator[tuple[Outcome, Fraction]]:
    """Every outcome with as many women, men and ALT alleles, and its weight, by the definition."""
    women, men, alt = sum(observed[:3]), sum(observed[3:]), observed[1] + 2 * observed[2] + observed[4]
    for man in range(max(0, alt - 2 * women), min(men, alt) + 1):
        for het in range((alt - man) % 2, min(alt - man, 2 * women - alt + man) + 1, 2):
            hom_alt = (alt - man - het) // 2
            outcome = (women - het - hom_alt, het, hom_alt, men - man, man)
            ways = 1
            for number in outcome:
                ways *= factorial(number)
            yield outcome, Fraction(2**het, ways)


def by_fractions(observed: Outcome, midp: bool) -> float:
    weights = dict(outcomes(observed))
    limit = weights[observed]
    less, same = sum(w for w in weights.values() if w < limit), sum(w for w in weights.values() if w == limit)
    return float((less + (Fraction(same) / 2 if midp else same)) / Fraction(sum(weights.values())))


@pytest.mark.parametrize("midp", [False, True])
@pytest.mark.parametrize("function", [hwe_x_exact, hwe_x_by_logarithms])
@pytest.mark.parametrize("observed", [(3, 4, 2, 5, 3), (13, 11, 3, 20, 1), (0, 6, 0, 0, 5), (0, 0, 0, 3, 2), (4, 3, 2, 0, 0)])
def test_hwe_x_exact__equals_exact_arithmetic_for_every_outcome(function: object, observed: Outcome, midp: bool) -> None:
    tables = [outcome for outcome, _ in outcomes(observed)]
    found = hwe_x_exact(np.array(tables), midp) if function is hwe_x_exact else hwe_x_by_logarithms(np.array(tables), midp)
    np.testing.assert_allclose(found, np.array([by_fractions(table, midp) for table in tables]), rtol=1e-11)


@needs_data
@pytest.mark.parametrize(("file", "column"), [("qc.hardy.x", "P"), ("qc_midp.hardy.x", "MIDP")])
def test_hwe_x_exact__is_what_plink_printed_for_hapmap3(file: str, column: str) -> None:
    table = read_columns(REFERENCE / "hapmap3" / file)
    names = ("FEMALE_HOM_A1_CT", "FEMALE_HET_A1_CT", "FEMALE_TWO_AX_CT", "MALE_A1_CT", "MALE_AX_CT")
    counts = np.stack([table[name].astype(int) for name in names], axis=1)
    assert_printed(hwe_x_exact(counts, midp=column == "MIDP"), table[column], 5e-6)


@pytest.mark.parametrize("midp", [False, True])
def test_hwe_x_exact__gives_what_logarithms_do(midp: bool) -> None:
    rng = np.random.default_rng(8)
    women, men = rng.dirichlet([1, 1, 1], 300), rng.beta(0.5, 0.5, 300)
    near = rng.beta(0.5, 0.5, 300)
    women[::2] = np.stack([(1 - near) ** 2, 2 * near * (1 - near), near**2], axis=1)[::2]
    men[::2] = near[::2]
    counts = np.stack([[*rng.multinomial(400, share), *rng.multinomial(350, [1 - f, f])] for share, f in zip(women, men, strict=True)])
    plain = hwe_x_by_logarithms(counts, midp)
    assert plain.min() < 1e-150
    np.testing.assert_allclose(hwe_x_exact(counts, midp), plain, rtol=1e-10, atol=1e-320)


def test_hwe_x_exact__without_men_is_the_test_of_autosomes() -> None:
    counts = np.random.default_rng(9).multinomial(150, [0.5, 0.3, 0.2], 50)
    found = hwe_x_exact(np.pad(counts, ((0, 0), (0, 2))))
    np.testing.assert_allclose(found, hwe_exact(*counts.T), rtol=1e-11)


def test_hwe_x_exact__is_nan_where_nobody_is_called_and_empty_for_no_variants() -> None:
    assert np.isnan(hwe_x_exact(np.zeros((2, 5), int))).all()
    assert hwe_x_exact(np.zeros((0, 5), int)).shape == (0,)


def test_hwe_x_exact__refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match="cannot be negative; found -1"):
        hwe_x_exact(np.array([[1, 2, 3, -1, 0]]))
