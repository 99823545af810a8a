"""How good lists of recommendations are, by what users took that the model did not see."""

from __future__ import annotations

from typing import Any

import numpy as np

MEASURES = ("precision", "recall", "ndcg", "map")


def hits(users: Any, places: Any, held: Any, n_items: int) -> Any:
    """Which entries of the lists `places: int64[n, k]` (-1 for none) of `users: int64[n]` are held out, `bool[n, k]`.

    `held: int64[p]` are user * n_items + item of what was held out, ascending.
    """
    if not len(held):
        return np.zeros(places.shape, bool)
    keys = np.where(places < 0, -1, users[:, None] * n_items + places)
    return held[np.minimum(np.searchsorted(held, keys), len(held) - 1)] == keys


def ranking_measures(hit: Any, held: Any) -> Any:
    """Precision, recall, NDCG and average precision at k of each user, `float64[n, 4]`, of `hit: bool[n, k]` and `held: int64[n]`, above 0.

    precision = hits / k and recall = hits / held. NDCG has gains 1 / log2(rank + 1) over those of a list that begins with as many hits as
    could be (Jarvelin & Kekalainen 2002, ACM Transactions on Information Systems 20:422-446). The average precision is the sum of the
    precisions at the ranks of the hits over min(k, held).
    """
    ranks = np.arange(1, hit.shape[1] + 1)
    discount, most = 1 / np.log2(ranks + 1), np.minimum(held, len(ranks))
    found, ideal = hit.sum(axis=1), np.append(0, np.cumsum(discount))
    average = (hit * np.cumsum(hit, axis=1) / ranks).sum(axis=1) / most
    return np.column_stack([found / len(ranks), found / held, (hit * discount).sum(axis=1) / ideal[most], average])
