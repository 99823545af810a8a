from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.kernels import standardized
from pipeline.kernels.device import counts as on_device
from pipeline.kernels.genotypes import pack
from pipeline.kernels.standardized import (
    decoded,
    decoded_plainly,
    sample_products,
    single_rows,
    standard_values,
    value_sums,
    variant_products,
)

SHAPES = [(0, 5), (1, 1), (3, 4), (33, 41), (70, 32), (64, 33)]


def random_calls(n_variants: int, n_samples: int, missing: float = 0.1) -> NDArray[np.uint8]:
    rng = np.random.default_rng(n_variants + n_samples)
    calls = rng.integers(0, 3, (n_variants, n_samples)).astype(np.uint8)
    calls[rng.random(calls.shape) < missing] = 3
    return calls


def random_values(n_variants: int) -> NDArray[np.float64]:
    return np.random.default_rng(n_variants).normal(size=(n_variants, 4))


def test_standard_values__are_calls_less_their_mean_over_their_binomial_deviation() -> None:
    frequency = np.array([0.5, 0.1])
    expected = [[(g - 2 * f) / np.sqrt(2 * f * (1 - f)) for g in range(3)] + [0] for f in frequency]
    np.testing.assert_allclose(standard_values(frequency), expected, rtol=1e-15)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_decoded__gives_each_code_its_value(shape: tuple[int, int], dtype: Any) -> None:
    calls = random_calls(*shape)
    values: NDArray[Any] = random_values(shape[0]).astype(dtype)
    found = decoded(pack(calls), shape[1], values)
    assert found.dtype == dtype
    assert np.array_equal(found, np.take_along_axis(values, calls.astype(np.int64), axis=1))
    assert np.array_equal(found, decoded_plainly(pack(calls), shape[1], values))


def test_decoded__takes_rows_and_views() -> None:
    calls, values = random_calls(20, 9), random_values(20)
    found = decoded(pack(calls)[::2], 9, values[::2])
    assert np.array_equal(found, np.take_along_axis(values, calls.astype(np.int64), axis=1)[::2])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("missing", [0.1, 1.0])
def test_value_sums__equal_those_of_the_decoded_calls(shape: tuple[int, int], missing: float) -> None:
    calls, values = random_calls(*shape, missing), random_values(shape[0])
    expected = np.take_along_axis(values, calls.astype(np.int64), axis=1).sum(axis=0)
    np.testing.assert_allclose(value_sums(pack(calls), shape[1], values), expected, rtol=1e-12, atol=1e-12)
    sums = np.zeros((on_device.chunked(pack(calls))[1], 4 * pack(calls).shape[1]))
    on_device.value_sums.plain(pack(calls), values, sums)
    np.testing.assert_allclose(sums.sum(axis=0)[: shape[1]], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_products__equal_those_of_the_decoded_calls(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standardized, "BLOCK_BYTES", 8 * 41 * 10)
    calls, values = random_calls(*shape), random_values(shape[0])
    numbers = np.take_along_axis(values, calls.astype(np.int64), axis=1)
    rng = np.random.default_rng(1)
    of_variants, of_samples = rng.normal(size=(shape[0], 3)), rng.normal(size=(shape[1], 2))
    np.testing.assert_allclose(sample_products(pack(calls), shape[1], values, of_variants), numbers.T @ of_variants, atol=1e-12)
    np.testing.assert_allclose(variant_products(pack(calls), shape[1], values, of_samples), numbers @ of_samples, atol=1e-12)


def test_single_rows__are_whole_blocks_of_large_cohorts() -> None:
    packed = np.zeros((2_500, 1), np.uint8)
    assert [single_rows(packed, n, 1_024) for n in (2_000, 2_001)] == [0, 2_048]
