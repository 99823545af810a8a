"""Rows times columns in one order of operations: compiled as plain, to the last bit where few numbers are 0, and both NumPy's product."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels import row_products
from pipeline.kernels.row_products import add_products


@pytest.mark.parametrize("centered", [True, False])
def test_products__are_the_same_compiled_and_for_a_row_alone(monkeypatch: pytest.MonkeyPatch, *, centered: bool) -> None:
    random = np.random.default_rng(8)
    rows, columns = random.normal(size=(30, 500)), random.normal(size=(500, 9))
    means = rows.mean(axis=0) if centered else None
    if centered:
        rows[2, 7] = np.nan
    found, alone, plain = np.ones((30, 9)), np.ones((1, 9)), np.ones((30, 9))
    add_products(rows, columns, found, means)
    add_products(rows[4:5], columns, alone, means)
    monkeypatch.setattr(row_products, "MANY", columns.size + 1)
    add_products(rows, columns, plain, means)
    assert (found == plain).all()
    assert (found[4:5] == alone).all()
    exact = 1 + (rows if means is None else np.nan_to_num(rows - means)) @ columns
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("far", [False, True], ids=["means near 0", "a mean far from 0"])
def test_rows_that_are_nearly_all_zero__are_the_product_wherever_they_stand(*, far: bool) -> None:
    random = np.random.default_rng(9)
    rows, columns = np.where(random.random((40, 500)) < 0.04, random.normal(size=(40, 500)), 0.0), random.normal(size=(500, 9))
    rows[1], rows[2, :3], rows[3] = 0.0, (np.nan, 0.5, 1e6), random.normal(size=500)
    means = np.nan_to_num(rows).mean(axis=0)
    if far:
        rows[4, 7], means[7] = 1e9 + 1, 1e9  # of what the mean takes off at once seven digits would be lost
    found, alone = np.zeros((40, 9)), np.zeros((40, 9))
    add_products(rows, columns, found, means)
    for row in range(len(rows)):
        add_products(rows[row : row + 1], columns, alone[row : row + 1], means)
    assert (found == alone).all()
    numbers = np.where(np.isnan(rows), means, rows).astype(np.longdouble) - means
    np.testing.assert_allclose(found, (numbers @ columns).astype(float), rtol=1e-11, atol=1e-7 if far else 1e-11)
    if far:
        np.testing.assert_allclose(found[4], (numbers[4] @ columns).astype(float), rtol=1e-13)
