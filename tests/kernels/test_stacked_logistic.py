"""Both levels for binary traits against people left out one by one, and against SciPy's minimum of the penalized likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from pipeline.errors import DataError
from pipeline.kernels import stacked_ridge as chunks
from pipeline.kernels.left_out import left_out_predictors
from pipeline.kernels.ridge_design import RidgeDesign
from pipeline.kernels.ridge_predictors import SHARES
from pipeline.kernels.stacked_logistic import stacked_logistic
from pipeline.kernels.stacked_ridge import Stacked
from tests.kernels.test_ridge_predictors import PEOPLE, SIZES, blocks_of, cohort, folds_of, projected

Numbers = NDArray[np.float64]
CHROMOSOMES = [0] * 4 + [1] * 3
PENALTIES = [len(CHROMOSOMES) * (1 - share) / share * 3 / np.pi**2 for share in SHARES]


def binary() -> tuple[NDArray[np.uint8], Numbers, Numbers]:
    """Calls, covariates and two binary traits, one as 1 and 2."""
    calls, covariates, traits = cohort()
    return (
        calls,
        covariates,
        np.stack([traits[:, 0] > traits[:, 0].mean(), 1 + (traits[:, 2] > traits[:, 2].mean() + 2)], axis=1).astype(float),
    )


def stacked_data() -> tuple[NDArray[np.float32], Numbers, Numbers]:
    """Predictors, cases and log odds by covariates."""
    rng = np.random.default_rng(4)
    predictors = rng.normal(size=(len(CHROMOSOMES), PEOPLE)).astype(np.float32)
    offset = rng.normal(-0.5, 0.6, PEOPLE)
    return predictors, (rng.random(PEOPLE) < expit(offset + 0.5 * predictors[1] - 0.4 * predictors[5])).astype(float), offset


def fitted(predictors: Numbers, cases: Numbers, offset: Numbers, penalty: float) -> Numbers:
    """The effects at SciPy's minimum."""

    def objective(effects: Numbers) -> tuple[float, Numbers]:
        log_odds = offset + effects @ predictors
        value = np.logaddexp(0, np.where(cases > 0, -log_odds, log_odds)).sum() + penalty / 2 * effects @ effects
        return float(value), penalty * effects - predictors @ (cases - expit(log_odds))

    found = minimize(objective, np.zeros(len(predictors)), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2_000})
    return np.asarray(found.x, np.float64)


def assert_stacked(found: Stacked, log_odds: Numbers, cases: Numbers, offset: Numbers) -> None:
    """The metrics of each h from log odds `[h, n]` without the offset, and the choice."""
    probability = expit(log_odds + offset)
    loss = -np.where(cases > 0, np.log(probability), np.log1p(-probability)).mean(axis=1)
    assert found.log_loss is not None
    np.testing.assert_allclose(found.log_loss, loss, rtol=1e-6)
    assert found.mean_squared_error is not None
    assert found.r_squared is not None
    np.testing.assert_allclose(found.mean_squared_error, ((cases - probability) ** 2).mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.r_squared, [np.corrcoef(row, cases)[0, 1] ** 2 for row in probability], rtol=1e-5)
    assert found.best == int(np.argmin(loss))
    np.testing.assert_allclose(found.predictions[-1], log_odds[found.best], atol=1e-5)


def test_left_out_predictors__are_those_of_everybody_but_one() -> None:
    calls, covariates, traits = binary()
    design = RidgeDesign.build_binary(covariates, traits)
    floats, basis = np.where(calls == 3, np.nan, calls), np.column_stack([np.ones(PEOPLE), covariates])
    rows, scaled = np.split(projected(floats, basis), np.cumsum(SIZES)[:-1]), projected(traits.T, basis)
    for block, own in zip(blocks_of(calls, dosages=False), rows, strict=True):
        found = left_out_predictors(block, design, sum(SIZES))
        expected = np.empty((2, len(SHARES), PEOPLE))
        for place, share in enumerate(SHARES):
            for person in range(PEOPLE):
                others = np.delete(np.arange(PEOPLE), person)
                gram = own[:, others] @ own[:, others].T + sum(SIZES) * (1 - share) / share * np.eye(len(own))
                expected[:, place, person] = scaled[:, others] @ own[:, others].T @ np.linalg.solve(gram, own[:, person])
        expected = (expected - expected.mean(axis=2, keepdims=True)) / expected.std(axis=2, ddof=1, keepdims=True)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_stacked_logistic__in_folds_is_scipys_minimum_without_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BLOCK_BYTES", 700)  # some people at a time
    predictors, cases, offset = stacked_data()
    folds = [slice(int(out[0]), int(out[-1]) + 1) for out in folds_of(PEOPLE, 5)]
    found = stacked_logistic(predictors, CHROMOSOMES, cases, offset, folds)
    values = predictors.astype(float)
    effects = np.empty((len(SHARES), 5, len(values)))
    for place, penalty in enumerate(PENALTIES):
        for number, out in enumerate(folds_of(PEOPLE, 5)):
            others = np.setdiff1d(np.arange(PEOPLE), out)
            effects[place, number] = fitted(values[:, others], cases[others], offset[others], penalty)
    fold = np.concatenate([np.full(len(out), number) for number, out in enumerate(folds_of(PEOPLE, 5))])
    assert_stacked(found, np.einsum("hnk,kn->hn", effects[:, fold], values), cases, offset)
    for left_out in (0, 1):
        kept = np.array(CHROMOSOMES) != left_out
        expected = np.einsum("nk,kn->n", effects[found.best][fold][:, kept], values[kept])
        np.testing.assert_allclose(found.predictions[left_out], expected, atol=1e-5)


def test_stacked_logistic__without_folds_takes_a_step_from_the_fit_to_all() -> None:
    predictors, cases, offset = stacked_data()
    values = predictors.astype(float)
    found = stacked_logistic(predictors, CHROMOSOMES, cases, offset)
    effects = np.empty((len(SHARES), PEOPLE, len(values)))
    for place, penalty in enumerate(PENALTIES):
        whole = fitted(values, cases, offset, penalty)
        probability = expit(offset + whole @ values)
        weights = probability * (1 - probability)
        information = (values * weights) @ values.T + penalty * np.eye(len(values))
        for person, own in enumerate(values.T):
            without = information - weights[person] * np.outer(own, own)
            effects[place, person] = whole - np.linalg.solve(without, own) * (cases[person] - probability[person])
    assert_stacked(found, np.einsum("hnk,kn->hn", effects, values), cases, offset)
    for left_out in (0, 1):
        kept = np.array(CHROMOSOMES) != left_out
        expected = np.einsum("nk,kn->n", effects[found.best][:, kept], values[kept])
        np.testing.assert_allclose(found.predictions[left_out], expected, atol=1e-5)


def test_ridge_design__of_binary_traits_has_what_covariates_say_and_refuses_other_values() -> None:
    _, covariates, traits = binary()
    design = RidgeDesign.build_binary(covariates, traits)
    assert design.cases is not None
    assert design.offsets is not None
    np.testing.assert_array_equal(design.cases, traits - [0, 1])
    columns = np.column_stack([np.ones(PEOPLE), covariates])
    np.testing.assert_allclose(columns.T @ (design.cases - expit(design.offsets)), 0, atol=1e-5)
    traits[3, 0] = 5
    with pytest.raises(DataError, match="Trait 'x' has 3 values"):
        RidgeDesign.build_binary(covariates, traits, (("a", "b"), ("x", "y")))
