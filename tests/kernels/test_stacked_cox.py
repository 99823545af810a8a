"""Both levels for times to an event against what regenie printed, and the descent against SciPy's minimum of the likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from pipeline.errors import DataError
from pipeline.kernels import cox_descent
from pipeline.kernels import stacked_ridge as chunks
from pipeline.kernels.cox_descent import CoxFold, cox_offset, descended
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.ridge_design import RidgeDesign
from pipeline.kernels.ridge_predictors import ridge_predictors
from pipeline.kernels.stacked_cox import stacked_cox
from tests.kernels.times import BLOCK, CHROMOSOMES, LEFT_OUT, LEVEL_1, OF_CHROMOSOME, PEOPLE, SHOWN, times_cohort, wide_calls

Numbers = NDArray[np.float64]


def assert_regenies(found: Numbers, expected: Numbers) -> None:
    np.testing.assert_allclose(found, expected, atol=2e-5 * expected.std())


def test_both_levels__are_what_regenie_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BLOCK_BYTES", 20_000)  # some people at a time
    given, calls = times_cohort(), wide_calls()
    design = RidgeDesign.build_times(given.covariates, given.signed[:, None])
    starts = [chromosome * OF_CHROMOSOME + low for chromosome in range(CHROMOSOMES) for low in range(0, OF_CHROMOSOME, BLOCK)]
    ends = [*starts[1:], len(calls)]
    blocks = [GenotypeBlock(pack(calls[low:high]), None, PEOPLE) for low, high in zip(starts, ends, strict=True)]
    predictors = np.concatenate([ridge_predictors(block, design, len(calls))[0] for block in blocks])
    chromosomes = [start // OF_CHROMOSOME for start in starts for _ in range(5)]
    assert design.offsets is not None
    found = stacked_cox(predictors, chromosomes, given.signed, design.offsets[:, 0], design.folds)
    np.testing.assert_allclose(found.penalties, [penalty for penalty, _ in LEVEL_1], rtol=1e-5)
    assert found.deviance is not None
    np.testing.assert_allclose(found.deviance, [deviance for _, deviance in LEVEL_1], rtol=5e-6)
    assert found.best == 1
    assert_regenies(found.predictions[:, SHOWN], np.array(LEFT_OUT))


@pytest.mark.parametrize("ties", [False, True])
def test_descended__without_a_penalty_comes_to_scipys_minimum(ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cox_descent, "_CYCLES", 5_000)
    monkeypatch.setattr(cox_descent, "_TOGETHER", 2)
    given, rng = times_cohort(), np.random.default_rng(5)
    predictors, people = rng.normal(size=(7, PEOPLE)).astype(np.float32), np.arange(20, PEOPLE)
    signed = given.signed if ties else given.signed * (1 + 1e-6 * np.arange(PEOPLE))
    fold = CoxFold.of(predictors, signed, given.predictions, people)
    own, times, events = predictors[:, people].astype(float), np.abs(signed[people]), signed[people] > 0

    def objective(effects: Numbers) -> float:
        log_hazard = given.predictions[people] + effects @ own
        at_risk = np.where(times[events][:, None] <= times, np.exp(log_hazard), 0).sum(axis=1)
        return float(-(log_hazard[events] - np.log(at_risk)).sum() / len(people))

    expected = minimize(objective, np.zeros(7), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(descended(fold, 0.0, np.zeros(7), 1e-13), expected.x, atol=2e-6)


def test_cox_offset__goes_where_the_covariates_say() -> None:
    given = times_cohort()
    centred = (given.covariates - given.covariates.mean(axis=0)) / given.covariates.std(axis=0)
    found = cox_offset(np.linalg.qr(centred)[0], given.signed)
    slopes = np.linalg.lstsq(centred, found)[0]
    np.testing.assert_allclose(slopes, [0.03 * given.covariates[:, 0].std(), 0.4 * given.covariates[:, 1].std()], atol=0.2)
    assert abs(found.mean()) < 1e-12


def test_ridge_design__of_times_without_covariates_is_the_times_over_their_size() -> None:
    signed = times_cohort().signed[:, None]
    design = RidgeDesign.build_times(np.empty((PEOPLE, 0)), signed)
    assert design.basis.shape == (PEOPLE, 0)
    assert design.offsets is not None
    assert not design.offsets.any()
    np.testing.assert_allclose(design.traits, abs(signed) / np.sqrt((signed**2).mean()))
    block = GenotypeBlock(pack(wide_calls()[:BLOCK]), None, PEOPLE)
    found = stacked_cox(ridge_predictors(block, design, BLOCK)[0], [0] * 5, signed[:, 0], design.offsets[:, 0], design.folds)
    assert np.isfinite(found.predictions).all()
    assert found.deviance is not None
    assert np.isfinite(found.deviance).all()


def test_ridge_design__of_times_has_no_intercept_and_refuses_a_trait_without_events() -> None:
    given = times_cohort()
    design = RidgeDesign.build_times(given.covariates, given.signed[:, None])
    assert design.basis.shape == (PEOPLE, 2)
    np.testing.assert_allclose(design.basis.T @ design.basis, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(design.basis.sum(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose((design.traits**2).sum(), PEOPLE - 2)
    assert design.traits.mean() > 0.3
    with pytest.raises(DataError, match="Trait 'death': none of 240 people has the event"):
        RidgeDesign.build_times(given.covariates, -np.abs(given.signed)[:, None], (("a", "b"), ("death",)))
