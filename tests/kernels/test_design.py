from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.kernels.design import Design, missingness_groups

RNG = np.random.default_rng(11)
AGE, SEX, TRAIT = RNG.normal(50, 9, 60), RNG.integers(0, 2, 60).astype(float), RNG.normal(size=60)


def build(covariates: list[NDArray[np.float64]], trait: NDArray[np.float64]) -> Design:
    stacked = np.stack(covariates, axis=1) if covariates else np.zeros((len(trait), 0))
    return Design.build(stacked, trait[:, None], ["age", "sex", "third"][: len(covariates)], ["ldl"])


def test_design__residuals_are_those_of_least_squares_and_leave_out_incomplete_samples() -> None:
    age, trait = AGE.copy(), TRAIT.copy()
    age[3], trait[[7, 59]] = np.nan, np.nan
    design = build([age, SEX], trait)
    complete = ~np.isnan(age) & ~np.isnan(trait)
    matrix = np.column_stack([np.ones(60), age, SEX])[complete]
    expected = trait[complete] - matrix @ np.linalg.lstsq(matrix, trait[complete], rcond=None)[0]
    assert (design.used, design.columns, design.n_samples) == (57, 3, 60)
    np.testing.assert_allclose(design.residuals[complete, 0], expected, atol=1e-13)
    assert not design.residuals[~complete].any()
    assert not design.basis[~complete].any()
    np.testing.assert_allclose(design.basis.T @ design.basis, np.eye(2), atol=1e-14)
    bits = np.unpackbits(design.mask, bitorder="little").reshape(-1, 2)[:60]
    assert np.array_equal(bits.all(axis=1), complete)
    assert np.array_equal(bits.any(axis=1), complete)


def test_design__residuals_stay_orthogonal_to_a_covariate_that_explains_nearly_all() -> None:
    design = build([AGE, SEX], 1e6 * AGE + TRAIT)
    assert np.abs(design.basis.T @ design.residuals).max() < 1e-13


def test_design__of_no_covariates_centres_the_trait() -> None:
    design = build([], TRAIT)
    assert design.columns == 1
    np.testing.assert_allclose(design.residuals[:, 0], TRAIT - TRAIT.mean(), atol=1e-15)


@pytest.mark.parametrize(
    ("covariates", "trait", "message"),
    [
        ([AGE, np.full(60, 2.5)], TRAIT, r"Covariate 'sex' is constant: 2\.5 for all 60 samples"),
        ([AGE, np.full(60, 0.1) + 1e-16], TRAIT, "Covariate 'sex' is constant"),
        ([AGE, SEX, 3 * AGE - SEX + 1], TRAIT, "Covariate 'third' is a linear combination of the intercept and age, sex"),
        ([np.where(np.arange(60) == 3, np.nan, 1e9 * (np.arange(60) == 3))], TRAIT, "Covariate 'age' is constant"),
        ([np.full(60, np.nan)], TRAIT, "Covariate 'age' is missing for all 60 samples"),
        ([AGE], np.full(60, np.nan), "Trait 'ldl' is missing for all 60 samples"),
        ([AGE], np.full(60, 7.0), "Trait 'ldl' is constant: 7 for all 60 samples"),
        ([AGE], np.where(np.arange(60) < 2, np.inf, TRAIT), "Trait 'ldl' is infinite for 2 samples"),
        ([AGE, SEX], AGE - 4 * SEX, "Trait 'ldl' is a linear combination of the covariates"),
        ([AGE], np.where(np.arange(60) < 3, TRAIT, np.nan), "Only 3 of 60 samples have all of ldl, age; 4 are needed for 2 columns"),
    ],
)
def test_design__refuses_what_cannot_be_fitted_by_name(
    covariates: list[NDArray[np.float64]], trait: NDArray[np.float64], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        build(covariates, trait)


def test_design__takes_the_fewest_samples_that_leave_a_degree_of_freedom() -> None:
    assert build([AGE], np.where(np.arange(60) < 4, TRAIT, np.nan)).used == 4


def test_design__refuses_names_that_do_not_match_the_columns() -> None:
    with pytest.raises(ValueError, match="1 names for 2 columns"):
        Design.build(np.stack([AGE, SEX], axis=1), TRAIT[:, None], ["age"])


def test_missingness_groups__share_the_missing_samples() -> None:
    traits = np.stack([TRAIT, TRAIT, 2 * TRAIT, TRAIT, TRAIT], axis=1)
    traits[4, [1, 4]] = np.nan
    traits[5, 3] = np.nan
    assert missingness_groups(traits) == [(0, 2), (1, 4), (3,)]
