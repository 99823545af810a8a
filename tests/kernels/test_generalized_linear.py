"""The sums that linear models are fitted by: against SciPy's statistics, differences, NumPy's moments and scikit-learn's lasso."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.linear_model import Lasso

from pipeline.kernels import coordinate_descent
from pipeline.kernels.column_moments import Moments, column_moments
from pipeline.kernels.coordinate_descent import lasso_minimum
from pipeline.kernels.generalized_linear import LossSums, loss_sums, mean_of, with_base
from pipeline.kernels.least_squares import factored, gram_sums, independent, least_squares, stacked, triangle
from pipeline.kernels.newton import Problem, Solver

RANDOM = np.random.default_rng(20261122)
DESIGN = np.column_stack([np.ones(80), RANDOM.normal(size=(80, 3))])
WEIGHTS = RANDOM.uniform(0.5, 2, 80)
TARGETS: dict[str, tuple[Any, int]] = {
    "normal": (RANDOM.normal(size=80), 1),
    "binomial": (RANDOM.integers(0, 2, 80).astype(float), 1),
    "poisson": (RANDOM.poisson(2, 80).astype(float), 1),
    "gamma": (RANDOM.gamma(2, 1, 80), 1),
    "multinomial": (RANDOM.integers(0, 3, 80).astype(float), 3),
    "base_class": (RANDOM.integers(0, 3, 80).astype(float), 2),
}


def likelihood(family: Any, target: Any, predictor: Any) -> Any:
    """Log likelihoods by SciPy, whose differences are those of the losses."""
    mean = mean_of(with_base(predictor, family), family)
    if family in ("multinomial", "base_class"):
        return np.log(mean[np.arange(len(target)), target.astype(int)])
    return {
        "normal": lambda: stats.norm(mean).logpdf(target),
        "binomial": lambda: stats.bernoulli(mean).logpmf(target),
        "poisson": lambda: stats.poisson(mean).logpmf(target),
        "gamma": lambda: stats.gamma(1, scale=mean).logpdf(target),
    }[family]()


@pytest.mark.parametrize("family", TARGETS)
def test_loss_sums__are_the_likelihood_and_its_derivatives(family: Any) -> None:
    target, outputs = TARGETS[family]
    here, there = RANDOM.normal(size=(2, 4, outputs)) / 3

    def sums(point: Any, *, hessian: bool = True) -> LossSums:
        return loss_sums(DESIGN, target, WEIGHTS, point.reshape(outputs, 4).T, family, hessian=hessian)

    apart = sums(here.T.ravel()).loss - sums(there.T.ravel()).loss
    assert apart == pytest.approx(-(WEIGHTS @ (likelihood(family, target, DESIGN @ here) - likelihood(family, target, DESIGN @ there))))
    found = sums(here.T.ravel())
    slopes = optimize.approx_fprime(here.T.ravel(), lambda point: sums(point).loss, 1e-7)
    np.testing.assert_allclose(found.gradient.T.ravel(), slopes, rtol=1e-4, atol=1e-4)
    curves = optimize.approx_fprime(here.T.ravel(), lambda point: sums(point).gradient.T.ravel(), 1e-7)
    np.testing.assert_allclose(np.asarray(found.hessian), curves, rtol=1e-4, atol=1e-4)
    assert sums(here.T.ravel(), hessian=False).hessian is None


@pytest.mark.parametrize("family", TARGETS)
def test_loss_sums__of_pieces_add_up_and_of_nothing_are_zero(family: Any) -> None:
    target, outputs = TARGETS[family]
    point = RANDOM.normal(size=(4, outputs))
    whole, first, rest, nothing = (
        loss_sums(DESIGN[at], target[at], WEIGHTS[at], point, family) for at in (slice(80), slice(9), slice(9, 80), slice(0))
    )
    added = first.plus(rest).plus(nothing)
    assert (added.loss, added.weight, added.pearson) == pytest.approx((whole.loss, whole.weight, whole.pearson))
    np.testing.assert_allclose(added.gradient, whole.gradient, atol=1e-12)
    np.testing.assert_allclose(np.asarray(added.hessian), np.asarray(whole.hessian), atol=1e-12)


def test_column_moments__of_pieces_are_those_of_numpy() -> None:
    values = 1e8 + RANDOM.normal(size=(50, 3))
    values[RANDOM.random((50, 3)) < 0.2] = np.nan
    values[:, 2] = np.nan
    found = column_moments(values[:7]).plus(column_moments(values[7:7])).plus(column_moments(values[7:]))
    assert found.known.tolist() == (~np.isnan(values)).sum(axis=0).tolist()
    np.testing.assert_allclose(found.mean[:2], np.nanmean(values[:, :2], axis=0), rtol=1e-15)
    np.testing.assert_allclose(found.squares[:2] / found.known[:2], np.nanvar(values[:, :2], axis=0), rtol=1e-8)
    assert (found.least[0], found.greatest[0]) == (np.nanmin(values[:, 0]), np.nanmax(values[:, 0]))
    assert (found.mean[2], found.squares[2], found.least[2], found.greatest[2]) == (0, 0, np.inf, -np.inf)
    assert Moments.nothing(3).plus(found).mean.tolist() == found.mean.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_column_moments__without_gaps_are_the_same_to_the_last_bit(dtype: Any) -> None:
    values = (1e4 + RANDOM.normal(size=(50, 3))).astype(dtype)
    gap = np.vstack([values, np.full((1, 3), np.nan, dtype)])
    for one, other in zip(astuple(column_moments(values)), astuple(column_moments(gap)), strict=True):
        assert one.dtype == other.dtype
        assert (one == other).all()
    assert [each.tolist() for each in astuple(column_moments(values[:0]))] == [each.tolist() for each in astuple(Moments.nothing(3))]


@pytest.mark.parametrize("l1", [0.01, 0.3, 1.0, 100.0])
@pytest.mark.parametrize("correlation", [0.0, 0.999])
def test_lasso_minimum__is_scikit_learns(l1: float, correlation: float) -> None:
    columns = RANDOM.normal(size=(60, 40)) * np.sqrt(1 - correlation) + RANDOM.normal(size=(60, 1)) * np.sqrt(correlation)
    y = columns @ RANDOM.normal(size=40) + RANDOM.normal(size=60)
    found = lasso_minimum(columns.T @ columns / 60, columns.T @ y / 60, np.full(40, l1), np.zeros(40))
    expected = Lasso(l1, fit_intercept=False, tol=1e-14, max_iter=1_000_000).fit(columns, y).coef_
    np.testing.assert_allclose(found, expected, atol=2e-6 if correlation else 1e-9)


def test_lasso_minimum__that_is_not_found_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinate_descent, "MOST_SWEEPS", 100)
    saddle = np.array([[1.0, 2.0], [2.0, 1.0]])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="coordinate descent did not converge in 100 sweeps"):
        coordinate_descent.lasso_minimum(saddle, np.array([1.0, 2.0]), np.full(2, 0.1), np.zeros(2))


def test_least_squares__of_factors_is_numpys_and_leaves_out_what_others_explain() -> None:
    x = RANDOM.normal(size=(30, 4))
    x = np.column_stack([x[:, 0], x[:, 1], x[:, 0] - 2 * x[:, 1], x[:, 2], x[:, 2], x[:, 3]])
    y = RANDOM.normal(size=30)
    columns = np.column_stack([x, y])
    factor = stacked([triangle(columns[:1]), triangle(columns[1:1]), triangle(columns[1:20]), triangle(columns[20:])])
    kept = independent(factor[:, :6], np.linalg.norm(x, axis=0))
    assert kept.tolist() == [0, 1, 3, 5]
    found = least_squares(stacked([factor[:, [*kept, 6]]]))
    expected, residual, *_ = np.linalg.lstsq(x[:, kept], y, rcond=None)
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-12)
    assert found.residual == pytest.approx(residual[0], rel=1e-12)
    np.testing.assert_allclose(found.inverse, np.linalg.inv(x[:, kept].T @ x[:, kept]), rtol=1e-11)


def test_a_gram_matrix__is_factored_only_where_it_keeps_its_digits() -> None:
    x = RANDOM.normal(size=(30, 3))
    upper = factored(gram_sums(x))
    assert upper is not None
    np.testing.assert_allclose(upper.T @ upper, x.T @ x, rtol=1e-12, atol=1e-12)
    assert factored(gram_sums(np.column_stack([x, x[:, 0] + 1e-4 * x[:, 1]]))) is None
    assert factored(gram_sums(np.column_stack([x, x[:, 0]]))) is None


@pytest.mark.parametrize("newton", [True, False])
def test_a_solver__takes_back_steps_that_go_too_far(newton: bool) -> None:
    target = np.exp(DESIGN @ np.array([3.0, 2.0, -3.0, 1.0]))
    solver = Solver(Problem((4, 1), np.zeros(4), np.zeros(4), 1e-6, newton=newton), np.array([-5.0, 0, 0, 0]))
    shares = []
    with np.errstate(all="ignore"):
        while not solver.done and solver.rounds < 400:
            sums = loss_sums(DESIGN, target, np.ones(80) / target.max(), solver.coefficients, "poisson", hessian=newton)
            solver = solver.advanced(sums)
            shares.append(solver.share)
    assert solver.done == "converged"
    assert min(shares) < 1
    assert solver.at is not None
    np.testing.assert_allclose(solver.at.point, [3, 2, -3, 1], rtol=1e-4)
