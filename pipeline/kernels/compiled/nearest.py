"""The nearest of a few points, row by row: the squares of a row's distances to all points lie side by side and are added up together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled


@compiled
def find_nearest(
    rows: NDArray[np.float64], across: NDArray[np.float64], tied: float, first: NDArray[np.int64], squares: NDArray[np.float64]
) -> None:
    """Write the nearest point of each row `[n, d]`, of `across: float64[d, k]`, and its squared distance, added up feature by feature.

    Of points that are equally near, but for `tied` of the squared lengths of the row and of the longest point, it is the first.
    """
    features, points = across.shape
    found, lengths = np.empty(points), np.zeros(points)
    for feature in range(features):
        for point in range(points):
            lengths[point] += across[feature, point] * across[feature, point]
    longest = lengths.max()
    for row in range(len(rows)):
        size = longest
        found[:] = 0.0
        for feature in range(features):
            value = rows[row, feature]
            size += value * value
            for point in range(points):
                apart = value - across[feature, point]
                found[point] += apart * apart
        low = found[0]
        for point in range(1, points):
            low = min(low, found[point])
        reach, chosen = low + tied * size, 0
        while found[chosen] > reach:
            chosen += 1
        first[row], squares[row] = chosen, found[chosen]


@compiled
def add_rows(rows: NDArray[np.float64], first: NDArray[np.int64], sums: NDArray[np.float64], counts: NDArray[np.float64]) -> None:
    """Add each row `[n, d]` to the line of `sums: float64[k, d]` that `first` names, and 1 to that of `counts`."""
    for row in range(len(rows)):
        at = first[row]
        counts[at] += 1.0
        for feature in range(rows.shape[1]):
            sums[at, feature] += rows[row, feature]
