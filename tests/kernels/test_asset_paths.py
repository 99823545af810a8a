"""Simulated prices against closed forms: Black and Scholes, Heston's characteristic function, copulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from pipeline.kernels.asset_paths import Asset, Heston, Market, correlated, log_prices, step_variance, step_variance_plain
from pipeline.kernels.black_scholes import Option, option_values
from pipeline.kernels.philox import key_of
from pipeline.kernels.student_copula import chi_square, normal_of_student

PATHS = np.arange(200_000, dtype=np.uint64)
SPOT, RATE, YEARS = 100.0, 0.03, 0.5


def market_of(*assets: Asset, correlation: float = 0.0, steps: int = 1, degrees: int | None = None) -> Market:
    matrix = np.full((len(assets), len(assets)), correlation)
    np.fill_diagonal(matrix, 1)
    return Market(assets, np.linalg.cholesky(matrix), YEARS, steps, degrees, key_of(11))


def near(values: Any, expected: float) -> bool:
    """Whether a mean is within four standard errors of what it should be."""
    return bool(abs(values.mean() - expected) < 4 * values.std() / np.sqrt(len(values)))


def heston_call(strike: float, variance: float, heston: Heston) -> float:
    """A call by the characteristic function of the price's logarithm (Heston 1993), in the form without a cut (Albrecher et al. 2007)."""
    kappa, theta, xi, rho = heston

    def phi(u: complex) -> complex:
        d = np.sqrt((rho * xi * 1j * u - kappa) ** 2 + xi**2 * (1j * u + u**2))
        g = (kappa - rho * xi * 1j * u - d) / (kappa - rho * xi * 1j * u + d)
        c = (kappa - rho * xi * 1j * u - d) * YEARS - 2 * np.log((1 - g * np.exp(-d * YEARS)) / (1 - g))
        e = (kappa - rho * xi * 1j * u - d) / xi**2 * (1 - np.exp(-d * YEARS)) / (1 - g * np.exp(-d * YEARS))
        return complex(np.exp(1j * u * (np.log(SPOT) + RATE * YEARS) + theta * kappa / xi**2 * c + variance * e))

    def share(shift: complex, by: complex) -> float:
        def inner(u: float) -> float:
            return float((np.exp(-1j * u * np.log(strike)) * phi(u + shift) / (1j * u * by)).real)

        return 0.5 + float(quad(inner, 0, 200, limit=400)[0]) / np.pi

    return SPOT * share(-1j, phi(-1j)) - strike * float(np.exp(-RATE * YEARS)) * share(0, 1)


@pytest.mark.parametrize("strike", [85.0, 100.0, 120.0])
def test_a_brownian_price__pays_what_black_and_scholes_say(strike: float) -> None:
    (found,) = log_prices(PATHS, market_of(Asset(SPOT, RATE, 0.25)))
    prices = np.exp(found)
    assert near(prices, SPOT * np.exp(RATE * YEARS))
    assert stats.kstest(found[::20], stats.norm(np.log(SPOT) + (RATE - 0.25**2 / 2) * YEARS, 0.25 * np.sqrt(YEARS)).cdf).pvalue > 1e-4
    for sign in (1, -1):
        value = option_values(np.log(np.array([SPOT])), np.array([SPOT]), Option(sign, strike, YEARS, 0.25, RATE, 0))[0]
        assert near(np.exp(-RATE * YEARS) * np.maximum(sign * (prices - strike), 0), value)


@pytest.mark.parametrize(
    "heston",
    [Heston(2.0, 0.05, 0.3, -0.7), Heston(1.5, 0.03, 0.45, 0.3)],  # the second reaches 0: 2 x 1.5 x 0.03 < 0.45^2
)
def test_a_heston_price__pays_what_the_characteristic_function_says(heston: Heston) -> None:
    (found,) = log_prices(PATHS[:100_000], market_of(Asset(SPOT, RATE, 0.2, heston), steps=126))
    prices = np.exp(found)
    assert near(prices, SPOT * np.exp(RATE * YEARS))
    for strike in (85.0, 100.0, 115.0):
        assert near(np.exp(-RATE * YEARS) * np.maximum(prices - strike, 0), heston_call(strike, 0.04, heston))


