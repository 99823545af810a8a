"""Measures of the tail from kept losses beside those from all losses sorted, exactly, and beside closed forms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from pipeline.errors import RunError
from pipeline.kernels.asset_paths import Asset, Market
from pipeline.kernels.black_scholes import Option, option_values
from pipeline.kernels.philox import key_of
from pipeline.kernels.position_losses import Book, Position, greatest_loss, path_blocks, position_losses, unit_of
from pipeline.kernels.tail_measures import LevelRisk, level_risks
from pipeline.kernels.tail_risk import Cuts, TailSums, added, exact, first_paths, split, tail_sums

YEARS, LEVELS = 10 / 252, (0.9, 0.95, 0.99, 0.9995)
N = 150_001


def book_of(years: float = YEARS) -> Book:
    """Three shares, of which one is owed, a call that is written, and a put that ends at the horizon."""
    assets = tuple(Asset(spot, 0.05, volatility) for spot, volatility in ((100.0, 0.2), (50.0, 0.35), (200.0, 0.25)))
    matrix = np.array([[1, 0.5, 0.2], [0.5, 1, 0.4], [0.2, 0.4, 1]])
    shares = [Position(at, quantity, asset.spot) for (at, asset), quantity in zip(enumerate(assets), (10.0, 25.0, -2.0), strict=True)]
    call, put = Option(1.0, 105, 0.5, 0.2, 0.02, 0), Option(-1.0, 50, years, 0.35, 0.02, 0)
    options = [
        Position(
            at, quantity, float(option_values(np.log([spot]), np.array([spot]), option)[0]), option._replace(years=option.years - years)
        )
        for at, spot, quantity, option in ((0, 100.0, -20.0, call), (1, 50.0, 30.0, put))
    ]
    return Book(Market(assets, np.linalg.cholesky(matrix), years, 1, None, key_of(5)), (*shares, *options))


def losses_of(book: Book, unit: float, first: int, last: int) -> Iterator[tuple[Any, Any]]:
    for paths in path_blocks(first, last, book, np.empty(0)):
        yield position_losses(paths, book, unit), paths


def measured(book: Book, cuts_at: list[int], levels: tuple[float, ...] = LEVELS) -> tuple[float, Any, TailSums, list[LevelRisk]]:
    """Unit, all losses, sums and measures, the paths in parts that begin there, the last part first."""
    unit = unit_of(greatest_loss(np.arange(4096, dtype=np.uint64), book))
    every = np.concatenate([losses for losses, _ in losses_of(book, unit, 0, N)], axis=1)
    cuts = Cuts.of(every.sum(axis=0)[: first_paths(N)], levels, N)
    bounds = [*cuts_at, N]
    parts = [
        added([tail_sums(losses, paths, cuts) for losses, paths in losses_of(book, unit, bounds[at], bounds[at + 1])])
        for at in reversed(range(len(cuts_at)))
    ]
    sums = added(parts)
    return unit, every, sums, level_risks(cuts, sums, lambda paths: exact(split(every[:, paths.astype(np.int64)].sum(axis=1))))


@pytest.fixture(scope="module")
def whole() -> tuple[float, Any, TailSums, list[LevelRisk]]:
    return measured(book_of(), [0])


def test_measures__are_those_of_all_losses_sorted(whole: tuple[float, Any, TailSums, list[LevelRisk]]) -> None:
    _, every, sums, risks = whole
    ordered = np.sort(every.sum(axis=0))
    assert len(sums.kept) < N / 4
    for risk in risks:
        place = math.ceil(round(risk.level * N, 6))
        assert risk.value == ordered[place - 1]
        beyond = (1 - risk.level) * N
        shortfall = (ordered[place:].sum() + (beyond - (N - place)) * ordered[place - 1]) / beyond
        assert risk.shortfall == pytest.approx(shortfall, rel=1e-12)
        assert risk.shortfall_parts.sum() == pytest.approx(shortfall, rel=1e-12)
        assert risk.value_parts.sum() == pytest.approx(risk.value, rel=1e-12)
        worst = every[:, every.sum(axis=0) > risk.value]
        np.testing.assert_allclose(risk.shortfall_parts, worst.mean(axis=1), rtol=0.02, atol=1e-3 * risk.shortfall)
        spread = np.sqrt((worst.sum(axis=0).var() + risk.level * (risk.shortfall - risk.value) ** 2) / beyond)
        assert risk.shortfall_error == pytest.approx(spread, rel=2e-3)
        apart = 1.959964 * np.sqrt(risk.level * (1 - risk.level) * N)
        low, high = (ordered[place - 1 + step * math.ceil(apart)] for step in (-1, 1))
        assert (risk.low, risk.high) == (low, high)
    assert sums.histogram.sum() == N
    np.testing.assert_array_equal(exact(sums.total), every.sum(axis=1))


@pytest.mark.parametrize("cuts_at", [[0, 77_777], [0, 1, 2_000, 2_001, 60_000, 100_003, 149_999]])
def test_measures__are_the_same_to_the_last_digit_however_paths_are_divided(
    whole: tuple[float, Any, TailSums, list[LevelRisk]], cuts_at: list[int]
) -> None:
    _, every, _, risks = measured(book_of(), cuts_at)
    np.testing.assert_array_equal(every, whole[1])
    for one, other in zip(risks, whole[3], strict=True):
        assert (one.value, one.low, one.high, one.shortfall, one.shortfall_error) == (
            other.value, other.low, other.high, other.shortfall, other.shortfall_error,
        )  # fmt: skip
        np.testing.assert_array_equal(one.value_parts, other.value_parts)
        np.testing.assert_array_equal(one.shortfall_parts, other.shortfall_parts)


def test_a_loss_that_many_paths_have__is_counted_and_not_kept() -> None:
    book = book_of()
    put = book.positions[4]
    unit, every, sums, risks = measured(Book(book.market, (put,)), [0], (0.6, 0.95))
    greatest = every.max()
    assert greatest == round(30 * put.value / unit)
    assert (every == greatest).mean() > 0.45
    assert len(sums.kept) < 0.05 * N
    for risk in risks:
        assert risk.value == greatest == risk.low == risk.high
        assert risk.shortfall == pytest.approx(greatest, rel=1e-12)
        assert risk.shortfall_error == 0


def test_one_share__loses_what_a_lognormal_distribution_says() -> None:
    share = Asset(100.0, 0.08, 0.3)
    one = Book(Market((share,), np.eye(1), YEARS, 1, None, key_of(2)), (Position(0, 7.0, 100.0),))
    unit, _, _, risks = measured(one, [0], (0.95, 0.99))
    mean, spread = (0.08 - 0.3**2 / 2) * YEARS, 0.3 * np.sqrt(YEARS)
    for risk in risks:
        z = norm.ppf(1 - risk.level)
        value = 700 * (1 - np.exp(mean + spread * z))
        shortfall = 700 * (1 - np.exp(mean + spread**2 / 2) * norm.cdf(z - spread) / (1 - risk.level))
        assert risk.value * unit == pytest.approx(value, abs=4 * (risk.high - risk.low) / 3.92 * unit)
        assert risk.shortfall * unit == pytest.approx(shortfall, abs=4 * risk.shortfall_error * unit)


def test_shares_over_a_short_time__lose_and_add_what_a_normal_distribution_says() -> None:
    book = book_of(1e-6)
    shares = Book(book.market, book.positions[:3])
    unit, _, _, risks = measured(shares, [0], (0.99,))
    weights = np.array([position.quantity * position.value for position in shares.positions])
    moves = np.array([asset.volatility for asset in book.market.assets])
    covariance = book.market.loadings @ book.market.loadings.T * np.outer(moves, moves) * 1e-6
    spread = np.sqrt(weights @ covariance @ weights)
    euler = weights * (covariance @ weights) / spread
    (risk,) = risks
    assert risk.value * unit == pytest.approx(-norm.ppf(0.01) * spread, rel=0.02)
    assert risk.shortfall * unit == pytest.approx(norm.pdf(norm.ppf(0.01)) / 0.01 * spread, abs=4 * risk.shortfall_error * unit)
    np.testing.assert_allclose(risk.shortfall_parts * unit, euler * norm.pdf(norm.ppf(0.01)) / 0.01, rtol=0.05, atol=0.03 * spread)
    np.testing.assert_allclose(risk.value_parts * unit, -euler * norm.ppf(0.01), rtol=0.1, atol=0.15 * spread)


def test_first_paths_unlike_the_others__are_told() -> None:
    losses = np.arange(N, dtype=np.int64)[None, :]
    cuts = Cuts.of(np.arange(first_paths(N)), (0.99,), N)
    sums = tail_sums(losses, np.arange(N, dtype=np.uint64), cuts)
    with pytest.raises(RunError, match=r"unlike the others.*was not kept"):
        level_risks(cuts, sums, lambda paths: losses[:, paths.astype(np.int64)].sum(axis=1))


def test_exact__adds_numbers_beyond_64_bits() -> None:
    huge = np.array([(1 << 62) - 1, -(1 << 62)])
    total = split(huge)
    for _ in range(9):
        total = total + split(huge)
    assert exact(total).tolist() == [float(10 * ((1 << 62) - 1)), float(-10 * (1 << 62))]
