"""The n-th number of each row: that of a sort, whatever stands in it and however it is found."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.nth_numbers import FEW, nth_greatest, nth_least

RANDOM = np.random.default_rng(20261128)


@pytest.mark.parametrize("n", [1, 2, 9, FEW, FEW + 1, 150])
def test_nth__is_that_of_a_sort(n: int) -> None:
    found = RANDOM.integers(-40, 40, (23, 150)).astype(float)  # most are equal to another
    found[3], found[4, ::2], found[5, 1::2] = 7.0, np.inf, -np.inf
    order = np.sort(found, axis=1)
    assert np.array_equal(nth_least(found, n), order[:, n - 1])
    assert np.array_equal(nth_greatest(found, n), order[:, -n])
    assert np.array_equal(nth_least(np.asfortranarray(found), n), order[:, n - 1])


def test_nth_least__of_rows_with_nan_is_that_of_the_others() -> None:
    found = RANDOM.normal(size=(5, 30))
    found[1, ::3], found[2] = np.nan, np.nan
    assert np.array_equal(nth_least(found, 20)[[0, 1, 3, 4]], np.sort(found, axis=1)[[0, 1, 3, 4], 19])
    assert not np.isfinite(nth_least(found, 1)[2])
