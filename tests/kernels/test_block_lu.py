from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from pipeline.kernels.block_lu import PROBES, Block, column_blocks, condition, factored, probes, substituted, updated

RNG = np.random.default_rng(1)


def solve(a: np.ndarray, b: np.ndarray, places: list[slice]) -> np.ndarray:
    blocks, panels = [Block((), rows) for rows in (*(a[:, place] for place in places), b)], []
    for at in range(len(places)):
        panels.append(factored(blocks[at]))
        blocks[at + 1 :] = [updated(panels[at], block) for block in blocks[at + 1 :]]
    assert all(panel.zero == -1 for panel in panels)
    sides = blocks[-1].above
    for panel in reversed(panels):
        sides = substituted(panel, sides)
    return np.concatenate(sides)


@pytest.mark.parametrize("width", [1, 3, 20, 50])
def test_block_lu__solves_as_lapack_does_with_the_same_pivots(width: int) -> None:
    a, b = RNG.normal(size=(50, 50)), RNG.normal(size=(50, 3))
    found = solve(a, b, [slice(start, min(start + width, 50)) for start in range(0, 50, width)])
    np.testing.assert_allclose(found, scipy.linalg.solve(a, b), rtol=1e-9, atol=1e-11)
    panel, (theirs, pivots) = factored(Block((), a[:, :width])), scipy.linalg.lu_factor(a)
    np.testing.assert_allclose(np.triu(theirs[:width, :width]), panel.upper, rtol=1e-10)
    order = np.arange(50)
    for place, other in enumerate(pivots[:width]):
        order[[place, other]] = order[[other, place]]
    assert panel.order.tolist() == order.tolist()


def test_block_lu__is_in_the_precision_of_its_blocks() -> None:
    a, b = RNG.normal(size=(50, 50)), RNG.normal(size=(50, 3))
    found = solve(a.astype(np.float32), b.astype(np.float32), [slice(0, 20), slice(20, 50)])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, scipy.linalg.solve(a, b), rtol=0, atol=1e-6 * np.linalg.cond(a))


def test_updated__is_the_same_on_any_number_of_threads() -> None:
    a, b = RNG.normal(size=(40_000, 3)), RNG.normal(size=(40_000, 9))
    panel = factored(Block((), a))
    one, two = updated(panel, Block((), b)).left, updated(panel, Block((), b), threads=2).left
    np.testing.assert_array_equal(one, two)
    assert np.isfinite(one).all()


def test_factored__says_which_column_has_no_pivot() -> None:
    a = RNG.normal(size=(9, 6))
    a[:, 4] = 0
    assert factored(Block((), a)).zero == 4
    assert factored(Block((np.ones((2, 6)), np.ones((1, 6))), a)).zero == 7


@pytest.mark.parametrize("power", [-500, 0, 500])
def test_condition__is_that_of_the_frobenius_norm(power: int) -> None:
    u, _ = np.linalg.qr(RNG.normal(size=(40, 40)))
    plain = (u * 10.0 ** np.linspace(0, -9, 40)) @ u.T
    a = plain * 2.0**power
    found = condition(float((a * a).sum()), np.linalg.solve(a, probes(40)))
    assert np.linalg.cond(plain, "fro") == pytest.approx(found, rel=0.5)
    assert condition(1.0, np.full((2, PROBES), np.inf)) == condition(1.0, np.zeros((2, PROBES))) == np.inf


@pytest.mark.parametrize("columns", [1, 64, 65, 1_000, 100_000])
def test_column_blocks__are_all_columns_once(columns: int) -> None:
    blocks = column_blocks(columns)
    assert [at for place in blocks for at in range(place.start, place.stop)] == list(range(columns))
    assert max(place.stop - place.start for place in blocks) <= 1_024
