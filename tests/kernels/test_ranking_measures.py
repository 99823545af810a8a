"""Measures of lists, against scikit-learn and implicit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from pipeline.kernels.ranking_measures import hits, ranking_measures

RANDOM = np.random.default_rng(20261122)
USERS, ITEMS, K = 40, 30, 8
SCORES = RANDOM.normal(size=(USERS, ITEMS))
PLACES = np.argsort(-SCORES, axis=1)[:, :K]
TRUTH = RANDOM.random((USERS, ITEMS)) < RANDOM.uniform(0.03, 0.6, (USERS, 1))
TRUTH[:, 0] |= ~TRUTH.any(axis=1)
HELD = np.flatnonzero(TRUTH.ravel())
FOUND = ranking_measures(hits(np.arange(USERS), PLACES, HELD, ITEMS), TRUTH.sum(axis=1))


def test_ndcg__equals_scikit_learn() -> None:
    from sklearn.metrics import ndcg_score

    for user in range(USERS):
        assert FOUND[user, 2] == pytest.approx(ndcg_score(TRUTH[[user]].astype(int), SCORES[[user]], k=K), abs=1e-12)


def test_measures__equal_implicit() -> None:
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k

    model = AlternatingLeastSquares(factors=ITEMS, dtype=np.float64, num_threads=1)
    model.user_factors, model.item_factors = SCORES, np.eye(ITEMS)
    train, test = sparse.csr_matrix((USERS, ITEMS)), sparse.csr_matrix(TRUTH.astype(float))
    expected = ranking_metrics_at_k(model, train, test, K=K, show_progress=False, num_threads=1)
    assert FOUND[:, 2].mean() == pytest.approx(expected["ndcg"], rel=1e-6)
    assert FOUND[:, 3].mean() == pytest.approx(expected["map"], rel=1e-6)
    hit, held = hits(np.arange(USERS), PLACES, HELD, ITEMS).sum(), np.minimum(TRUTH.sum(axis=1), K).sum()
    assert hit / held == pytest.approx(expected["precision"], rel=1e-6)


def test_precision_and_recall__count_the_hits() -> None:
    for user in range(USERS):
        hit = len({*PLACES[user]} & {*np.flatnonzero(TRUTH[user])})
        assert FOUND[user, 0] == hit / K
        assert FOUND[user, 1] == pytest.approx(hit / TRUTH[user].sum())


def test_measures__of_a_perfect_list_are_one_and_of_a_short_one_count_what_is_missing() -> None:
    perfect = np.zeros((1, 4), bool)
    perfect[0, :2] = True
    assert ranking_measures(perfect, np.array([2])).tolist() == [[0.5, 1.0, 1.0, 1.0]]
    assert not hits(np.array([0]), np.array([[-1, -1]]), np.array([0, 1]), 5).any()
    assert not hits(np.array([0]), np.array([[1, 2]]), np.empty(0, int), 5).any()
