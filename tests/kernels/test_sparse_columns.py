"""Columns that are nearly all 0: products beside those of the whole matrix, in which means are taken off first."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.sparse_columns import SparseColumns, compact


def few(rows: int = 60, columns: int = 40) -> np.ndarray:
    random = np.random.default_rng(4)
    numbers = random.normal(3, 2, (rows, columns)) * (random.random((rows, columns)) < 0.05)
    numbers[:, 0] = random.normal(size=rows)  # a column may be dense
    return numbers


def test_products__are_those_of_standardized_columns() -> None:
    numbers = few()
    numbers[3, 0] = numbers[5, 2] = np.nan
    means, scales = np.nanmean(numbers, axis=0), np.nanstd(numbers, axis=0)
    whole = np.hstack([np.ones((60, 1)), np.nan_to_num((numbers - means) / scales)])
    sparse = SparseColumns.of(numbers, means, scales)
    assert sparse is not None
    coefficients, rows = np.random.default_rng(5).normal(size=(41, 3)), np.random.default_rng(6).normal(size=(60, 3))
    np.testing.assert_allclose(sparse @ coefficients, whole @ coefficients, atol=1e-12)
    np.testing.assert_allclose(sparse[10:20] @ coefficients, whole[10:20] @ coefficients, atol=1e-12)
    np.testing.assert_allclose(sparse.T @ rows, whole.T @ rows, atol=1e-12)
    np.testing.assert_allclose(sparse.T @ rows[:, 0], whole.T @ rows[:, 0], atol=1e-12)


@pytest.mark.parametrize("numbers", [np.ones((9, 5)), np.empty((0, 3)), few() + 1])
def test_of_other_numbers__there_are_none(numbers: np.ndarray) -> None:
    assert SparseColumns.of(numbers, np.zeros(numbers.shape[1]), np.ones(numbers.shape[1])) is None
    assert compact(numbers) is numbers


def test_means_far_from_zero__are_not_taken_off_afterwards() -> None:
    numbers = few()
    numbers[:, 0] += 1e9
    assert SparseColumns.of(numbers, numbers.mean(axis=0), numbers.std(axis=0)) is None
