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


def dosages(people: int = 400, variants: int = 160) -> tuple[NDArray[np.float32], Numbers, Numbers, Numbers]:
    """Dosages as a BGEN of 8 bits has them, 2 % missing, a covariate, a trait of some 80 cases with gaps, and predicted log odds."""
    rng = np.random.default_rng(12)
    odd = np.arange(variants) % 2
    frequency = np.where(odd, rng.uniform(0.01, 0.06, variants), rng.uniform(0.06, 0.95, variants))
    copies = rng.binomial(2, frequency[:, None], (variants, people))
    sure = rng.uniform(0.6, 1, (variants, 1, 1))
    prior = np.stack([(1 - frequency) ** 2, 2 * frequency * (1 - frequency), frequency**2], axis=1)[:, None]
    codes = np.floor(((1 - sure) * prior + sure * np.eye(3)[copies])[:, :, :2] * 255 + 0.5)
    codes[:, :, 1] = np.minimum(codes[:, :, 1], 255 - codes[:, :, 0])
    missing = rng.random((variants, people)) < 0.02
    age, predicted, load = rng.normal(0, 1, people), rng.normal(0, 0.5, people), copies[:12].sum(axis=0)
    odds = predicted + 0.5 * age - 1.6 + 0.5 * load - 0.5 * load.mean()
    trait = (rng.random(people) < 1 / (1 + np.exp(-odds))).astype(float)
    trait[rng.random(people) < 0.05] = np.nan
    counts = np.where(missing, np.nan, (codes[:, :, 1] + 2 * (255 - codes.sum(axis=2))) / 255).astype(np.float32)
    return counts, age.round(4), predicted.round(4), trait


PRINTED: dict[PredictedMethod, list[float]] = {
    # regenie 4.1.2 of these dosages in a BGEN, --pThresh 0.5: CHISQ of rare variants, of two that are mostly ALT, and of the strongest
    "firth_approximate": [6.41616, 1.31886, 0.959585, 0.781245, 0.388907, 0.968357, 3.01856, 5.84327, 9.38441],
    "spa": [7.38834, 1.87595, 1.4405, 0.615459, 0.55093, 1.16122, 3.06848, 5.96569, 9.46772],
    "firth": [6.40468, 1.40113, 0.934702, 0.778913, 0.388149, 0.949917, 3.02747, 5.81691, 9.46265],
}


@pytest.mark.parametrize("method", PRINTED)
def test_associate_predicted_binary__of_dosages_gives_what_regenie_printed(method: PredictedMethod) -> None:
    counts, age, predicted, trait = dosages()
    assert (np.nan_to_num(counts) % 1 != 0).mean() > 0.8
    models = PredictedBinaryDesign.build(age[:, None], trait[:, None]).less(predicted[None])
    found = associate_predicted_binary(GenotypeBlock(None, counts, counts.shape[1]), models, method, 0.5)[0]
    rows = [59, 69, 77, 29, 117, 50, 110, 12, 72]
    assert (found.test[rows] != SCORE).all()
    np.testing.assert_allclose(found.statistic[rows] ** 2, PRINTED[method], rtol=3e-4 if method == "spa" else 1e-5)
