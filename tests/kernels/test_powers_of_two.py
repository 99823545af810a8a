from __future__ import annotations

import numpy as np

from pipeline.kernels.powers_of_two import LEAST, divided, exponents


def test_exponents__bring_every_number_below_1_and_back_without_rounding() -> None:
    values = np.array([[1.0, -3.7e300, 5e-324, 0.0, 1e-300, -0.5]])
    found = exponents(values)
    assert found[0, 3] == LEAST
    there = np.delete(values, 3)
    scaled = divided(there[None], 0, np.delete(found, 3))
    assert ((abs(scaled) >= 0.5) & (abs(scaled) < 1)).all()
    np.testing.assert_array_equal(divided(scaled, 0, -np.delete(found, 3))[0], there)


def test_divided__is_the_same_by_factors_and_by_exponents() -> None:
    values = np.random.default_rng(1).normal(size=(7, 5))
    rows, columns = np.arange(-3, 4)[:, None] * 140, np.arange(5) * 100 - 200
    np.testing.assert_array_equal(divided(values, rows, columns), np.ldexp(values, -(rows + columns)))
    np.testing.assert_array_equal(divided(values, rows + 600, columns - 600), np.ldexp(values, -(rows + columns)))
