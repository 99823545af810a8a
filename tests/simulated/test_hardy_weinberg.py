"""Exact tests of Hardy-Weinberg equilibrium on the device, in the simulator, against the compiled version (itself against enumeration)."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.backend.launch import blocks_for
from pipeline.kernels.device.hardy_weinberg import exact, exact_x
from pipeline.testing.device import simulated

EDGES = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 31], [10, 0, 10], [0, 33, 0], [4000, 0, 4000], [10, 20, 10]]


@pytest.mark.parametrize("midp", [0, 1])
def test_exact__of_edges_and_of_random_tables(midp: int) -> None:
    counts = np.concatenate([np.array(EDGES, np.int64), np.random.default_rng(3).integers(0, 60, (150, 3))])
    found, expected = np.zeros((2, len(counts)))
    simulated(exact, blocks_for(len(counts), exact.threads), counts, midp, found)
    exact.plain(counts, midp, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isnan(found[0])
    assert found[6] == -1


@pytest.mark.parametrize("midp", [0, 1])
def test_exact_x__of_edges_and_of_random_tables(midp: int) -> None:
    edges = [[*table, men, other] for table in EDGES for men, other in ((0, 0), (5, 0), (7, 9))]
    counts = np.concatenate([np.array(edges, np.int64), np.random.default_rng(4).integers(0, 40, (60, 5))])
    found, expected = np.zeros((2, len(counts)))
    simulated(exact_x, blocks_for(len(counts), exact_x.threads), counts, midp, found)
    exact_x.plain(counts, midp, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    assert np.isnan(found[0])
