"""Isolation trees as scikit-learn grows them, taken out as plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.kernels.isolation import Forest

Array = Any
_MOST_SEED = 2**32


def average_path(rows: Array) -> Array:
    """The mean length of a path in a tree of so many rows, `float64[n]` of `int[n]`: what a leaf of them still counts (Liu 2008, eq. 1)."""
    many = np.maximum(rows, 3).astype(np.float64)
    found = 2.0 * (np.log(many - 1.0) + np.euler_gamma) - 2.0 * (many - 1.0) / many
    return np.where(rows > 2, found, np.where(rows == 2, 1.0, 0.0))


def grown(points: Array, trees: int, rows: int, features: float, seed: int) -> Forest:
    """A forest of rows `float32[n, d]`, each tree of so many of them and a share of the features. The same for the same rows and seed."""
    from sklearn.ensemble import IsolationForest

    forest = IsolationForest(n_estimators=trees, max_samples=rows, max_features=features, random_state=seed % _MOST_SEED).fit(points)
    return taken(forest, rows)


def taken(forest: Any, rows: int) -> Forest:
    """The arrays of scikit-learn's forest, whose trees are of so many rows each."""
    pieces, first = list[tuple[Array, ...]](), 0
    roots = []
    for estimator, columns in zip(forest.estimators_, forest.estimators_features_, strict=True):
        tree, own = estimator.tree_, np.arange(estimator.tree_.node_count)
        leaf = tree.children_left < 0
        left, right = (np.where(leaf, own, child) for child in (tree.children_left, tree.children_right))
        depth = _depths(left, right)
        length = np.where(leaf, depth + 1 + average_path(tree.n_node_samples) - 1.0, 0.0)
        feature = np.asarray(columns)[np.where(leaf, 0, tree.feature)]
        pieces.append((feature, np.where(leaf, 0.0, tree.threshold), left + first, right + first, length, depth))
        roots.append(first)
        first += tree.node_count
    feature, threshold, left, right, length, depth = (np.concatenate(column) for column in zip(*pieces, strict=True))
    normal = len(roots) * float(average_path(np.array([rows]))[0])
    nodes = (feature.astype(np.int32), threshold, left.astype(np.int32), right.astype(np.int32), length)
    return Forest(*nodes, np.array(roots, np.int32), np.array(depth.max()), np.array(normal))


def _depths(left: Array, right: Array) -> Array:
    """How many edges lie between the root, which comes first, and every node; children come after their parents."""
    depths = np.zeros(len(left), np.int64)
    for node in range(len(left)):
        if left[node] != node:
            depths[left[node]] = depths[right[node]] = depths[node] + 1
    return depths
