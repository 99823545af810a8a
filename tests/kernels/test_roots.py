"""Roots of falling functions, beside SciPy's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import brentq

from pipeline.kernels.roots import between, falling_root


@pytest.mark.parametrize("function", [lambda x: 1 - x, lambda x: 2 - np.exp(3 * x), lambda x: -np.sinh(5 * x) - 40, lambda x: 0.3 - x**9])
def test_between__finds_what_scipy_finds(function: Callable[[float], float]) -> None:
    found = brentq(function, -7, 5, xtol=1e-14)
    assert between(function, (-7.0, 5.0), 1e-13) == pytest.approx(found, abs=1e-11)
    assert falling_root(function, found + 0.3, 0.1) == pytest.approx(found, abs=1e-11)


def test_falling_root__is_nan_where_nothing_is_near() -> None:
    assert np.isnan(falling_root(lambda _: 1.0, 0.0, 1.0))