def test_a_variance_that_hardly_moves__is_a_brownian_price() -> None:
    still, plain = Asset(SPOT, RATE, 0.2, Heston(1.0, 0.04, 1e-9, 0.0)), Asset(SPOT, RATE, 0.2)
    moved, exact = log_prices(PATHS[:1000], market_of(still, plain, correlation=1 - 1e-12, steps=5))
    np.testing.assert_allclose(moved, exact, atol=1e-5)


def test_a_gaussian_copula__gives_the_correlations_that_are_asked_for() -> None:
    found = np.array(correlated(PATHS, 0, market_of(*[Asset(1, 0, 0.2)] * 3, correlation=0.6)))
    np.testing.assert_allclose(np.corrcoef(found), np.full((3, 3), 0.6) + 0.4 * np.eye(3), atol=4 * 0.64 / np.sqrt(len(PATHS)))


@pytest.mark.parametrize("degrees", [3, 4])
def test_a_t_copula__has_normal_margins_and_tails_that_fall_together(degrees: int) -> None:
    one, other = correlated(PATHS, 0, market_of(Asset(1, 0, 0.2), Asset(1, 0, 0.2), correlation=0.5, degrees=degrees))
    for values in (one, other):
        assert stats.kstest(values[::20], "norm").pvalue > 1e-4
    # Kendall's tau of all elliptical copulas, whatever their tails (Lindskog, McNeil & Schmock 2003).
    assert stats.kendalltau(one[::20], other[::20]).statistic == pytest.approx(2 / np.pi * np.arcsin(0.5), abs=0.03)
    below = 0.01
    both = stats.multivariate_t(shape=[[1, 0.5], [0.5, 1]], df=degrees, seed=1).cdf([stats.t.ppf(below, degrees)] * 2)
    cut = stats.norm.ppf(below)
    assert near((one < cut) & (other < cut), both)
    limit = 2 * stats.t.cdf(-np.sqrt((degrees + 1) * 0.5 / 1.5), degrees + 1)  # of tail dependence: Embrechts, McNeil & Straumann 2002
    far = stats.norm.ppf(1e-3)
    assert ((one < far) & (other < far)).mean() * 1e3 == pytest.approx(limit, rel=0.25)


def test_normal_of_student__is_the_number_of_the_same_probability() -> None:
    x = np.concatenate([np.linspace(-30, 30, 601), [1e-9, 1e3, -1e5]])
    for degrees in (1, 2, 5, 30):
        expected = np.where(x > 0, stats.norm.isf(stats.t.sf(x, degrees)), stats.norm.ppf(stats.t.cdf(x, degrees)))
        near_by = abs(expected) < 10
        np.testing.assert_allclose(normal_of_student(x, degrees)[near_by], expected[near_by], atol=2e-9)


@pytest.mark.parametrize("degrees", [1, 2, 3, 6, 7])
def test_chi_square__is_of_its_distribution(degrees: int) -> None:
    assert stats.kstest(chi_square(PATHS[:20_000], degrees, key_of(4)), stats.chi2(degrees).cdf).pvalue > 1e-4


def test_the_compiled_step__gives_what_the_plain_one_does() -> None:
    rng, terms = np.random.default_rng(1), Asset(SPOT, RATE, 0.2, Heston(2.0, 0.05, 0.6, -0.7)).terms(0.01)
    values = [rng.normal(4, 0.1, 500), rng.normal(0.01, 0.02, 500), rng.normal(size=500), rng.normal(size=500)]
    found, plain = ([array.copy() for array in values] for _ in range(2))
    step_variance(found[0], found[1], found[2], found[3], terms)
    step_variance_plain(plain[0], plain[1], plain[2], plain[3], terms)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-16)
