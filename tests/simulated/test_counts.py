"""Counts of calls on the device, in the simulator, against the plain version."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.device.counts import variant_counts
from pipeline.kernels.genotypes import pack
from pipeline.testing.device import simulated


@pytest.mark.parametrize("people", [1, 31, 33, 130, 600])
def test_variant_counts__of_odd_widths_and_missing_calls(people: int) -> None:
    packed = pack(np.random.default_rng(people).integers(0, 4, (3, people), np.uint8))
    found, expected = np.zeros((2, 3, 4), np.int64)
    simulated(variant_counts, len(packed), packed, found)
    variant_counts.plain(packed, expected)
    np.testing.assert_array_equal(found, expected)
    assert expected[:, 1:].sum()
