"""Calls for the simulator: few variants, odd ones among them."""

from __future__ import annotations

from typing import Any

import numpy as np

PEOPLE = (1, 31, 33, 130)


def odd_calls(people: int, missing: float = 0.4) -> Any:
    """Calls `int8[7, n]`, 3 where missing: with missing ones, with none, two of one genotype, one of missing ones alone."""
    rng = np.random.default_rng(people)
    calls = rng.integers(0, 3, (7, people)).astype(np.int8)
    calls[:3][rng.random((3, people)) < missing] = 3
    calls[4], calls[5], calls[6] = 0, 2, 3
    return calls


def odd_mask(people: int) -> Any:
    """Some of the people, `bool[n]`."""
    return np.arange(people) % 5 != 3


def assert_alike(found: Any, expected: Any) -> None:
    """Numbers are alike but for the order of a sum; codes are the same."""
    np.testing.assert_allclose(found, expected, rtol=1e-9 if np.asarray(expected).dtype.kind == "f" else 0, atol=1e-12)
