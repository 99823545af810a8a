"""Factors by Bayesian personalized ranking: what a user did should score above what they did not.

Rendle, Freudenthaler, Gantner & Schmidt-Thieme 2009 (Uncertainty in Artificial Intelligence 25:452-461). For a user u, an item i that they
took and one j that they did not, the loss is -ln sigmoid(x_u'(y_i - y_j)) and regularization / 2 times the squared factors; a step goes
down its gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module

Array = Any

_TRIES = 8
"""Draws of an item that the user does not have; a triple without one is left out."""


def ranking_step(users: Array, items: Array, triples: tuple[Array, Array, Array], rate: float, regularization: float) -> Array:
    """Change `users: float64[u, f]` and `items: float64[i, f]` in place by one step, and give each triple's loss before it, `float64[n]`.

    `triples` are users, items that they took and items that they did not, `int64[n]` each. All gradients are of where the step began; those
    of one row are added.
    """
    xp = array_module(users)
    who, taken, other = triples
    of_user, of_taken, of_other = users[who], items[taken], items[other]
    margin = (of_user * (of_taken - of_other)).sum(axis=1)
    pull = (1 / (1 + xp.exp(xp.clip(margin, -500, 500))))[:, None]
    _add(users, who, rate * (pull * (of_taken - of_other) - regularization * of_user))
    gains = [rate * (pull * of_user - regularization * of_taken), rate * (-pull * of_user - regularization * of_other)]
    _add(items, xp.concatenate([taken, other]), xp.concatenate(gains))
    return xp.logaddexp(0, -margin)


def _add(matrix: Array, rows: Array, values: Array) -> None:
    """Add each of `values [n, f]` to its row: one dimension, which NumPy adds quicker than two."""
    xp, f = array_module(matrix), matrix.shape[1]
    xp.add.at(matrix.reshape(-1), (rows[:, None] * f + xp.arange(f)).reshape(-1), values.reshape(-1))


def items_not_taken(pairs: Any, users: Any, offered: Any, n_items: int, random: np.random.Generator) -> Any:
    """For each of `users: int64[n]` an item at random among `offered: int64[m]` that they do not have; -1 where no draw found one.

    `pairs: int64[p]` are user * n_items + item of all pairs, ascending. In the host's memory.
    """
    found, open_ = np.full(len(users), -1), np.arange(len(users))
    for _ in range(_TRIES):
        drawn = offered[random.integers(0, len(offered), len(open_))]
        keys = users[open_] * n_items + drawn
        at = np.minimum(np.searchsorted(pairs, keys), len(pairs) - 1)
        free = pairs[at] != keys
        found[open_[free]] = drawn[free]
        open_ = open_[~free]
    return found
