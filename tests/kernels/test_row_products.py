"""Rows times columns in one order of operations: the compiled loop is the plain one to the last bit, and both are NumPy's product."""

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
