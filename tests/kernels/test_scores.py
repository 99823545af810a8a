from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.kernels.genotypes import pack
from pipeline.kernels.scores import call_scores, dosage_scores

RNG = np.random.default_rng(5)
WEIGHTS = RNG.normal(size=40)
SWAPPED = RNG.random(40) < 0.4


def random_calls(n_samples: int, missing: float) -> NDArray[np.uint8]:
    calls = RNG.integers(0, 3, (40, n_samples)).astype(np.uint8)
    calls[RNG.random(calls.shape) < missing] = 3
    calls[7] = 3
    return calls


def by_definition(alt: NDArray[np.float64], impute: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """With one loop over people and variants, from ALT dosages with NaN where missing."""
    sums, used = np.zeros(alt.shape[1]), np.zeros(alt.shape[1], np.int64)
    for row, weight, swapped in zip(alt, WEIGHTS, SWAPPED, strict=True):
        if np.isnan(row).all():
            continue
        effect = 2 - row if swapped else row
        mean = np.nanmean(effect)
        for person, dosage in enumerate(effect):
            if np.isnan(dosage) and not impute:
                continue
            sums[person] += weight * (mean if np.isnan(dosage) else dosage)
            used[person] += 1
    return sums, used


@pytest.mark.parametrize("impute", [True, False])
@pytest.mark.parametrize(("n_samples", "missing"), [(1, 0.5), (13, 0.0), (16, 0.2), (33, 0.2), (6, 1.0)])
def test_scores__equal_the_definition(n_samples: int, missing: float, impute: bool) -> None:
    calls = random_calls(n_samples, missing)
    alt = np.where(calls == 3, np.nan, calls.astype(np.float64))
    expected = by_definition(alt, impute)
    for found in (
        call_scores(pack(calls), n_samples, WEIGHTS, SWAPPED, impute),
        dosage_scores(alt.astype(np.float32), WEIGHTS, SWAPPED, impute),
    ):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-12)
        assert np.array_equal(found[1], expected[1])
        assert found[1].dtype == np.int64


@pytest.mark.parametrize("impute", [True, False])
def test_dosage_scores__of_dosages_between_whole_numbers_equal_the_definition(impute: bool) -> None:
    alt = np.random.default_rng(6).uniform(0, 2, (40, 9)).astype(np.float32)
    alt[3, 4] = np.nan
    sums, used = dosage_scores(alt, WEIGHTS, SWAPPED, impute)
    expected = by_definition(alt.astype(np.float64), impute)
    np.testing.assert_allclose(sums, expected[0], rtol=1e-12)
    assert np.array_equal(used, expected[1])


@pytest.mark.parametrize("impute", [True, False])
def test_scores__of_no_variants_are_nothing(impute: bool) -> None:
    none = np.empty(0)
    for sums, used in (
        call_scores(np.empty((0, 2), np.uint8), 5, none, none.astype(bool), impute),
        dosage_scores(np.empty((0, 5), np.float32), none, none.astype(bool), impute),
    ):
        assert np.array_equal(sums, np.zeros(5))
        assert np.array_equal(used, np.zeros(5, np.int64))
