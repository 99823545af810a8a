"""Masked tables of counts: nobody can work out a small one from what is shown."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from pipeline.kernels.suppression import is_small, masks, with_totals

# tau-ARGUS' manual and Willenborg & de Waal 2001 begin with such tables: one small cell, which its row or its column gives away.
ONE_SMALL = np.array([[20, 50, 10], [8, 19, 22], [17, 32, 3]])


def bounds(counts: Any, masked: Any, least_of_masked: int) -> dict[tuple[int, int], tuple[float, float]]:
    """The least and the greatest that each masked cell can be, by linear programming over all that is shown."""
    table = with_totals(counts)
    rows, columns = table.shape
    places = list(product(range(rows), range(columns)))
    equations = np.zeros((rows + columns, len(places)))
    for number, (row, column) in enumerate(places):
        equations[row, number] = -1 if column == columns - 1 else 1
        equations[rows + column, number] = -1 if row == rows - 1 else 1
    known = [(least_of_masked, None) if masked[place] else (int(table[place]), int(table[place])) for place in places]
    found = {}
    for number, place in enumerate(places):
        if masked[place]:
            goal = np.eye(len(places))[number]
            low, high = (linprog(sign * goal, A_eq=equations, b_eq=np.zeros(rows + columns), bounds=known) for sign in (1, -1))
            found[place] = (low.fun, -high.fun if high.status == 0 else np.inf)
    return found


def assert_protected(counts: Any, least: int, zeros: bool) -> Any:
    """Mask a table; every small cell of it may have more than `least` values."""
    masked, table = masks(counts, least, zeros=zeros), with_totals(counts)
    small = is_small(table, least, zeros=zeros)
    assert masked[small].all()
    assert zeros or not masked[table == 0].any()
    for place, (low, high) in bounds(counts, masked, 0 if zeros else 1).items():
        assert not small[place] or high - low >= least - 1e-6, (counts, masked, place, low, high)
    return masked


def test_masks__of_one_small_cell_hide_a_rectangle_and_no_total() -> None:
    masked = assert_protected(ONE_SMALL, 5, zeros=False)
    assert masked[2, 2]
    assert masked.sum() == 4
    assert not masked[3].any()
    assert not masked[:, 3].any()


def test_masks__of_a_table_without_small_cells_are_none() -> None:
    assert not masks(ONE_SMALL + 5, 5).any()


def test_masks__by_every_table_that_fits_what_is_shown() -> None:
    """By trying them all, and no theory: 2 x 2 cells of 0 to 14 each, in 60 tables."""
    every = np.array(list(product(range(15), repeat=4))).reshape(-1, 2, 2)
    wide = np.concatenate([every, every.sum(axis=2, keepdims=True)], axis=2)
    wide = np.concatenate([wide, wide.sum(axis=1, keepdims=True)], axis=1)
    random = np.random.default_rng(20261121)
    for _ in range(60):
        counts = random.integers(0, 8, (2, 2))
        masked, table = masks(counts, 3), with_totals(counts)
        fits = ((wide == table) | masked).all(axis=(1, 2)) & ((wide >= 1) | ~masked).all(axis=(1, 2))
        for row, column in np.argwhere(is_small(table, 3, zeros=False)):
            assert len(np.unique(wide[fits, row, column])) > 3, (counts, masked)


@pytest.mark.parametrize("zeros", [False, True])
def test_masks__of_random_tables_hold_by_linear_programming(zeros: bool) -> None:
    random = np.random.default_rng(20261122)
    for _ in range(12):
        shape = random.integers(1, 6, 2)
        counts = random.poisson(random.choice([2.0, 6.0, 15.0]), shape) * (random.random(shape) < 0.8)
        assert_protected(counts, int(random.choice([3, 5, 10])), zeros)


def test_masks__leave_most_of_a_larger_table_and_its_totals() -> None:
    counts = np.random.default_rng(5).poisson(20, (30, 12))
    counts[::7, ::5] = 2
    masked = masks(counts, 5)
    assert not masked[-1].any()
    assert not masked[:, -1].any()
    assert masked.sum() <= 3 * (counts < 5).sum()
