"""Measures of predictions, against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as reference

from pipeline.kernels.metrics import accuracy, auc, coverage, log_loss, ndcg, pinball_loss, r2, rmse

RANDOM = np.random.default_rng(20261121)


@pytest.mark.parametrize("decimals", [8, 1, 0])
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_auc__equals_scikit_learn_with_ties_too(decimals: int, share: float) -> None:
    truth = (RANDOM.random(700) < share).astype(float)
    score = (RANDOM.random(700) + 0.3 * truth).round(decimals)
    assert auc(truth, score) == pytest.approx(reference.roc_auc_score(truth, score), abs=1e-12)


def test_auc__of_perfect_inverse_and_constant_scores() -> None:
    truth = np.array([0.0, 0, 1, 1])
    assert auc(truth, truth) == 1
    assert auc(truth, -truth) == 0
    assert auc(truth, np.full(4, 0.3, np.float32)) == 0.5


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_auc__is_nan_with_one_class(label: float) -> None:
    assert math.isnan(auc(np.full(5, label), np.arange(5.0)))


@pytest.mark.parametrize("classes", [2, 4])
def test_log_loss__equals_scikit_learn(classes: int) -> None:
    truth = RANDOM.integers(0, classes, 300)
    probability = RANDOM.dirichlet(np.ones(classes), 300)
    expected = reference.log_loss(truth, probability, labels=range(classes))
    assert log_loss(truth, probability) == pytest.approx(expected, rel=1e-12)


def test_log_loss__clips_a_wrong_certainty_as_scikit_learn_does() -> None:
    truth, probability = np.array([0, 1, 1]), np.array([[0, 1], [0.4, 0.6], [0, 1]], np.float32)
    expected = reference.log_loss(truth, probability)
    assert log_loss(truth, probability) == pytest.approx(expected, rel=1e-6)
    assert log_loss(truth[:1], probability[:1]) == pytest.approx(-math.log(np.finfo(np.float32).eps), rel=1e-12)
    assert log_loss(truth[2:], probability[2:]) == 0


def test_log_loss__of_two_classes_takes_the_probability_of_one() -> None:
    truth, probability = RANDOM.integers(0, 2, 500).astype(float), RANDOM.random(500, dtype=np.float32)
    assert log_loss(truth, probability) == pytest.approx(reference.log_loss(truth, probability.astype(float)), rel=1e-6)
    assert log_loss(truth, probability) == log_loss(truth.astype(int), np.column_stack([1 - probability, probability]))


def test_accuracy__equals_scikit_learn() -> None:
    truth, found = RANDOM.integers(0, 3, 200), RANDOM.integers(0, 3, 200)
    assert accuracy(truth, found) == pytest.approx(reference.accuracy_score(truth, found), abs=1e-15)


def test_rmse_and_r2__equal_scikit_learn() -> None:
    truth = RANDOM.normal(50, 3, 400)
    found = (truth + RANDOM.normal(0, 2, 400)).astype(np.float32)
    assert rmse(truth, found) == pytest.approx(reference.root_mean_squared_error(truth, found), rel=1e-12)
    assert r2(truth, found) == pytest.approx(reference.r2_score(truth, found), rel=1e-12)
    assert r2(truth, RANDOM.permutation(truth)) < 0


def test_r2__is_nan_for_a_constant_truth() -> None:
    assert math.isnan(r2(np.full(4, 2.5), np.arange(4.0)))


def test_weights__count_a_row_as_so_many_rows() -> None:
    truth, score = RANDOM.integers(0, 2, 60), RANDOM.integers(0, 9, 60) / 10
    times = RANDOM.integers(1, 4, 60)
    both, repeated = np.column_stack([1 - score, score]), (np.repeat(truth, times), np.repeat(score, times))
    assert auc(truth, score, times) == pytest.approx(auc(*repeated), rel=1e-12)
    assert log_loss(truth, both, times) == pytest.approx(log_loss(repeated[0], np.repeat(both, times, axis=0)), rel=1e-12)
    for measure in (accuracy, rmse, r2):
        assert measure(truth, score.round(), times) == pytest.approx(measure(repeated[0], repeated[1].round()), rel=1e-12)
    assert math.isnan(auc(np.ones(3), np.arange(3.0), np.ones(3)))


@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.9])
def test_quantiles__equal_scikit_learn(quantile: float) -> None:
    truth, found, weight = RANDOM.normal(size=200), RANDOM.normal(size=200).round(1), RANDOM.random(200)
    assert pinball_loss(truth, found, quantile) == pytest.approx(reference.mean_pinball_loss(truth, found, alpha=quantile), rel=1e-12)
    expected = reference.mean_pinball_loss(truth, found, alpha=quantile, sample_weight=weight)
    assert pinball_loss(truth, found, quantile, weight) == pytest.approx(expected, rel=1e-12)
    assert coverage(np.arange(4.0), np.full(4, 1.0)) == 0.5
    assert coverage(np.arange(4.0), np.full(4, 1.0), np.array([3, 3, 1, 1])) == 0.75


@pytest.mark.parametrize("at", [None, 1, 4])
@pytest.mark.parametrize("decimals", [8, 0])
def test_ndcg__equals_scikit_learn_group_by_group_with_ties_too(at: int | None, decimals: int) -> None:
    relevance, group = RANDOM.integers(0, 4, 300), RANDOM.integers(0, 30, 300)
    score = (RANDOM.normal(size=300) + relevance).round(decimals)
    relevance[group == 3] = 0
    rows = [group == number for number in range(30) if relevance[group == number].any() and (group == number).sum() > 1]
    expected = [reference.ndcg_score([2.0 ** relevance[of] - 1], [score[of]], k=at) for of in rows]
    assert ndcg(relevance, score, group, at) == pytest.approx(np.mean(expected), rel=1e-12)
    assert math.isnan(ndcg(np.zeros(3), np.arange(3.0), np.zeros(3, int)))
