"""Tests of variants with binary traits about predicted log odds, against statsmodels and likelihoods written out and maximized by SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.optimize import minimize

from pipeline.errors import DataError
from pipeline.kernels.audit import Genotype, at_maximum
from pipeline.kernels.genotype_block import CODES, Coding, GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.logistic_regression import FIRTH_LRT, SCORE, WALD
from pipeline.kernels.logistic_score import SEPARATED
from pipeline.kernels.offset_again import offset_again
from pipeline.kernels.predicted_binary import PredictedMethod, associate_predicted_binary
from pipeline.kernels.predicted_binary_design import PredictedBinaryDesign

Numbers = NDArray[np.float64]
PEOPLE, VARIANTS = 160, 8
SEVERAL = Path(__file__).parent.parent / "data/kernels/several_maxima.csv"


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


def penalized(point: Numbers, columns: Numbers, values: Numbers, offset: Numbers | float) -> float:
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
        once = offset_again(Genotype(genotype, genotype), np.where(used[:, None], covariates, np.nan), case, log_odds, test)
        assert [once.beta, once.standard_error] == pytest.approx([some.beta[variant], some.standard_error[variant]], rel=1e-5)
        assert once.n == some.n[variant]


def test_predicted_binary__of_very_skewed_covariates_has_firths_fit() -> None:
    rng = np.random.default_rng(0)
    covariates = rng.lognormal(10, 2, (PEOPLE, 3))
    scaled = (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)
    cases = (rng.random(PEOPLE) < 1 / (1 + np.exp(1.5 - 0.5 * scaled.sum(axis=1)))).astype(float)
    models = PredictedBinaryDesign.build(covariates, cases[:, None]).less(np.zeros((1, PEOPLE)))
    columns = np.column_stack([np.ones(PEOPLE), scaled])
    point = np.linalg.lstsq(columns, models.centres[0], rcond=None)[0]
    best = minimize(lambda at: -penalized(at, columns, cases, np.zeros(PEOPLE)), point, tol=1e-12)
    np.testing.assert_allclose(columns @ point, models.centres[0], atol=1e-9)
    np.testing.assert_allclose(point, best.x, atol=1e-5)


def test_associate_predicted_binary__of_a_site_that_has_cases_alone_is_that_of_the_others() -> None:
    """Who is told by a covariate counts no more in the score test; whom all covariates tell are still refused."""
    calls, covariates, traits, predictions = data()
    calls, predictions = np.where(calls == 3, 0, calls), predictions[:1]
    cases, site = np.where(np.isnan(traits[:, 0]), 0, traits[:, 0]), np.zeros(PEOPLE)
    site[np.flatnonzero(cases)[:9]] = 1
    ages = np.nan_to_num(covariates[:, :1], nan=40)
    others = site == 0
    whole, part = (
        associate_predicted_binary(
            GenotypeBlock(pack(calls[:, people]), None, int(people.sum())),
            PredictedBinaryDesign.build(columns[people], cases[people, None], firth=False).less(predictions[:, people]),
            "score",
            1,
        )[0]
        for people, columns in ((np.ones(PEOPLE, bool), np.column_stack([ages, site])), (others, ages))
    )
    np.testing.assert_allclose(whole.statistic, part.statistic, rtol=1e-5)
    np.testing.assert_allclose(whole.standard_error, part.standard_error, rtol=1e-5)
    with pytest.raises(DataError, match="the covariates tell"):
        PredictedBinaryDesign.build(np.column_stack([ages, cases + np.sin(ages[:, 0]) / 4]), cases[:, None], firth=False).less(predictions)


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


def coded_cohort(people: int = 300, variants: int = 120) -> tuple[NDArray[np.uint8], Numbers, Numbers, Numbers]:
    """Calls of any frequency, 2 % missing, a covariate, predicted log odds, and a trait of some 70 cases with gaps."""
    rng = np.random.default_rng(21)
    calls = rng.binomial(2, rng.uniform(0.01, 0.99, (variants, 1)), (variants, people)).astype(np.uint8)
    calls[rng.random(calls.shape) < 0.02] = 3
    age, predicted = rng.normal(0, 1, people).round(4), rng.normal(0, 0.5, people).round(4)
    trait = (rng.random(people) < 1 / (1 + np.exp(1.3 - predicted - 0.5 * age))).astype(float)
    trait[rng.random(people) < 0.05] = np.nan
    return calls, age, predicted, trait


CODED_ROWS: dict[Coding, list[int]] = {
    "dominant": [16, 40, 57, 74, 87, 92, 101, 111, 118],
    "recessive": [8, 18, 51, 64, 66, 81, 90, 106, 111],
}
PRINTED_CODED: dict[tuple[Coding, PredictedMethod], list[float]] = {
    # regenie 4.1.2 of these calls, --test and --pThresh 0.9: CHISQ of variants that few, half and nearly all people carry
    ("dominant", "firth_approximate"): [6.40335, 2.17855, 0.925253, 4.10506, 1.78202, 0.119846, 0.230482, 9.15311, 0.461238],
    ("dominant", "spa"): [6.50419, 2.51538, 0.836304, 4.99329, 2.15303, 0.11805, 0.231094, 8.99808, 0.385362],
    ("recessive", "firth_approximate"): [3.91239, 3.10147, 1.06119, 3.01582, 4.2785, 3.55846, 0.497648, 2.99785, 4.52133],
    ("recessive", "spa"): [3.87172, 3.14878, 0.954622, 3.3557, 4.43062, 3.57834, 0.698214, 3.85007, 4.7282],
}


@pytest.mark.parametrize(("coding", "method"), PRINTED_CODED)
def test_associate_predicted_binary__by_another_coding_gives_what_regenie_printed(coding: Coding, method: PredictedMethod) -> None:
    calls, age, predicted, trait = coded_cohort()
    models = PredictedBinaryDesign.build(age[:, None], trait[:, None]).less(predicted[None])
    block = GenotypeBlock(pack(calls), None, calls.shape[1], CODES[coding])
    found, rows = associate_predicted_binary(block, models, method, 0.9)[0], CODED_ROWS[coding]
    assert (found.test[rows] != SCORE).all()
    np.testing.assert_allclose(found.statistic[rows] ** 2, PRINTED_CODED[coding, method], rtol=3e-4 if method == "spa" else 1e-5)
    known = np.where(np.isnan(trait), np.nan, age)[:, None]
    copies, odds = np.where(calls == 3, np.nan, calls), (models.log_odds[0], models.centres[0])
    for row in rows:
        once = offset_again(Genotype(block.coded(slice(row, row + 1))[0], copies[row]), known, trait, odds, method)
        assert [once.beta, once.standard_error] == pytest.approx([found.beta[row], found.standard_error[row]], rel=1e-5)


@pytest.mark.parametrize(("variant", "printed"), [("v1244", 1.56773), ("v1540", 2.01661)])
def test_associate_predicted_binary__by_firth_takes_the_highest_of_four_maxima(variant: str, printed: float) -> None:
    """LOG10P that regenie 4.1.2 printed, of covariates and predictions with two digits more than the file has."""
    rows = pl.read_csv(SEVERAL)
    covariates, case = rows.select("c0", "c1", "c2", "c3").to_numpy().astype(float), rows["case"].to_numpy().astype(float)
    models = PredictedBinaryDesign.build(covariates, case[:, None]).less(rows[f"log_odds_{variant}"].to_numpy()[None])
    counts = rows[variant].cast(pl.Float32).to_numpy()[None]
    found = associate_predicted_binary(GenotypeBlock(None, counts, len(case)), models, "firth", 1.0)[0]
    assert found.neg_log_10_p_value[0] == pytest.approx(printed, abs=3e-4)


def test_offset_again__gives_every_maximum_of_one_effect() -> None:
    """Of two carriers the likely one is a case and the unlikely one a control: the penalized likelihood rises twice."""
    people = 400
    genotype, case, odds = np.zeros(people), (np.arange(people) % 4 == 0).astype(float), np.full(people, -1.1)
    genotype[:2], case[:2], odds[:2] = 1, (1, 0), (-1.5, -6.2)
    once = offset_again(Genotype(genotype, genotype), np.zeros((people, 0)), case, (odds, odds), "firth_approximate")
    found = [(one.beta, one.standard_error) for one in (once, *once.others)]
    assert len(found) == 2

    chances = 1 / (1 + np.exp(-odds))
    left = 1 - np.average(genotype, weights=chances * (1 - chances))

    def height(beta: float) -> float:
        own = odds[:2] + beta * left
        chances = 1 / (1 + np.exp(-own))
        return float(case[:2] @ own - np.logaddexp(0, own).sum() + np.log(left**2 * (chances * (1 - chances)).sum()) / 2)

    for beta, error in found:
        assert height(beta) > max(height(beta - 0.05), height(beta + 0.05))
        slope = (height(beta + 1e-4) - height(beta - 1e-4)) / 2e-4
        assert abs(slope) < 1e-6
        assert error > 0


def test_at_maximum__finds_the_highest_and_another() -> None:
    """The four maxima of `several_maxima.csv`, beside SciPy's from several starts."""
    rows = pl.read_csv(SEVERAL)
    covariates, case = rows.select("c0", "c1", "c2", "c3").to_numpy().astype(float), rows["case"].to_numpy().astype(float)
    genotype, offset = rows["v1244"].cast(pl.Float64).to_numpy(), rows["log_odds_v1244"].to_numpy()
    genotype = np.where(np.isnan(genotype), np.nanmean(genotype), genotype)
    once = at_maximum(genotype, covariates, (np.ones(len(case), bool), case, len(case)), offset, firth=True)
    columns = np.column_stack([np.ones(len(case)), (covariates - covariates.mean(axis=0)) / covariates.std(axis=0), genotype])
    found = []
    for effect in (-6, -3, 0, 3):
        point = minimize(lambda at: -penalized(at, columns, case, offset), np.append(np.zeros(5), effect), method="BFGS", tol=1e-9)
        found.append((float(point.fun), float(point.x[-1])))
    assert once.beta == pytest.approx(min(found)[1], abs=1e-4)
    maxima = {round(effect, 3) for _, effect in found}
    assert len(maxima) > 2
    assert {round(one.beta, 3) for one in once.others} <= maxima
