"""Decoding on the device, in the simulator, against the plain version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.backend.launch import DeviceKernel
from pipeline.kernels.device.decode import float32s, float64s, int8s
from pipeline.kernels.genotypes import pack
from pipeline.testing.device import simulated


def drawn(people: int, tables: int, dtype: Any) -> tuple[Any, Any]:
    """Packed calls of three variants, and tables of four values."""
    rng = np.random.default_rng(people)
    return pack(rng.integers(0, 4, (3, people), np.uint8)), rng.integers(-50, 50, (tables, 4)).astype(dtype)


def plainly(kernel: DeviceKernel, packed: Any, values: Any, people: int) -> Any:
    expected = np.zeros((len(packed), people), values.dtype)
    kernel.plain(packed, values, expected)
    return expected


@pytest.mark.parametrize("high", [1, 2])
@pytest.mark.parametrize("tables", [1, 3])
@pytest.mark.parametrize("people", [1, 31, 33, 600])
def test_decoding__takes_each_call_from_its_table(people: int, tables: int, high: int) -> None:
    packed, values = drawn(people, tables, np.float64)
    found = np.zeros((3, people))
    simulated(float64s, (3, high), packed, values / 3, found, threads=32)
    np.testing.assert_array_equal(found, plainly(float64s, packed, values / 3, people))


def test_decoding__knows_float32_and_int8() -> None:
    packed, values = drawn(33, 3, np.float32)
    found = np.zeros((3, 33), np.float32)
    simulated(float32s, (3, 1), packed, values, found, threads=32)
    np.testing.assert_array_equal(found, plainly(float32s, packed, values, 33))
    packed, values = drawn(33, 1, np.int8)
    codes = np.zeros((3, 33), np.int8)
    simulated(int8s, (3, 1), packed, values, codes, threads=32)
    np.testing.assert_array_equal(codes, plainly(int8s, packed, values, 33))
