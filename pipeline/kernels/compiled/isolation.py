"""Lengths of paths in the trees of an isolation forest."""

from __future__ import annotations

from typing import Any

from pipeline.kernels.compiled.jit import compiled

Array = Any


@compiled
def path_sums(points: Array, forest: tuple[Array, Array, Array, Array, Array], roots: Array, sums: Array) -> None:
    """Add to `sums: float64[n]` the lengths of the paths of rows `points: float32[n, d]` in every tree, tree by tree.

    `forest` has the nodes' feature, threshold, left, right and length.
    """
    feature, threshold, left, right, length = forest
    for root in roots:
        for row in range(len(points)):
            node = root
            while left[node] != node:
                node = left[node] if points[row, feature[node]] <= threshold[node] else right[node]
            sums[row] += length[node]
