from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels import isolation
from pipeline.kernels.isolation import isolation_scores, isolation_scores_plain
from pipeline.stages.models._isolation_trees import average_path, grown

POINTS = np.random.default_rng(7).normal(size=(500, 4)).astype(np.float32)


def test_isolation_scores__are_the_plain_ones_in_any_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = grown(POINTS, 9, 100, 1.0, 3)
    expected = isolation_scores(POINTS, forest)
    for cells in (1, 100, 1 << 20):
        monkeypatch.setattr(isolation, "_CELLS", cells)
        np.testing.assert_allclose(isolation_scores_plain(POINTS, forest), expected, rtol=1e-14)  # powers, by two libraries
    assert isolation_scores(POINTS[:0], forest).shape == (0,)
    np.testing.assert_array_equal(isolation_scores(np.asfortranarray(POINTS), forest), expected)


def test_average_path__is_that_of_the_paper() -> None:
    """c(n) = 2 H(n - 1) - 2 (n - 1) / n, with H by its logarithm; c(2) = 1, c(1) = 0."""
    found = average_path(np.array([0, 1, 2, 3, 256]))
    assert found[:3].tolist() == [0, 0, 1]
    assert found[3:] == pytest.approx([2 * (np.log(n - 1) + np.euler_gamma) - 2 * (n - 1) / n for n in (3, 256)])
