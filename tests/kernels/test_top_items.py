"""Lists of the best items: by definition, with ties, and the same in any company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.kernels import top_items as module
from pipeline.kernels.factorization import Rows
from pipeline.kernels.top_items import pair_scores, top_items

RANDOM = np.random.default_rng(20261122)
USERS, ITEMS, F = 30, 50, 7
X, Y = RANDOM.normal(size=(USERS, F)), RANDOM.normal(size=(ITEMS, F))
SEEN = [np.sort(RANDOM.choice(ITEMS, size, replace=False)) for size in RANDOM.integers(0, 20, USERS - 1)] + [np.arange(47)]
OFFERED = RANDOM.random(ITEMS) < 0.9
ALL = np.ones(ITEMS, bool)


def rows_of(seen: list[Any]) -> Rows:
    columns = np.concatenate([np.empty(0, np.int64), *seen]).astype(np.int64)
    return Rows(np.append(0, np.cumsum([len(some) for some in seen])), columns, columns)


def by_definition(x: Any, y: Any, seen: list[Any], offered: Any, n: int) -> tuple[Any, Any]:
    """All scores of all users, sorted."""
    places, scores = np.full((len(x), n), -1), np.full((len(x), n), np.nan)
    for user, hidden in enumerate(seen):
        left = [(-pair_scores(x[user], y[item]), item) for item in range(len(y)) if offered[item] and item not in hidden]
        for rank, (score, item) in enumerate(sorted(left)[:n]):
            places[user, rank], scores[user, rank] = item, -score
    return places, scores


@pytest.mark.parametrize("n", [1, 5, 49, 50, 60])
def test_top_items__are_the_greatest_in_order(n: int) -> None:
    found, expected = top_items(X, Y, rows_of(SEEN), OFFERED, n), by_definition(X, Y, SEEN, OFFERED, n)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1], equal_nan=True)


@pytest.mark.parametrize("n", [1, 4, 20])
def test_top_items__takes_the_first_of_equals(n: int) -> None:
    alike = np.repeat(Y[:5], 10, axis=0)[RANDOM.permutation(ITEMS)]
    for x, y in ((X, alike), (np.zeros((USERS, F)), Y), (np.ones((USERS, 1)), RANDOM.integers(0, 3, (ITEMS, 1)).astype(float))):
        assert np.array_equal(top_items(x, y, rows_of(SEEN), ALL, n)[0], by_definition(x, y, SEEN, ALL, n)[0])


def test_top_items__of_a_user_are_the_same_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = top_items(X, Y, rows_of(SEEN), ALL, 6)
    for some in ([3], [29, 3, 3, 17], list(range(7, 21))):
        places, scores = top_items(X[some], Y, rows_of([SEEN[user] for user in some]), ALL, 6)
        assert np.array_equal(places, whole[0][some])
        assert np.array_equal(scores, whole[1][some], equal_nan=True)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1)
    assert np.array_equal(top_items(X, Y, rows_of(SEEN), ALL, 6)[1], whole[1], equal_nan=True)


def test_top_items__of_nobody_and_of_nothing_are_empty() -> None:
    assert top_items(X[:0], Y, rows_of([]), ALL, 3)[0].shape == (0, 3)
    assert (top_items(X, Y[:0], rows_of([[]] * USERS), ALL[:0], 3)[0] == -1).all()
    assert (top_items(X, Y, rows_of(SEEN), ~ALL, 3)[0] == -1).all()


def test_pair_scores__add_up_the_same_wherever_a_pair_stands() -> None:
    for f in (1, 2, 7, 8, 9, 64, 129, 300):
        x, y = RANDOM.normal(size=(11, f)), RANDOM.normal(size=(13, f))
        whole = pair_scores(x[:, None, :], y)
        assert all(pair_scores(x[i], y[j]) == whole[i, j] for i in range(11) for j in range(13))
        assert np.array_equal(pair_scores(x[[4, 2]], y[[1, 12]]), whole[[4, 2], [1, 12]])
