"""Which pieces rows go to, and rows in the order of their pieces, beside NumPy's binary search and stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.compiled.pieces import between, in_pieces


@pytest.mark.parametrize(("rows", "pieces"), [(0, 1), (1, 1), (5_000, 1), (5_000, 7), (40, 300), (5_000, 2_048)])
def test_rows__come_piece_by_piece_and_each_as_they_were(rows: int, pieces: int) -> None:
    of_rows = (np.random.default_rng(rows).random(rows) ** 3 * pieces).astype(np.uint64)  # some pieces have most, some none
    heights, order = np.zeros(pieces, np.int64), np.empty(rows, np.uint32)
    in_pieces(of_rows, heights, np.empty(pieces, np.int64), order)
    assert order.tolist() == np.argsort(of_rows, kind="stable").tolist()
    assert heights.tolist() == np.bincount(of_rows.astype(np.int64), minlength=pieces).tolist()


@pytest.mark.parametrize("most", [1, 900, 2**40, 2**62])
@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("shift", [0, 3, 52])
def test_pieces__are_those_of_a_binary_search(most: int, count: int, shift: int) -> None:
    rng = np.random.default_rng(count)
    shift = max(shift, (2 * most).bit_length() - 12)
    numbers = (rng.random(3_000) ** 4 * (most - 1)).astype(np.int64)
    ends = np.sort(2 * rng.choice(numbers, count) + rng.integers(0, 2, count))  # before all rows of a number, or after them
    starts = np.arange((2 * most >> shift) + 2, dtype=np.uint64) << np.uint64(shift)
    pieces = np.empty(len(numbers), np.uint64)
    between(numbers, ends, np.searchsorted(ends.view(np.uint64), starts).astype(np.uint64), np.uint64(shift), pieces)
    assert pieces.tolist() == np.searchsorted(ends, 2 * numbers, side="right").tolist()
