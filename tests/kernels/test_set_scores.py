from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.predicted_binary_design import PredictedBinaryDesign
from pipeline.kernels.predicted_scan import PredictedDesign
from pipeline.kernels.set_scores import alt_counts, alt_totals, binary_set_scores, burden_masks, joint_products, set_scores

COUNTS = np.array([[0, 1, 2, -1, 0, 1], [1, 1, 0, -1, -1, 2], [0, 0, 0, -1, 2, 2]], np.int8)


def test_alt_counts__are_the_same_of_calls_and_dosages() -> None:
    calls = GenotypeBlock(pack(COUNTS), None, 6)
    dosages = GenotypeBlock(None, np.where(COUNTS < 0, np.nan, COUNTS).astype(np.float32), 6)
    np.testing.assert_array_equal(alt_counts(calls), COUNTS)
    np.testing.assert_array_equal(alt_counts(dosages), COUNTS)
    wide = np.column_stack([COUNTS, np.zeros((3, 90), np.int8)])  # rare enough to be counted one by one
    totals, called = alt_totals(wide, np.arange(96) != 5)
    assert totals.tolist() == [3, 2, 2]
    assert called.tolist() == [94, 93, 94]
    totals, called = alt_totals(COUNTS, np.array([1, 1, 1, 1, 1, 0], bool))
    assert totals.tolist() == [3, 2, 2]
    assert called.tolist() == [4, 3, 4]


def test_burden_masks__take_the_greatest_the_sum_and_the_sum_up_to_two() -> None:
    members = np.array([[True, True, False], [True, True, True]])
    nothing = -1
    np.testing.assert_array_equal(burden_masks(COUNTS, members), [[1, 1, 2, nothing, 0, 2], [1, 1, 2, nothing, 2, 2]])
    np.testing.assert_array_equal(burden_masks(COUNTS, members, "sum"), [[1, 2, 2, nothing, 0, 3], [1, 2, 2, nothing, 2, 5]])
    np.testing.assert_array_equal(burden_masks(COUNTS, members, "comphet"), [[1, 2, 2, nothing, 0, 2], [1, 2, 2, nothing, 2, 2]])


@pytest.mark.parametrize("common", [0.02, 0.4])
def test_set_scores__are_products_of_residuals_with_missing_calls_the_mean(common: float) -> None:
    rng = np.random.default_rng(3)
    covariates, traits = rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 5
    covariates[4] = np.nan
    counts = rng.binomial(2, common, (5, 40)).astype(np.int8)
    counts[1, [3, 4, 9]] = -1
    design = PredictedDesign.build(covariates, traits)
    used = np.arange(40) != 4
    x = np.column_stack([np.ones(39), covariates[used]])
    residual = np.eye(39) - x @ np.linalg.pinv(x)
    dense = np.where(counts < 0, np.nan, counts)[:, used]
    dense[1, np.isnan(dense[1])] = np.nanmean(dense[1])
    left = residual @ traits[used]
    scores, covariance = set_scores(counts, design)
    np.testing.assert_allclose(scores, dense @ left / np.sqrt((left**2).sum(axis=0) / (39 - 3)), rtol=1e-9)
    np.testing.assert_allclose(covariance, dense @ residual @ dense.T, atol=1e-9)


@pytest.mark.parametrize("common", [0.02, 0.4])
def test_binary_set_scores__are_those_of_a_logistic_model(common: float) -> None:
    rng = np.random.default_rng(8)
    covariates, traits = rng.normal(size=(60, 2)), (rng.random((60, 2)) < 0.4).astype(float)
    traits[7, 1] = np.nan
    counts = rng.binomial(2, common, (4, 60)).astype(np.int8)
    models = PredictedBinaryDesign.build(covariates, traits).less(rng.normal(0, 0.3, (2, 60)))
    scores, covariances = binary_set_scores(counts, models)
    x = np.column_stack([np.ones(60), covariates])
    for trait in range(2):
        known = ~np.isnan(traits[:, trait])
        p = 1 / (1 + np.exp(-models.log_odds[trait, known]))
        g, z, w = counts[:, known].astype(float), x[known], p * (1 - p)
        left = g.T - z @ np.linalg.solve((z.T * w) @ z, (z.T * w) @ g.T)
        np.testing.assert_allclose(scores[:, trait], g @ (traits[known, trait] - p), atol=1e-9)
        np.testing.assert_allclose(covariances[trait], (left.T * w) @ left, atol=1e-9)


def test_joint_products__leave_covariates_in_masks_that_few_carry() -> None:
    rng = np.random.default_rng(5)
    design = PredictedDesign.build(rng.normal(size=(50, 1)), rng.normal(size=(50, 1)))
    rows = np.stack([np.arange(50) % 10 == 0, np.arange(50) % 4 > 0]).astype(np.float32)
    products, _ = joint_products(rows, design, (0,))
    common = rows[1] - design.basis @ (design.basis.T @ rows[1])
    common *= np.sqrt((50 - 2) / (common @ common))
    np.testing.assert_allclose(products, [[5, rows[0] @ common], [rows[0] @ common, common @ common]], rtol=1e-9)


def test_joint_products__count_carriers_among_all_people() -> None:
    rng = np.random.default_rng(6)
    trait = rng.normal(size=(60, 1))
    trait[50:] = np.nan
    design = PredictedDesign.build(rng.normal(size=(60, 1)), trait)
    rows = np.zeros((1, 60), np.float32)
    rows[0, :29] = 1  # more than half of the 50 who are used, and less than half of all, as regenie counts
    assert joint_products(rows, design, (0,))[0].tolist() == [[29.0]]
