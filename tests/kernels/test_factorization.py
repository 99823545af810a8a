"""Least squares of implicit feedback, against the dense equations written out and against implicit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from pipeline.kernels import factorization
from pipeline.kernels.factorization import Rows, cholesky_solve, gather, popularity, solve_rows, solve_rows_compiled

RANDOM = np.random.default_rng(20261122)
F = 5


def made_rows(lengths: Any, columns: int) -> Rows:
    """Rows of these lengths with columns and weights at random."""
    taken = [np.sort(RANDOM.choice(columns, length, replace=False)) for length in lengths]
    return Rows(np.append(0, np.cumsum(lengths)), np.concatenate(taken), RANDOM.integers(1, 6, sum(lengths)).astype(float))


def matrix_of(rows: Rows, columns: int) -> Any:
    return sparse.csr_matrix((rows.weights, rows.columns, rows.bounds), shape=(len(rows.bounds) - 1, columns))


ROWS = made_rows([3, 0, 1, 40, 17, 2, 2, 33, 0, 1], 40)
OTHER = RANDOM.normal(size=(40, F))


def dense(rows: Rows, other: Any, regularization: float, alpha: float) -> tuple[Any, float]:
    """Every row by its own dense system, and the loss over all pairs, as the paper writes both."""
    weights = matrix_of(rows, len(other)).toarray()
    confidence, preference = 1 + alpha * weights, (weights > 0).astype(float)
    inverse = [np.linalg.inv(other.T @ np.diag(c) @ other + regularization * np.eye(F)) for c in confidence]
    factors = np.array([inv @ other.T @ np.diag(c) @ p for inv, c, p in zip(inverse, confidence, preference, strict=True)])
    loss = (confidence * (preference - factors @ other.T) ** 2).sum() + regularization * (factors**2).sum()
    return factors, float(loss)


BOTH_WAYS = pytest.mark.parametrize("solved", [solve_rows, solve_rows_compiled])


@pytest.mark.parametrize(("regularization", "alpha"), [(0.01, 40.0), (3.0, 0.5)])
@BOTH_WAYS
def test_solve_rows__equals_the_dense_equations_and_their_loss(solved: Any, regularization: float, alpha: float) -> None:
    expected, loss = dense(ROWS, OTHER, regularization, alpha)
    factors, losses = solved(ROWS, [OTHER], OTHER.T @ OTHER, regularization, alpha)
    np.testing.assert_allclose(factors, expected, rtol=1e-9, atol=1e-12)
    assert losses.sum() == pytest.approx(loss, rel=1e-10)
    assert not factors[[1, 8]].any()


@BOTH_WAYS
def test_solve_rows__gives_a_row_the_same_in_any_batch_and_of_any_blocks(solved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gram = OTHER.T @ OTHER
    whole, _ = solved(ROWS, [OTHER], gram, 0.1, 2.0)
    for first in range(0, 10, 3):
        some, _ = solved(ROWS.between(first, min(first + 3, 10)), [OTHER[:7], OTHER[7:7], OTHER[7:]], gram, 0.1, 2.0)
        assert np.array_equal(some, whole[first : first + 3])
    monkeypatch.setattr(factorization, "_BATCH_BYTES", 1)
    assert np.array_equal(solved(ROWS, [OTHER], gram, 0.1, 2.0)[0], whole)


def test_solve_rows__cuts_a_row_that_is_longer_than_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, loss = dense(ROWS, OTHER, 0.1, 2.0)
    monkeypatch.setattr(factorization, "SEGMENT", 8)
    factors, losses = solve_rows(ROWS, [OTHER], OTHER.T @ OTHER, 0.1, 2.0)
    np.testing.assert_allclose(factors, expected, rtol=1e-10, atol=1e-12)
    assert losses.sum() == pytest.approx(loss, rel=1e-11)


@BOTH_WAYS
def test_rounds_of_solve_rows__equal_implicit(solved: Any) -> None:
    from implicit.cpu.als import AlternatingLeastSquares

    users, items, alpha = 60, 40, 3.0
    rows = made_rows(RANDOM.integers(1, 15, users), items)
    weights = matrix_of(rows, items)
    columns = weights.T.tocsr()
    columns.sort_indices()
    by_item = Rows(columns.indptr.astype(np.int64), columns.indices.astype(np.int64), columns.data)
    start = RANDOM.random((items, F)) * 0.01
    confidence = weights.copy()
    confidence.data = 1 + alpha * confidence.data
    model = AlternatingLeastSquares(
        factors=F, regularization=0.5, alpha=1.0, dtype=np.float64, use_native=True, use_cg=False, iterations=8, num_threads=1
    )
    model.item_factors = start.copy()
    model.fit(confidence, show_progress=False)
    y = start
    for _ in range(8):
        x, _ = solved(rows, [y], y.T @ y, 0.5, alpha)
        y, _ = solved(by_item, [x], x.T @ x, 0.5, alpha)
    np.testing.assert_allclose(x, model.user_factors, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, model.item_factors, rtol=1e-5, atol=1e-6)


def test_cholesky_solve__equals_scipy_and_refuses_what_is_not_positive_definite() -> None:
    half = RANDOM.normal(size=(7, F, F))
    left, right = half @ half.transpose(0, 2, 1) + np.eye(F), RANDOM.normal(size=(7, F))
    np.testing.assert_allclose(cholesky_solve(left, right), np.linalg.solve(left, right[..., None])[..., 0], rtol=1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        cholesky_solve(-left, right)


def test_gather__takes_rows_of_any_blocks() -> None:
    places = RANDOM.integers(0, 40, (3, 4))
    for edges in ([], [5], [0, 5, 5, 39, 40]):
        assert np.array_equal(gather(np.split(OTHER, edges), places), OTHER[places])


def test_popularity__counts_the_pairs_of_each_row() -> None:
    assert popularity(ROWS).tolist() == [3, 0, 1, 40, 17, 2, 2, 33, 0, 1]


def test_solve_rows_compiled__refuses_what_is_not_positive_definite() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        solve_rows_compiled(ROWS, [OTHER], -1000 * np.eye(F), 0.1, 2.0)
