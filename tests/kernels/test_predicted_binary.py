"""Tests of variants with binary traits about predicted log odds, against statsmodels and likelihoods written out and maximized by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.optimize import minimize

from pipeline.kernels.audit import offset_again
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.logistic_regression import FIRTH_LRT, SCORE, WALD
from pipeline.kernels.logistic_score import SEPARATED
from pipeline.kernels.predicted_binary import PredictedMethod, associate_predicted_binary
from pipeline.kernels.predicted_binary_design import PredictedBinaryDesign

Numbers = NDArray[np.float64]
PEOPLE, VARIANTS = 160, 8


def data() -> tuple[NDArray[np.uint8], Numbers, Numbers, Numbers]:
    """Calls with gaps, covariates, two binary traits that different people lack, and predicted log odds `[t, n]`; the last separates."""
    rng = np.random.default_rng(5)
    calls = rng.binomial(2, rng.uniform(0.05, 0.9, (VARIANTS, 1)), (VARIANTS, PEOPLE)).astype(np.uint8)
    calls[rng.random(calls.shape) < 0.03] = 3
    covariates, predictions = rng.normal(40, 7, (PEOPLE, 2)), rng.normal(0, 0.8, (2, PEOPLE))
    traits = (rng.random((PEOPLE, 2)) < 1 / (1 + np.exp(1 - predictions.T))).astype(float)
    calls[-1] = (traits[:, 0] > 0) & (rng.random(PEOPLE) < 0.2)
    covariates[5, 0], traits[10:14, 1], traits[rng.random(PEOPLE) < 0.2, 0] = np.nan, np.nan, np.nan
    return calls, covariates, traits, predictions


def columns_of(calls: NDArray[np.uint8], covariates: Numbers, traits: Numbers, place: int) -> tuple[Any, Any]:
    """Who has a trait, and intercept, covariates and genotype of these; a missing call is the mean of all with a trait."""
    used = ~np.isnan(covariates).any(axis=1) & ~np.isnan(traits).all(axis=1)
    own = used & ~np.isnan(traits[:, place])
    genotype = np.where(calls == 3, calls[used & (calls != 3)].mean(), calls)
    scaled = (covariates - 40) / 7  # the same span
    return own, np.column_stack([np.ones(PEOPLE), scaled, genotype])[own]


def penalized(point: Numbers, columns: Numbers, values: Numbers, offset: Numbers) -> float:
    odds = offset + columns @ point
    p = 1 / (1 + np.exp(-odds))
    return float(values @ odds - np.logaddexp(0, odds).sum() + np.linalg.slogdet((columns.T * p * (1 - p)) @ columns)[1] / 2)


def test_associate_predicted_binary__by_wald_is_statsmodels_with_an_offset() -> None:
    calls, covariates, traits, predictions = data()
    models = PredictedBinaryDesign.build(covariates, traits, firth=False).less(predictions)
    for place, found in enumerate(associate_predicted_binary(GenotypeBlock(pack(calls), None, PEOPLE), models, "wald", 1)):
        assert set(found.test.tolist()) == {WALD}
        for variant in range(VARIANTS - 1):
            own, columns = columns_of(calls[variant], covariates, traits, place)
            fit = sm.GLM(traits[own, place], columns, sm.families.Binomial(), offset=predictions[place, own]).fit(tol=1e-13)
            expected = fit.params[-1], fit.bse[-1], fit.tvalues[-1], fit.pvalues[-1]
            assert [found.beta[variant], found.standard_error[variant]] == pytest.approx(expected[:2], rel=1e-6)
            assert [found.statistic[variant], found.p_value[variant]] == pytest.approx(expected[2:], rel=1e-6)
    first = associate_predicted_binary(GenotypeBlock(pack(calls), None, PEOPLE), models, "wald", 1)[0]
    assert first.reason.tolist() == [0] * (VARIANTS - 1) + [SEPARATED]


def test_associate_predicted_binary__by_firth_is_the_greatest_penalized_likelihood() -> None:
    calls, covariates, traits, predictions = data()
    models = PredictedBinaryDesign.build(covariates, traits, firth=False).less(predictions)
    for place, found in enumerate(associate_predicted_binary(GenotypeBlock(pack(calls), None, PEOPLE), models, "firth", 1)):
        assert set(found.test.tolist()) == {FIRTH_LRT}
        for variant in range(VARIANTS):
            own, columns = columns_of(calls[variant], covariates, traits, place)
            values, offset = traits[own, place], predictions[place, own]
            best = minimize(lambda point, *of: -penalized(point, *of), np.zeros(4), (columns, values, offset), tol=1e-10)
            held = minimize(lambda point, *of: -penalized(np.append(point, 0), *of), np.zeros(3), (columns, values, offset), tol=1e-10)
            assert found.beta[variant] == pytest.approx(best.x[-1], abs=2e-5)
            assert found.statistic[variant] == pytest.approx(np.sign(best.x[-1]) * np.sqrt(2 * (held.fun - best.fun)), abs=1e-5)


def test_associate_predicted_binary__refits_what_the_screen_finds_and_the_audit_agrees() -> None:
    calls, covariates, traits, predictions = data()
    models = PredictedBinaryDesign.build(covariates, traits, firth=False).less(predictions)
    again_by: list[tuple[PredictedMethod, str]] = [("firth", "firth_lrt"), ("wald", "wald")]
    for method, test in again_by:
        some = associate_predicted_binary(GenotypeBlock(pack(calls), None, PEOPLE), models, method, 0.3)[0]
        score = associate_predicted_binary(GenotypeBlock(pack(calls), None, PEOPLE), models, "score", 1)[0]
        again = score.p_value <= 0.3
        assert 0 < again.sum() < VARIANTS
        np.testing.assert_array_equal(some.test != SCORE, again)
        np.testing.assert_array_equal(some.statistic[~again], score.statistic[~again])
        variant = int(np.flatnonzero(again)[0])
        case, log_odds = np.where(models.known[:, 0], traits[:, 0], np.nan), (models.log_odds[0], models.log_odds[0])
        genotype, used = np.where(calls[variant] == 3, np.nan, calls[variant]), models.known.any(axis=1)
        once = offset_again(genotype, np.where(used[:, None], covariates, np.nan), case, log_odds, test)
        assert [once.beta, once.standard_error] == pytest.approx([some.beta[variant], some.standard_error[variant]], rel=1e-5)
        assert once.n == some.n[variant]
