"""Philox on the device, in the simulator: the words of all draws and paths, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.device.philox import uniforms_written
from pipeline.kernels.philox import key_of
from pipeline.testing.device import simulated


@pytest.mark.parametrize("count", [1, 33, 70])
def test_uniforms__are_the_plain_version(count: int) -> None:
    paths = np.arange(count, dtype=np.uint64) * np.uint64((1 << 33) + 7)
    found, expected = np.zeros((2, 2, 3, count))
    for seed in (0, (1 << 64) - 1):
        simulated(uniforms_written, 4, paths, 5, 2, *key_of(seed), found, threads=64)
        uniforms_written.plain(paths, 5, 2, *key_of(seed), expected)
        np.testing.assert_array_equal(found, expected)
        assert found.min() > 0
