"""Products of packed calls with columns as whole numbers, beside those of decoded calls."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.genotypes import pack, unpack
from pipeline.kernels.whole_columns import Columns, products_of_calls, whole_numbers


@pytest.mark.parametrize("codes", [(1.0, 2.0), (1.0, 1.0), (0.0, 1.0), (0.5, 1.0)])
@pytest.mark.parametrize(("variants", "people", "columns"), [(0, 9, 3), (5, 1, 1), (7, 31, 4), (3, 32, 5), (40, 1_263, 9), (11, 130, 70)])
def test_products_of_calls__are_those_of_decoded_calls(variants: int, people: int, columns: int, codes: tuple[float, float]) -> None:
    rng = np.random.default_rng(columns)
    calls, means = pack(rng.integers(0, 4, (variants, people)).astype(np.uint8)), rng.uniform(0, 2, variants)
    asked = (
        Columns(rng.normal(size=(people, columns)) * 10.0 ** rng.integers(-9, 9, columns)),
        Columns(rng.uniform(size=(people, 2)), power=2),
        Columns(rng.normal(size=(people, 3))),
    )
    coded = unpack(calls, people, np.float64, np.nan, codes)
    dense = np.where(np.isnan(coded), means[:, None], coded)
    for calls_now in (calls, np.frombuffer(calls.tobytes(), np.uint8).reshape(calls.shape)):
        for found, (values, power) in zip(products_of_calls(calls_now, codes, means, asked), asked, strict=True):
            np.testing.assert_allclose(found, dense**power @ values, rtol=1e-11, atol=1e-11 * abs(values).max())


def test_products_of_calls__take_the_largest_sums_that_there_are() -> None:
    calls = pack(np.full((2, 1_000), 2, np.uint8))
    for value in (1.0, -1.0, 2.0 - 2**-40):
        columns = Columns(np.full((1_000, 1), value), power=2)
        np.testing.assert_allclose(products_of_calls(calls, (1.0, 2.0), np.zeros(2), (columns,))[0], 4_000 * value, rtol=1e-13)


def test_whole_numbers__are_the_columns_to_a_share_of_their_greatest() -> None:
    values = np.random.default_rng(1).normal(size=(500, 3)) * [1.0, 1e-200, 0.0]
    numbers, units = whole_numbers(Columns(values))
    assert (numbers == np.rint(numbers)).all()
    assert abs(numbers).max() < 2**22
    np.testing.assert_allclose((numbers * units).reshape(500, 2, 3).sum(axis=1), values, rtol=0, atol=1e-13 * abs(values).max())


def test_products_of_calls__do_not_depend_on_the_block() -> None:
    rng = np.random.default_rng(3)
    calls, values = pack(rng.integers(0, 4, (60, 700)).astype(np.uint8)), Columns(rng.normal(size=(700, 4)))
    (whole,) = products_of_calls(calls, (1.0, 2.0), np.ones(60), (values,))
    (some,) = products_of_calls(calls[17:30], (1.0, 2.0), np.ones(13), (values,))
    np.testing.assert_array_equal(whole[17:30], some)
