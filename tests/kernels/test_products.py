"""Compiled products of packed calls."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.compiled.products import calls_product
from pipeline.kernels.genotypes import pack, unpack


@pytest.mark.parametrize("codes", [(1.0, 2.0), (0.0, 1.0), (0.5, 1.0)])
@pytest.mark.parametrize(("variants", "people", "columns"), [(0, 9, 3), (5, 1, 1), (7, 31, 4), (3, 32, 5), (40, 263, 12), (11, 130, 70)])
def test_calls_product__is_that_of_the_decoded_calls(variants: int, people: int, columns: int, codes: tuple[float, float]) -> None:
    rng = np.random.default_rng(columns)
    calls = pack(rng.integers(0, 4, (variants, people)).astype(np.uint8))
    values = rng.normal(size=(people, columns))
    expected = unpack(calls, people, np.float64, 0, codes) @ values
    for more in (values, np.concatenate([values, np.full((1, columns), 0.0)])):
        product = calls_product(calls, more, codes)
        np.testing.assert_allclose(product[:, :columns], expected, rtol=1e-12, atol=1e-13)
        assert not product[:, columns:].any()
