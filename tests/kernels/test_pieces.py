"""Rows in the order of their pieces, beside NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.compiled.pieces import in_pieces


@pytest.mark.parametrize(("rows", "pieces"), [(0, 1), (1, 1), (5_000, 1), (5_000, 7), (40, 300), (5_000, 2_048)])
def test_rows__come_piece_by_piece_and_each_as_they_were(rows: int, pieces: int) -> None:
    of_rows = (np.random.default_rng(rows).random(rows) ** 3 * pieces).astype(np.uint64)  # some pieces have most, some none
    heights, order = np.zeros(pieces, np.int64), np.empty(rows, np.uint32)
    in_pieces(of_rows, heights, np.empty(pieces, np.int64), order)
    assert order.tolist() == np.argsort(of_rows, kind="stable").tolist()
    assert heights.tolist() == np.bincount(of_rows.astype(np.int64), minlength=pieces).tolist()
