"""Counts of calls on the device, in the simulator, against the plain version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.backend.launch import blocks_for
from pipeline.kernels.device.counts import CHUNK, VARIANTS, sample_counts, take_samples, value_sums, variant_counts
from pipeline.kernels.genotypes import pack
from pipeline.testing.device import simulated

PEOPLE = [1, 31, 33, 130, 600]
ALL = np.empty(0, np.uint8)


def calls(variants: int, people: int) -> Any:
    codes = np.random.default_rng(people).integers(0, 4, (variants, people), np.uint8)
    codes[:1], codes[1:2] = 3, 0
    return pack(codes)


@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("some", [False, True], ids=["all", "some"])
def test_variant_counts__of_odd_widths_and_missing_calls(people: int, some: bool) -> None:
    packed = calls(VARIANTS + 1, people)
    mask = pack(3 * np.random.default_rng(1).integers(0, 2, (1, people), np.uint8))[0] if some else ALL
    found, expected = np.zeros((2, len(packed), 4), np.int64)
    simulated(variant_counts, blocks_for(len(packed), VARIANTS), packed, mask, people, found)
    variant_counts.plain(packed, mask, people, expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("variants", "people"), [(1, 1), (3, 31), (CHUNK, 33), (CHUNK + 3, 5), (3, 600)])
def test_sample_counts__beyond_what_a_byte_holds(variants: int, people: int) -> None:
    packed = calls(variants, people)
    packed[3:] = packed[-1]  # the same state 253 times in a chunk
    found, expected = np.zeros((2, 4 * packed.shape[1], 4), np.int64)
    blocks = blocks_for(packed.shape[1], sample_counts.threads), blocks_for(variants, CHUNK)
    simulated(sample_counts, blocks, packed, found)
    sample_counts.plain(packed, expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("variants", "people"), [(1, 1), (3, 31), (CHUNK + 3, 33)])
def test_value_sums__a_row_for_each_chunk(variants: int, people: int) -> None:
    packed, values = calls(variants, people), np.random.default_rng(2).normal(size=(variants, 4))
    chunks = blocks_for(variants, CHUNK)
    found, expected = np.zeros((2, chunks, 4 * packed.shape[1]))
    simulated(value_sums, (blocks_for(packed.shape[1], value_sums.threads), chunks), packed, values, found)
    value_sums.plain(packed, values, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("index", [[], [0], [32, 0, 0, 31, 5], list(range(33))], ids=len)
def test_take_samples__in_another_order_and_repeated(index: list[int]) -> None:
    packed, chosen = calls(3, 33), np.array(index, np.int64)
    found, expected = np.full((2, 3, -(-len(index) // 4)), 255, np.uint8)
    if found.size:
        simulated(take_samples, blocks_for(found.size, take_samples.threads), packed, chosen, found)
    take_samples.plain(packed, chosen, expected)
    np.testing.assert_array_equal(found, expected)
