from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from pipeline.kernels.concordance import concordant_pairs


def by_definition(time: Any, event: Any, risk: Any, entry: Any) -> tuple[float, int]:
    """Pair by pair."""
    right, pairs = 0.0, 0
    for i, j in permutations(range(len(time)), 2):
        if event[i] and entry[j] < time[i] and (time[j] > time[i] or (time[j] == time[i] and not event[j])):
            pairs += 1
            right += 1.0 if risk[i] > risk[j] else 0.5 * (risk[i] == risk[j])
    return right, pairs


@pytest.mark.parametrize("seed", range(8))
def test_concordant_pairs__are_those_of_the_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, values = 60, (5, 200)[seed % 2]
    time, risk = random.integers(1, values, n).astype(float), random.integers(0, values, n) / 7
    event, entry = random.random(n) < 0.6, np.floor(time * random.random(n))
    entry = np.where(entry < time, entry, time - 1)
    assert concordant_pairs(time, event, risk, entry) == by_definition(time, event, risk, entry)
    assert concordant_pairs(time, event, risk) == by_definition(time, event, risk, np.full(n, -1.0))


def test_concordant_pairs__of_nobody_and_of_no_event_are_none() -> None:
    assert concordant_pairs(np.empty(0), np.empty(0, bool), np.empty(0)) == (0, 0)
    assert concordant_pairs(np.ones(3), np.zeros(3, bool), np.arange(3.0)) == (0, 0)
