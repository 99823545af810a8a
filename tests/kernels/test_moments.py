"""Means, deviations and scaling by blocks of rows: NumPy's of all rows at once, whatever the size of the numbers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.kernels.moments import Moments, joined_spans, moment_sums, moments, scaled, scaling, span, unscaled


def found_of(rows: Any, cuts: list[int]) -> Moments:
    blocks = np.split(rows, cuts)
    found = joined_spans([span(block) for block in blocks])
    return moments(found, sum(moment_sums(block, found) for block in blocks))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_moments__of_blocks_are_numpys_of_all_rows(scale: float, shift: float) -> None:
    rows = np.random.default_rng(1).normal(size=(500, 3)) * [1, 5, 0.1] + shift
    rows[::7, 1] = np.nan
    given_rows = rows * scale / (1 + shift)
    rows = given_rows / scale
    found = found_of(given_rows, [0, 10, 400])
    np.testing.assert_allclose(found.mean / scale, np.nanmean(rows, axis=0), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.deviation / scale, np.nanstd(rows, axis=0), rtol=1e-9)
    assert found.known.tolist() == [500, 500 - 72, 500]
    owns: list[Literal["one", "each"]] = ["one", "each"]
    for own in owns:
        by = scaling(found, centre=True, own=own)
        result = scaled(given_rows, by)
        assert np.isfinite(result).all()
        assert abs(result).max() < 100
        np.testing.assert_allclose(np.where(np.isnan(rows), np.nanmean(rows, axis=0), rows), unscaled(result, by) / scale, rtol=1e-12)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30), st.booleans())
def test_scaling__makes_numbers_that_can_be_squared(values: list[float], centre: bool) -> None:
    rows = np.array(values)[:, None]
    found = found_of(rows, [len(values) // 2])
    assert rows.min() <= found.mean[0] <= rows.max()
    for by in (scaling(found, centre=centre, own="one"), scaling(found, centre=centre, own="each")):
        assert np.isfinite(scaled(rows, by) ** 2).all()


def test_moments__of_a_column_with_no_value_and_of_one_that_does_not_vary() -> None:
    found = found_of(np.array([[np.nan, 0.1], [np.nan, 0.1]]), [1])
    assert found.known.tolist() == [0, 2]
    assert found.mean.tolist() == [0, 0.1]
    assert found.deviation.tolist() == [0, 0]
