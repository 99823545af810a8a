from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.lapack import _routine, cholesky_factor, cholesky_solved

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("size", [1, 7, 300])
def test_cholesky_solved__is_what_numpy_solves(size: int) -> None:
    rows = RNG.normal(size=(size, 2 * size + 1))
    matrix, right = rows @ rows.T, RNG.normal(size=(size, 3))
    factor = matrix.astype(np.float32, order="F")
    assert cholesky_factor(factor)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=2e-3, atol=2e-3)
    found = cholesky_solved(factor, right.astype(np.float32, order="F"))
    np.testing.assert_allclose(matrix @ found, right, atol=2e-3)


def test_cholesky_factor__says_what_is_not_positive_definite() -> None:
    assert not cholesky_factor(np.asfortranarray(np.diag([1.0, -1.0]).astype(np.float32)))


@pytest.mark.parametrize(
    "wrong",
    [
        np.eye(3),
        np.eye(3, dtype=np.float32)[:, :2],
        np.arange(9, dtype=np.float32).reshape(3, 3),
        np.ones(3, np.float32),
        np.asfortranarray(np.eye(6, dtype=np.float32))[::2, ::2],
    ],
)
def test_cholesky_factor__refuses_what_lapack_would_misread(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="Fortran's order is wanted"):
        cholesky_factor(wrong)
    with pytest.raises(ValueError, match="Fortran's order is wanted"):
        cholesky_solved(np.asfortranarray(np.eye(4, dtype=np.float32)), wrong)


def test_a_routine__that_takes_other_arguments_is_not_called() -> None:
    with pytest.raises(RuntimeError, match="spotrf takes"):
        _routine("spotrf", "char *", "int *", "int *", "s *", "int *")
