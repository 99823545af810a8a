"""Centred genotypes on the device, in the simulator, against the plain versions."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.device.centred import calls_centred, dosages_centred
from pipeline.kernels.genotypes import call_counts, pack
from pipeline.testing.device import simulated
from tests.simulated.drawn import PEOPLE, assert_alike, odd_calls, odd_mask


@pytest.mark.parametrize("codes", [(1.0, 2.0), (0.5, 1.0), (0.0, 1.0)])
@pytest.mark.parametrize("people", PEOPLE)
def test_calls_centred__gives_moments_and_a_table_for_odd_variants(people: int, codes: tuple[float, float]) -> None:
    counts = call_counts(pack(odd_calls(people)), people, odd_mask(people))
    found, expected = ((np.zeros((4, 7)), np.zeros((7, 4))) for _ in range(2))
    used = int(odd_mask(people).sum())
    simulated(calls_centred, 2, counts, used, *codes, *found, threads=4)
    calls_centred.plain(counts, used, *codes, *expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert_alike(ours, theirs)
    assert np.isnan(expected[0][1, 6])


@pytest.mark.parametrize("codes", [(1.0, 2.0), (1.0, 1.0)])
@pytest.mark.parametrize("people", PEOPLE)
def test_dosages_centred__gives_moments_and_who_is_missing(people: int, codes: tuple[float, float]) -> None:
    calls = odd_calls(people)
    dosages = np.where(calls == 3, np.nan, calls * 0.9).astype(np.float32)
    mask = pack(3 * odd_mask(people)[None].astype(np.uint8))[0]
    found, expected = ((np.ones((7, people)), np.ones((7, len(mask)), np.uint8), np.ones((4, 7))) for _ in range(2))
    simulated(dosages_centred, 7, dosages, mask, *codes, *found, threads=8)
    dosages_centred.plain(dosages, mask, *codes, *expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert_alike(ours, theirs)
