from __future__ import annotations

import numpy as np

from pipeline.kernels.powers_of_two import LEAST, divided, exponents


def test_exponents__bring_every_number_below_1_and_back_without_rounding() -> None:
    values = np.array([[1.0, -3.7e300, 5e-324, 0.0, 1e-300, -0.5]])
    found = exponents(values)
    assert found[0, 3] == LEAST
    there = np.delete(values, 3)
    scaled = divided(there[None], np.delete(found, 3))
    assert ((abs(scaled) >= 0.5) & (abs(scaled) < 1)).all()
    np.testing.assert_array_equal(divided(scaled, -np.delete(found, 3))[0], there)
