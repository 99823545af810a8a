"""Windows against the same worked out one window at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pipeline.kernels import windows
from pipeline.kernels.windows import first_from, window_least, window_picks, window_squares, window_sums, window_totals

SIZES = [0, 1, 2, 7, 64, 300]


def drawn(size: int) -> tuple[np.random.Generator, Any, Any]:
    """Windows over so many values: any stretches, empty ones and all of it among them."""
    rng = np.random.default_rng(size)
    low, high = np.sort(rng.integers(0, size + 1, (2, size)), axis=0)
    if size:
        low[0], high[0] = 0, size
    return rng, low, high


@pytest.mark.parametrize("size", SIZES)
def test_window_sums_and_squares__are_those_of_the_window_alone(size: int) -> None:
    rng, low, high = drawn(size)
    values = rng.normal(size=size) * 10.0 ** rng.integers(-3, 12, size)
    stretches = [values[a:b] for a, b in zip(low, high, strict=True)]
    sizes = [np.abs(window).sum() for window in stretches]
    assert (np.abs(window_sums(values, low, high) - [math.fsum(window) for window in stretches]) <= np.array(sizes) * 1e-15).all()
    squares = [((window - window.mean()) ** 2).sum() if len(window) else 0.0 for window in stretches]
    np.testing.assert_allclose(window_squares(values, low, high), squares, rtol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_compiled_sums_and_squares__are_the_plain_ones_to_the_last_bit(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, low, high = drawn(size)
    values = rng.normal(size=size) * 10.0 ** rng.integers(-3, 150, size)
    plain = [function(values, low, high) for function in (window_sums, window_squares)]
    monkeypatch.setattr(windows, "MANY", 0)
    compiled = [function(values, low, high) for function in (window_sums, window_squares)]
    assert [array.tobytes() for array in compiled] == [array.tobytes() for array in plain]


def test_window_sums__know_nothing_of_what_has_left_the_window() -> None:
    values = np.array([1e300, 1.0, 2.0, 4.0, 1e-300])
    low, high = np.array([0, 0, 1, 2, 4]), np.array([1, 2, 3, 4, 5])
    assert window_sums(values, low, high).tolist() == [1e300, 1e300, 3.0, 6.0, 1e-300]
    assert window_squares(np.full(5, 0.1), low, high).tolist() == [0.0] * 5


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("size", SIZES)
def test_window_totals__are_exact_beyond_64_bits(size: int, dtype: Any) -> None:
    rng, low, high = drawn(size)
    ends = np.iinfo(dtype)
    values = rng.choice(np.array([ends.min, ends.min + 1, 0, 5, ends.max - 1, ends.max], dtype), size)
    upper, lower = window_totals(values, low, high)
    expected = [sum(map(int, values[a:b])) for a, b in zip(low, high, strict=True)]
    assert [int(a) * 2**32 + int(b) for a, b in zip(upper, lower, strict=True)] == expected
    assert ((lower >= 0) & (lower < 2**32)).all()


@pytest.mark.parametrize("size", SIZES)
def test_window_least_and_picks__are_the_values_in_order(size: int) -> None:
    rng, low, high = drawn(size)
    ranks = rng.permutation(size).astype(np.int64)
    windows = [np.sort(ranks[a:b]) for a, b in zip(low, high, strict=True)]
    filled = np.array([len(window) > 0 for window in windows], bool)
    assert window_least(ranks, low, high)[filled].tolist() == [int(window[0]) for window in windows if len(window)]
    nth = np.array([rng.integers(len(window)) if len(window) else 0 for window in windows], np.int64)
    expected = [int(window[n]) for window, n in zip(windows, nth, strict=True) if len(window)]
    assert window_picks(ranks, low, high, nth)[filled].tolist() == expected


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("far", [0, 2**62, -(2**63), 2**63 - 9])
@pytest.mark.parametrize("groups", [[0], [1], [5, 1, 30], [3] * 20])
def test_first_from__is_the_search_within_each_group(groups: list[int], far: int, after: bool) -> None:
    rng = np.random.default_rng(len(groups))
    times = np.concatenate([np.sort(rng.integers(0, 9, size)) for size in groups])
    times[::7] += far
    times = np.concatenate([np.sort(part) for part in np.split(times, np.cumsum(groups)[:-1])])
    bounds = np.cumsum([0, *groups])
    starts, whole = np.repeat(bounds[:-1], groups), np.repeat(bounds[1:], groups)
    ends = whole - (whole - starts) // 4  # rows beyond have no time
    missing = np.arange(len(times)) >= ends
    times[missing] = 0
    wanted = rng.choice(np.concatenate([times, rng.integers(-2, 12, 9), [far, -(2**63), 2**63 - 1]]), len(times))
    expected = [
        a + np.searchsorted(times[a:b], time, "right" if after else "left") for a, b, time in zip(starts, ends, wanted, strict=True)
    ]
    assert first_from(times, starts, ends, wanted, after=after).tolist() == expected
