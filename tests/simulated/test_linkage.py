"""Linkage of pairs of variants on the device, in the simulator, against the plain versions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.backend.launch import blocks_for
from pipeline.kernels.device.linkage import haplotype_squares, linked_pairs
from pipeline.kernels.genotypes import pack
from pipeline.testing.device import simulated


def linked_calls(variants: int, people: int) -> NDArray[np.uint8]:
    """Neighbours that are alike but for some people, a variant that does not vary and one that nobody is called for."""
    rng = np.random.default_rng(variants + people)
    codes = np.tile(rng.integers(0, 3, people, np.uint8), (variants, 1))
    changed = rng.random(codes.shape) < np.linspace(0, 0.9, variants)[:, None]
    codes[changed] = rng.integers(0, 4, int(changed.sum()), np.uint8)
    codes[1:2], codes[2:3] = 0, 3
    return np.asarray(pack(codes))


@pytest.mark.parametrize(("variants", "people"), [(1, 3), (9, 1), (9, 31), (12, 33), (7, 600)])
def test_linked_pairs__within_windows(variants: int, people: int) -> None:
    packed = linked_calls(variants, people)
    ends = np.minimum(np.arange(variants) + 6, variants)
    padding, most = 4 * packed.shape[1] - people, 5
    for rows in (variants, max(1, variants - 3)):
        found, expected = np.full((2, rows, most), 9, np.uint8)
        simulated(linked_pairs, blocks_for(found.size, linked_pairs.threads), packed, ends[:rows], padding, 0.2, found)
        linked_pairs.plain(packed, ends[:rows], padding, 0.2, expected)
        np.testing.assert_array_equal(found, expected)
    assert variants < 9 or people < 31 or 0 < expected.sum() < expected.size


@pytest.mark.parametrize(("variants", "people"), [(1, 1), (9, 31), (7, 600)])
def test_haplotype_squares__are_those_of_greatest_likelihood(variants: int, people: int) -> None:
    packed = linked_calls(variants, people)
    for index in (0, variants - 1):
        found, expected = np.zeros((2, variants))
        simulated(haplotype_squares, variants, packed, index, 4 * packed.shape[1] - people, found)
        haplotype_squares.plain(packed, index, 4 * packed.shape[1] - people, expected)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert np.isnan(found[1]) if variants > 1 else people == 1
