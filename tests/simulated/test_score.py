"""Score tests on the device, in the simulator, against the plain versions."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.device.score import score_conclusions, weighed_variants
from pipeline.kernels.genotypes import pack
from pipeline.testing.device import simulated
from tests.simulated.drawn import PEOPLE, assert_alike, odd_calls, odd_mask


@pytest.mark.parametrize("people", PEOPLE)
def test_weighed_variants__sum_weighted_squares_and_count_cases(people: int) -> None:
    rng, calls = np.random.default_rng(people), odd_calls(people)
    dense = np.where(calls == 3, 0, calls - 0.7)
    numbers = np.stack([rng.uniform(0.1, 0.3, people), np.arange(people) % 2]) * odd_mask(people)
    found, expected = np.zeros((2, 2, 7))
    simulated(weighed_variants, 7, dense, pack(calls), numbers, found, threads=8)
    weighed_variants.plain(dense, pack(calls), numbers, expected)
    assert_alike(found, expected)


def test_score_conclusions__give_numbers_or_a_reason() -> None:
    rng = np.random.default_rng(3)
    moments, own, weighed = rng.uniform(1, 2, (4, 8)), rng.uniform(0.5, 1, (2, 8)), rng.uniform(1, 2, (2, 8))
    moments[0], moments[3], weighed[1] = [40, 0, 5, 30, 30, 30, 30, 30], 0, [9, 0, 2, 0, 30, 4, 5, 6]
    moments[2, 5], own[0, 6], own[1, 7] = 0, 1e-12, 1e-12
    found, expected = ((np.zeros((2, 8)), np.zeros(8, np.int64), np.zeros(8, np.uint8)) for _ in range(2))
    arguments = moments, own, weighed, rng.normal(size=(2, 8, 1)), 4
    simulated(score_conclusions, 2, *arguments, *found, threads=5)
    score_conclusions.plain(*arguments, *expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert_alike(ours, theirs)
    assert expected[2].tolist() == [0, 1, 1, 5, 5, 2, 3, 4]
