"""How soon trees of random cuts set a row apart from others: isolation forests. Liu, Ting & Zhou (2008), IEEE ICDM, 413-422."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module

Array = Any
_CELLS = 1 << 21
"""Rows times trees of a block."""


class Forest(NamedTuple):
    """Trees as one list of nodes; a leaf is its own child.

    By node: `feature int32`, `threshold float64` (up to which a row goes `left`, else `right`, both `int32`), and `length float64`, the
    length of the path of a row that ends there. By tree: `roots int32`. `levels` is how deep the deepest is; `normal` is the sum over the
    trees of the mean length of a path.
    """

    feature: Array
    threshold: Array
    left: Array
    right: Array
    length: Array
    roots: Array
    levels: Array
    normal: Array


def isolation_scores(points: Array, forest: Forest) -> Array:
    """The score `float64[n]` of rows `float32[n, d]` without missing values: from 0 to 1, the nearer to 1 the sooner it stands alone.

    scikit-learn's score_samples with the other sign.
    """
    if array_module(points) is np:
        from pipeline.kernels.compiled.isolation import path_sums

        sums = np.zeros(len(points))
        path_sums(np.ascontiguousarray(points), tuple(forest[:5]), forest.roots, sums)
        found: Array = 2.0 ** (-sums / float(forest.normal))
        return found
    return isolation_scores_plain(points, forest)


def isolation_scores_plain(points: Array, forest: Forest) -> Array:
    """As `isolation_scores`, level by level, all trees of a block of rows at once."""
    xp = array_module(points)
    trees = Forest(*(xp.asarray(value) for value in forest))
    scores = xp.empty(len(points), np.float64)
    block = max(1, _CELLS // len(trees.roots))
    for start in range(0, len(points), block):
        rows = points[start : start + block]
        at = xp.arange(len(rows))[None, :]
        node = xp.repeat(trees.roots[:, None], len(rows), axis=1)
        for _ in range(int(forest.levels)):
            stays = rows[at, trees.feature[node]] <= trees.threshold[node]
            node = xp.where(stays, trees.left[node], trees.right[node])
        scores[start : start + block] = 2.0 ** (-trees.length[node].sum(axis=0) / float(forest.normal))
    return scores
