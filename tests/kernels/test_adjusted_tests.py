"""Tests of one effect with all else fixed: compiled kernels beside plain ones, and both beside SciPy's optimum and sums of chances."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from pipeline.kernels.adjusted_tests import (
    Effect,
    adjusted_likelihood_ratio,
    adjusted_likelihood_ratio_plain,
    saddle_point,
    saddle_point_plain,
)

Numbers = NDArray[np.float64]


def data(people: int, variants: int = 12, seed: int = 4, least: float = 0.2) -> tuple[Numbers, Numbers, Numbers]:
    """Numbers of which up to so many are 0, cases, and log odds."""
    random = np.random.default_rng(seed)
    adjusted = random.normal(size=(variants, people)) * (random.random((variants, people)) < random.uniform(least, 1, (variants, 1)))
    log_odds = random.normal(-1, 0.7, people)
    return adjusted, (random.random(people) < 1 / (1 + np.exp(-log_odds))).astype(float), log_odds


def penalized(beta: float, adjusted: Numbers, cases: Numbers, log_odds: Numbers) -> float:
    odds = log_odds + beta * adjusted
    p = 1 / (1 + np.exp(-odds))
    return float(cases @ odds - np.logaddexp(0, odds).sum() + np.log(adjusted**2 @ (p * (1 - p))) / 2)


@pytest.mark.parametrize(
    ("people", "least", "start"), [(33, 0.2, 0.0), (400, 0.2, 0.0), (33, 1.0, 0.0), (1_500, 1.0, 0.0), (400, 1.0, 6.0)]
)
def test_adjusted_likelihood_ratio__is_the_greatest_penalized_likelihood(people: int, least: float, start: float) -> None:
    adjusted, cases, log_odds = data(people, least=least)
    found = adjusted_likelihood_ratio(adjusted, cases, log_odds, np.full(len(adjusted), start))
    for one, plain in zip(found, adjusted_likelihood_ratio_plain(adjusted, cases, log_odds, np.zeros(len(adjusted))), strict=True):
        np.testing.assert_allclose(one, plain, rtol=1e-6, atol=1e-7)
    for place, row in enumerate(adjusted):
        best = minimize_scalar(lambda beta, row=row: -penalized(beta, row, cases, log_odds), bracket=(-1, 1), options={"xtol": 1e-10})
        assert found.beta[place] == pytest.approx(best.x, abs=1e-5)
        assert found.chi_square[place] == pytest.approx(2 * (-best.fun - penalized(0, row, cases, log_odds)), abs=1e-8)
        p = 1 / (1 + np.exp(-(log_odds + best.x * row)))
        assert found.standard_error[place] == pytest.approx((row**2 @ (p * (1 - p))) ** -0.5, rel=1e-5)


def test_adjusted_likelihood_ratio__of_two_maxima_is_that_nearer_to_no_effect_wherever_it_starts() -> None:
    random = np.random.default_rng(1)
    log_odds = random.normal(-2.2, 1, 600)
    cases = (random.random(600) < 1 / (1 + np.exp(-log_odds))).astype(float)
    row = 0.01 * (random.normal(size=600) - 0.5 * (cases - cases.mean()))
    row[0], cases[0], log_odds[0] = -0.99, 1, -1.5  # one person decides, until all others do
    rises = np.diff([penalized(beta, row, cases, log_odds) for beta in np.arange(-60, 5, 0.5).tolist()]) > 0
    assert (rises[:-1] & ~rises[1:]).sum() == 2
    near = minimize_scalar(lambda beta: -penalized(beta, row, cases, log_odds), bounds=(-5, 0), options={"xatol": 1e-9}).x
    for find in (adjusted_likelihood_ratio, adjusted_likelihood_ratio_plain):
        found = find(np.array([row] * 3), cases, log_odds, np.array([0.0, -30.0, 30.0]))
        assert found.beta == pytest.approx(near, abs=1e-5)


def test_adjusted_likelihood_ratio__is_finite_where_people_are_separated_and_nothing_without_anyone() -> None:
    adjusted = np.array([[1.0, 1, 1, 0, 0, 0, 0, 0], [0.0] * 8])
    found = adjusted_likelihood_ratio(adjusted, np.array([1.0, 1, 1, 0, 0, 0, 0, 0]), np.zeros(8), np.zeros(2))
    assert found.beta[0] == pytest.approx(np.log(3.5 / 0.5))  # Firth's: half a case and half a control more
    assert np.isnan(Effect(*(values[1] for values in found))).all()


@pytest.mark.parametrize("people", [33, 400])
def test_saddle_point__compiled_is_the_plain_one(people: int) -> None:
    adjusted, cases, log_odds = data(people)
    score, normal = adjusted @ (cases - 1 / (1 + np.exp(-log_odds))), np.random.default_rng(2).random(adjusted.shape) < 0.5
    for one, plain in zip(
        saddle_point(adjusted, log_odds, score, normal), saddle_point_plain(adjusted, log_odds, score, normal), strict=True
    ):
        np.testing.assert_allclose(one, plain, rtol=1e-6)


def test_saddle_point__is_near_the_chances_of_all_outcomes() -> None:
    adjusted, _, log_odds = data(14, 3, seed=6)
    adjusted[adjusted == 0] = 0.3
    p = 1 / (1 + np.exp(-log_odds))
    outcomes = np.array([*product([0.0, 1.0], repeat=14)])
    chances = np.where(outcomes > 0, p, 1 - p).prod(axis=1)
    for row in adjusted:
        scores = (outcomes - p) @ row
        score = 2.3 * float(np.sqrt(row**2 @ (p * (1 - p))))
        exact = chances[scores >= score].sum(), chances[scores <= -score].sum()
        tails = saddle_point(row[None], log_odds, np.array([score]), np.zeros((1, 14), bool))
        assert norm.sf(tails.above[0]) == pytest.approx(exact[0], rel=0.25)
        assert norm.cdf(tails.below[0]) == pytest.approx(exact[1], rel=0.25, abs=2e-4)
    everyone_normal = saddle_point(adjusted, log_odds, np.full(3, 2.0), np.ones(adjusted.shape, bool))
    np.testing.assert_allclose(everyone_normal.above, 2 / np.sqrt(adjusted**2 @ (p * (1 - p))), rtol=1e-9)


def test_saddle_point__is_found_however_far_it_lies() -> None:
    """A score that 22 carriers cannot give: the variance of all others has to, at hundreds of standard errors."""
    random = np.random.default_rng(3)
    adjusted, log_odds = np.full(2_000, 0.007), random.normal(-2.5, 0.5, 2_000)
    adjusted[:22] = 0.99
    p, normal = 1 / (1 + np.exp(-log_odds)), np.arange(2_000) >= 22
    spread, score = float(adjusted[normal] ** 2 @ (p * (1 - p))[normal]), 3.9
    some, chance = adjusted[~normal], p[~normal]

    def slope(t: float) -> float:
        return float(some @ (1 / (1 + (1 - chance) / chance * np.exp(-some * t)) - chance)) + t * spread + score

    t = brentq(slope, -700, 0, xtol=1e-10)
    cumulant = float(np.log1p(chance * np.expm1(some * t)).sum() - t * (some @ chance)) + t * t * spread / 2
    w, v = -np.sqrt(2 * (-t * score - cumulant)), t * np.sqrt(spread)
    assert t * np.sqrt(adjusted**2 @ (p * (1 - p))) < -300
    for find in (saddle_point, saddle_point_plain):
        tails = find(adjusted[None], log_odds, np.array([score]), normal[None])
        assert tails.below[0] == pytest.approx(w + np.log(v / w) / w, rel=1e-9)
        assert 2 < tails.above[0] < 5


def test_saddle_point__has_no_tail_beyond_what_can_be_and_none_is_found_at_its_end() -> None:
    for find in (saddle_point, saddle_point_plain):
        tails = find(np.ones((2, 5)), np.full(5, 1.0), np.array([1.5, 5 / (1 + np.e)]), np.zeros((2, 5), bool))
        assert tails.above[0] == np.inf
        assert np.isfinite(tails.below[0])
        assert np.isnan(tails.above[1])
