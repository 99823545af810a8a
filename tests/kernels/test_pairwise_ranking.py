"""A step of Bayesian personalized ranking, against the gradient written out and by differences of its loss."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.pairwise_ranking import items_not_taken, ranking_step

RANDOM = np.random.default_rng(20261122)
USERS, ITEMS, F = 6, 5, 3


def test_ranking_step__is_that_of_the_paper_triple_by_triple() -> None:
    users, items = RANDOM.normal(size=(USERS, F)), RANDOM.normal(size=(ITEMS, F))
    who, taken, other = np.array([0, 0, 3, 5, 0]), np.array([1, 2, 1, 4, 1]), np.array([0, 1, 3, 0, 4])
    x, y = users.copy(), items.copy()
    losses = []
    for u, i, j in zip(who, taken, other, strict=True):
        margin = users[u] @ items[i] - users[u] @ items[j]
        pull = np.exp(-margin) / (1 + np.exp(-margin))
        x[u] += 0.1 * (pull * (items[i] - items[j]) - 0.02 * users[u])
        y[i] += 0.1 * (pull * users[u] - 0.02 * items[i])
        y[j] += 0.1 * (-pull * users[u] - 0.02 * items[j])
        losses.append(-np.log(1 / (1 + np.exp(-margin))))
    found = ranking_step(users, items, (who, taken, other), 0.1, 0.02)
    np.testing.assert_allclose(users, x, rtol=1e-12)
    np.testing.assert_allclose(items, y, rtol=1e-12)
    np.testing.assert_allclose(found, losses, rtol=1e-12)


def test_ranking_step__goes_down_the_gradient_of_its_loss() -> None:
    users, items, triple = RANDOM.normal(size=(1, F)), RANDOM.normal(size=(2, F)), tuple(np.array([n]) for n in (0, 0, 1))

    def loss(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.log1p(np.exp(-(x[0] @ (y[0] - y[1])))) + 0.05 * ((x**2).sum() + (y**2).sum()))

    x, y = users.copy(), items.copy()
    ranking_step(x, y, (triple[0], triple[1], triple[2]), 1.0, 0.1)
    for found, start, vary in ((x, users, 0), (y, items, 1)):
        for at in np.ndindex(start.shape):
            step = np.zeros_like(start)
            step[at] = 1e-6
            sides = [(users + s * step, items) if vary == 0 else (users, items + s * step) for s in (1, -1)]
            slope = (loss(*sides[0]) - loss(*sides[1])) / 2e-6
            assert found[at] - start[at] == pytest.approx(-slope, abs=1e-8)


def test_ranking_step__stays_finite_far_from_the_middle() -> None:
    users, items = np.full((1, 1), 1e4), np.array([[1e4], [-1e4]])
    forward = ranking_step(users, items, (np.array([0]), np.array([0]), np.array([1])), 0.1, 0.0)
    backward = ranking_step(users, items, (np.array([0]), np.array([1]), np.array([0])), 1e-9, 0.0)
    assert forward[0] == 0
    assert backward[0] == pytest.approx(2e8)
    assert np.isfinite(users).all()
    assert np.isfinite(items).all()


def test_items_not_taken__are_offered_and_not_the_users() -> None:
    taken = {0: [0, 1], 1: [2], 2: [1, 2, 4]}
    pairs = np.array([user * ITEMS + item for user, items in taken.items() for item in items])
    users, offered = np.repeat([0, 1, 2], 400), np.array([1, 2, 4])
    found = items_not_taken(pairs, users, offered, ITEMS, np.random.default_rng(1))
    assert {*found[users == 0]} == {2, 4}
    assert {*found[users == 1]} == {1, 4}
    assert {*found[users == 2]} == {-1}
