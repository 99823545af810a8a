"""What pairs of people share, counted on the device, in the simulator, against matrix products."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.backend.launch import blocks_for
from pipeline.kernels.device.kinship import TILE, pair_counts, sample_planes
from pipeline.kernels.genotypes import pack
from pipeline.testing.device import simulated


@pytest.mark.parametrize(("variants", "people"), [(1, 1), (31, 2), (33, 17), (70, 18), (0, 5)])
def test_pair_counts__of_people_beyond_a_tile_and_variants_beyond_a_word(variants: int, people: int) -> None:
    packed = pack(np.random.default_rng(people).integers(0, 4, (variants, people), np.uint8))
    words, width = blocks_for(variants, 32), packed.shape[1]
    planes, expected_planes = np.zeros((2, 2, words, 4 * width), np.uint32)
    if words:
        simulated(sample_planes, (blocks_for(width, sample_planes.threads), words), packed, planes)
    sample_planes.plain(packed, expected_planes)
    np.testing.assert_array_equal(planes, expected_planes)
    first = np.ascontiguousarray(planes[:, :, : 4 * -(-people // 8)])
    sizes, tiles = (people, min(people, first.shape[2])), blocks_for(people, TILE)
    for same, earlier, size in ((1, planes, (people, people)), (0, first, sizes)):
        counts, expected = np.zeros((2, *size, 5), np.int32)
        wanted, expected_wanted = np.zeros((2, *size), np.uint8)
        simulated(pair_counts, (tiles, blocks_for(size[1], TILE)), planes, earlier, np.array([same, 0.0]), counts, wanted)
        pair_counts.plain(planes, earlier, np.array([same, 0.0]), expected, expected_wanted)
        np.testing.assert_array_equal(counts, expected)
        np.testing.assert_array_equal(wanted, expected_wanted)
