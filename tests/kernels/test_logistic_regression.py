from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.optimize import minimize

from pipeline.errors import DataError
from pipeline.kernels import logistic_regression, logistic_score
from pipeline.kernels.compiled.jit import compiled
from pipeline.kernels.compiled.logistic import _exp
from pipeline.kernels.genotype_block import CODES, GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.kernels.logistic_penalty import log_likelihood_plain, penalize_plain
from pipeline.kernels.logistic_regression import FIRTH, SCORE, WALD, Method, PValue, refit
from pipeline.kernels.logistic_scan import LogisticAssociation, associate_binary
from pipeline.kernels.logistic_score import (
    COLLINEAR,
    COVARIATES,
    FINE,
    MONOMORPHIC,
    ONE_GROUP,
    REASONS,
    SEPARATED,
    TOO_FEW,
    score_test,
    score_test_plain,
)
from pipeline.kernels.logistic_terms import invert, solve, solve_plain, terms_plain
from tests.kernels.plink_files import DATA, REFERENCE, assert_printed, chromosomes, floats, half_digit, needs_data, read_bed, read_columns
from tests.kernels.test_predicted_binary import penalized

Floats = NDArray[np.float64]
PEOPLE = 203


@cache
def cohort() -> tuple[NDArray[np.int8], Floats, Floats]:
    """Calls of 60 variants with 0 to 30 % missing, 3 covariates, 2 binary traits (40 % and 12 % cases) with two people missing."""
    rng = np.random.default_rng(21)
    calls = rng.binomial(2, rng.uniform(0.1, 0.9, (60, 1)), (60, PEOPLE)).astype(np.int8)
    calls[rng.random(calls.shape) < np.linspace(0, 0.3, 60)[:, None]] = 3
    covariates = rng.normal([50, 0, 1e4], [9, 1, 5], (PEOPLE, 3))
    effect = (covariates[:, 0] - 50) / 12 + 0.7 * np.where(calls[10] == 3, 0, calls[10])
    traits = np.stack([effect + rng.logistic(size=PEOPLE) > cut for cut in (1.2, 3.6)], axis=1).astype(float)
    traits[[0, 77]] = np.nan
    return calls, covariates, traits


def design_of(covariates: Floats, traits: Floats) -> LogisticDesign:
    return LogisticDesign.build(covariates, traits)


def block_of(calls: Any, codes: tuple[float, float] = (1.0, 2.0)) -> GenotypeBlock:
    return GenotypeBlock(pack(np.asarray(calls).astype(np.int8)), None, np.shape(calls)[1], codes)


def called_model(variant: int, trait: int) -> tuple[Floats, Floats]:
    """Trait and columns genotype, intercept, covariates of the people who have all."""
    calls, covariates, traits = cohort()
    used = (calls[variant] != 3) & ~np.isnan(traits[:, trait])
    scaled = (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)
    return traits[used, trait], np.column_stack([calls[variant].astype(float), np.ones(PEOPLE), scaled])[used]


@pytest.mark.parametrize("trait", [0, 1])
def test_associate_binary__wald_is_statsmodels_regression_of_the_called(trait: int) -> None:
    calls, covariates, traits = cohort()
    found = associate_binary(block_of(calls), design_of(covariates, traits), trait, "wald", 1)
    assert found.test.tolist() == [WALD] * 60
    assert np.isnan(found.beta).sum() == (0, 6)[trait]
    for variant in range(60):
        outcome, columns = called_model(variant, trait)
        fit = sm.GLM(outcome, columns, family=sm.families.Binomial()).fit(tol=1e-13)
        if np.isnan(found.beta[variant]):
            assert fit.bse[0] > 1e3
            continue
        assert found.n[variant] == fit.nobs
        assert found.effect_allele_frequency[variant] == pytest.approx(columns[:, 0].mean() / 2, rel=1e-12)
        got = [found.beta[variant], found.standard_error[variant], found.statistic[variant], found.p_value[variant]]
        np.testing.assert_allclose(got, [fit.params[0], fit.bse[0], fit.tvalues[0], fit.pvalues[0]], rtol=1e-6, atol=1e-12)


def test_associate_binary__firth_maximizes_the_penalized_likelihood() -> None:
    calls, covariates, traits = cohort()
    found = associate_binary(block_of(calls), design_of(covariates, traits), 1, "firth", 1)
    assert found.test.tolist() == [FIRTH] * 60
    for variant in range(0, 60, 6):
        outcome, columns = called_model(variant, 1)

        def information(coefficients: Floats, columns: Floats = columns) -> Floats:
            fitted = 1 / (1 + np.exp(-columns @ coefficients))
            return np.asarray((columns.T * (fitted * (1 - fitted))) @ columns)

        def loss(coefficients: Floats, columns: Floats = columns, outcome: Floats = outcome) -> float:
            margins = (2 * outcome - 1) * (columns @ coefficients)
            return float(np.logaddexp(0, -margins).sum() - 0.5 * np.linalg.slogdet(information(coefficients))[1])

        best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-7}).x
        assert found.beta[variant] == pytest.approx(best[0], rel=1e-5, abs=1e-6)
        assert found.standard_error[variant] == pytest.approx(np.linalg.inv(information(best))[0, 0] ** 0.5, rel=1e-5)


def test_score_test__is_statsmodels_where_no_call_is_missing() -> None:
    calls, covariates, traits = cohort()
    full = np.where(calls == 3, 0, calls)[:20]
    found = score_test(block_of(full), design_of(covariates, traits), 0)
    used = ~np.isnan(traits[:, 0])
    columns = np.column_stack([np.ones(PEOPLE), (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)])[used]
    null = sm.GLM(traits[used, 0], columns, family=sm.families.Binomial()).fit(tol=1e-14)
    for variant in range(20):
        chi_square = null.score_test(exog_extra=full[variant, used].astype(float))[0]
        assert found.score[variant] ** 2 / found.information[variant] == pytest.approx(float(np.squeeze(chi_square)), rel=1e-7)


def test_score_test__of_called_people_is_one_step_from_the_null_model() -> None:
    calls, covariates, traits = cohort()
    found = score_test(block_of(calls), design_of(covariates, traits), 0)
    used = ~np.isnan(traits[:, 0])
    scaled = np.column_stack([np.ones(PEOPLE), (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)])
    fitted = sm.Logit(traits[used, 0], scaled[used]).fit(disp=0, method="newton", tol=1e-7, maxiter=100).predict(scaled)
    for variant in range(60):
        keep = used & (calls[variant] != 3)
        genotype, columns, weight = calls[variant, keep].astype(float), scaled[keep], (fitted * (1 - fitted))[keep]
        residual = traits[keep, 0] - fitted[keep]
        cross, own = (genotype * weight) @ columns, (columns.T * weight) @ columns
        score = genotype @ residual - cross @ np.linalg.solve(own, columns.T @ residual)
        information = genotype**2 @ weight - cross @ np.linalg.solve(own, cross)
        np.testing.assert_allclose([found.score[variant], found.information[variant]], [score, information], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("people", [7, 12, 33, 130])
@pytest.mark.parametrize("coding", CODES)
def test_score_test__compiled_is_the_plain_one(people: int, coding: Any) -> None:
    rng = np.random.default_rng(people)
    calls = rng.binomial(2, rng.uniform(0.02, 0.98, (40, 1)), (40, people)).astype(np.int8)
    calls[rng.random(calls.shape) < np.linspace(0, 0.9, 40)[:, None]] = 3
    calls[0], calls[1], calls[2] = 3, 2, 0
    traits = np.resize([0.0, 1, 1, np.nan, 0], (people, 1))
    design = design_of(rng.normal(size=(people, 2)), traits)
    for block in (block_of(calls, CODES[coding]), block_of(calls[:0], CODES[coding]), block_of(calls[:1], CODES[coding])):
        ours, plain = score_test(block, design, 0), score_test_plain(block, design, 0)
        assert ours.reason.tolist() == plain.reason.tolist()
        for name in ("score", "information"):
            fine = plain.reason == FINE
            np.testing.assert_allclose(getattr(ours, name)[fine], getattr(plain, name)[fine], rtol=1e-9, atol=1e-11)
        np.testing.assert_array_equal(ours.n, plain.n)
        np.testing.assert_allclose(ours.effect_allele_frequency, plain.effect_allele_frequency, rtol=1e-14)


def test_score_test__of_dosages_that_are_whole_is_that_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, covariates, traits = cohort()
    design = design_of(covariates, traits)
    monkeypatch.setattr(logistic_score, "BLOCK_BYTES", 4 * 8 * PEOPLE * 7)
    dosages = np.where(calls == 3, np.nan, calls).astype(np.float32)
    fits: tuple[tuple[Method, float], ...] = (("firth_fallback", 1), ("wald", 0))
    for method, screen in fits:
        found = [
            associate_binary(block, design, 0, method, screen)
            for block in (block_of(calls), GenotypeBlock(None, dosages, PEOPLE))
        ]  # fmt: skip
        for name in ("beta", "standard_error", "n", "effect_allele_frequency"):
            np.testing.assert_allclose(getattr(found[0], name), getattr(found[1], name), rtol=1e-9)


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 7), (4, 64), (2, 1001)])
def test_compiled_sweeps__are_the_plain_ones(shape: tuple[int, int]) -> None:
    from pipeline.kernels.compiled.logistic import fill_terms, log_likelihood_each, penalize

    rng = np.random.default_rng(shape[1])
    margins, signed, leverages, cross = rng.normal(0, 3, (4, *shape))
    mask = (rng.random(shape) < 0.9).astype(float)
    signed *= mask
    slopes, own = rng.normal(0, 2, shape[0]), rng.random(shape[0])
    margins[:, :1] = 900
    expected = terms_plain(margins, signed, mask, slopes)
    weights, weighted, gradient, information, largest = *np.empty((2, *shape)), *np.empty((3, shape[0]))
    fill_terms(margins, signed, mask, slopes, (weights, weighted, gradient, information))
    for ours, plain in zip((margins, weights, weighted, gradient, information), expected, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-12, atol=1e-14)
    log_likelihood_each(margins, weights, gradient)
    np.testing.assert_allclose(gradient, log_likelihood_plain(margins, weights), rtol=1e-12)
    plain_missed, plain_leverages, plain_gradient, plain_largest = penalize_plain(margins, weights, signed, (leverages, cross, own))
    penalize(margins, weights, signed, (leverages, cross, own), (gradient, largest))
    np.testing.assert_allclose(largest, np.maximum(plain_largest, 0), rtol=1e-12)
    np.testing.assert_allclose(margins, plain_missed, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(leverages, plain_leverages, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gradient, plain_gradient, rtol=1e-11, atol=1e-12)


@compiled
def exp_each(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(len(x)):
        out[i] = _exp(x[i])


def test_compiled_exponential__is_exact_to_the_last_places() -> None:
    values = np.concatenate([np.linspace(-700, 700, 40_001), np.random.default_rng(2).normal(0, 4, 40_000), [0.0, -0.0, -800, 800]])
    found = np.empty_like(values)
    exp_each(values, found)
    np.testing.assert_allclose(found, np.exp(np.clip(values, -700, 700)), rtol=4e-16)


def test_solve__gives_solutions_pivots_and_what_is_singular() -> None:
    rng = np.random.default_rng(6)
    factors = rng.normal(size=(9, 5, 5))
    matrices, right = factors @ factors.transpose(0, 2, 1), rng.normal(size=(9, 5, 2))
    matrices[7] = 0
    matrices[8, :, 3] = matrices[8, 3] = 2 * matrices[8, 1]
    matrices[8, 3, 3] = 4 * matrices[8, 1, 1] - 1
    for solver in (solve, solve_plain):
        found = solver(matrices, right)
        np.testing.assert_allclose(found.solution[:7], np.linalg.solve(matrices[:7], right[:7]), rtol=1e-7)
        np.testing.assert_allclose(found.last[:7], 1 / np.linalg.inv(matrices[:7])[:, -1, -1], rtol=1e-7)
        np.testing.assert_allclose(found.log_determinant[:7], np.linalg.slogdet(matrices[:7])[1], rtol=1e-7)
        assert (found.least > 1e-9).tolist() == [True] * 7 + [False] * 2
    assert solve(matrices[:0], right[:0]).solution.shape == (0, 5, 2)
    turned, whole = invert(matrices), solve(matrices, np.broadcast_to(np.eye(5), matrices.shape))
    np.testing.assert_allclose(turned.solution[:7], whole.solution[:7], rtol=1e-7)
    np.testing.assert_allclose(turned.last[:7], whole.last[:7], rtol=1e-7)
    np.testing.assert_allclose(turned.log_determinant[:7], whole.log_determinant[:7], rtol=1e-12)
    assert (turned.least > 1e-9).tolist() == [True] * 7 + [False] * 2


def test_refit__does_not_depend_on_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, covariates, traits = cohort()
    design = design_of(covariates, traits)
    genotypes = np.where(calls == 3, np.nan, calls)[:, design.people]
    methods: tuple[Method, ...] = ("wald", "firth")
    whole = [refit(genotypes, design.null(1), method) for method in methods]
    monkeypatch.setattr(logistic_regression, "_TEMPORARY_BYTES", 7 * 8 * PEOPLE)
    for method, expected in zip(methods, whole, strict=True):
        found = refit(genotypes, design.null(1), method)
        np.testing.assert_allclose(found.beta, expected.beta, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-10)
    assert refit(genotypes[:0], design.null(1), "firth").beta.shape == (0,)


def test_refit__by_array_operations_alone_is_the_compiled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, covariates, traits = cohort()
    design = design_of(covariates, traits)
    genotypes = np.where(calls == 3, np.nan, calls)[:, design.people]
    methods: tuple[Method, ...] = ("firth_fallback", "firth")
    compiled = [refit(genotypes, design.null(1), method) for method in methods]
    # Nothing is NumPy's, so that all takes the GPU's way.
    for module in ("logistic_terms", "logistic_penalty", "logistic_quick"):
        monkeypatch.setattr(f"pipeline.kernels.{module}.np", None)
    for method, expected in zip(methods, compiled, strict=True):
        found = refit(genotypes, design.null(1), method)
        assert np.array_equal(found.test, expected.test)
        np.testing.assert_allclose(found.beta, expected.beta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-9)


def test_refit__holds_few_products_of_covariates_where_people_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, covariates, traits = cohort()
    genotypes = np.where(calls == 3, np.nan, calls)
    whole = [refit(genotypes[:, used.people], used.null(0), "firth") for used in [design_of(covariates, traits)]]
    monkeypatch.setattr("pipeline.kernels.logistic_null._HELD_PAIRS", 100)
    monkeypatch.setattr("pipeline.kernels.logistic_null._PAIRS_AT_A_TIME", 4 * 4 * 5 * 50)
    design = design_of(covariates, traits)
    assert [len(products.T) for _, products in design.null(0).pair_blocks()] == [50, 50, 50, 50, 1]
    np.testing.assert_allclose(refit(genotypes[:, design.people], design.null(0), "firth").beta, whole[0].beta, rtol=1e-9)


def test_associate_binary__refits_what_the_score_test_finds_notable() -> None:
    calls, covariates, traits = cohort()
    design, block = design_of(covariates, traits), block_of(calls)
    score, wald, some = (associate_binary(block, design, 0, "wald", screen) for screen in (0, 1, 0.2))
    refitted = score.p_value <= 0.2
    assert 5 < refitted.sum() < 40
    assert np.array_equal(some.test, np.where(refitted, WALD, SCORE))
    np.testing.assert_allclose(some.beta, np.where(refitted, wald.beta, score.beta), rtol=1e-9)
    np.testing.assert_allclose(score.statistic, score.beta / score.standard_error)


def test_associate_binary__gives_a_reason_or_firth_where_there_is_no_estimate() -> None:
    rng = np.random.default_rng(3)
    trait, sex = np.tile([0.0, 1], 40), np.repeat([0.0, 1], 40)
    usual = rng.integers(0, 3, 80)
    calls = np.stack(
        [
            usual,
            np.where(np.arange(80) < 3, 2 * (trait == 0), 0),  # no case has ALT
            2 * trait,  # complete separation
            np.zeros(80),
            np.full(80, 3),
            np.where(np.arange(80) < 77, 3, usual),
            np.where(trait == 1, 3, usual),
            np.where(trait == 0, 3, usual),
            2 * sex,
            np.where(sex == 1, 3, usual),
        ]
    )
    reasons = [FINE, SEPARATED, SEPARATED, MONOMORPHIC, TOO_FEW, TOO_FEW, ONE_GROUP, ONE_GROUP, COLLINEAR, COVARIATES]
    design = design_of(sex[:, None], trait[:, None])
    wald = associate_binary(block_of(calls), design, 0, "wald", 1)
    assert wald.reason.tolist() == reasons
    for name in ("beta", "standard_error", "statistic", "p_value", "neg_log_10_p_value"):
        assert np.array_equal(np.isnan(getattr(wald, name)), wald.reason != FINE)
    fallback = associate_binary(block_of(calls), design, 0, "firth_fallback", 1)
    assert fallback.reason.tolist() == [FINE if reason == SEPARATED else reason for reason in reasons]
    assert fallback.test[:3].tolist() == [WALD, FIRTH, FIRTH]
    assert fallback.beta[1] < 0 < fallback.beta[2]
    assert len(REASONS) == 9  # and that no saddle point was found, of scans with predictions


def test_associate_binary__finds_the_maximum_where_the_first_step_goes_far_beyond_it() -> None:
    trait = np.zeros(3000)
    trait[:30] = 1
    calls = np.zeros((3, 3000), int)
    calls[0, 25:35] = 1
    calls[1, 20:40] = 2
    calls[2, 28:1000] = 1
    found = associate_binary(block_of(calls), design_of(np.zeros((3000, 0)), trait[:, None]), 0, "wald", 1)
    carriers = [(5, 5, 25, 2965), (10, 10, 20, 2960), (2, 970, 28, 2000)]
    odds = [np.log(a / b / (c / d)) for a, b, c, d in carriers]
    errors = [np.sqrt(sum(1 / count for count in counts)) for counts in carriers]
    np.testing.assert_allclose(found.beta * [1, 2, 1], odds, rtol=1e-9)
    np.testing.assert_allclose(found.standard_error * [1, 2, 1], errors, rtol=1e-6)


def test_associate_binary__turns_the_sign_with_the_alleles_and_with_cases() -> None:
    calls, covariates, traits = cohort()
    design = design_of(covariates, traits)
    plain = associate_binary(block_of(calls), design, 0, "firth", 0.5)
    turned = associate_binary(block_of(np.where(calls == 3, 3, 2 - calls)), design_of(covariates, 2 - traits), 0, "firth", 0.5)
    np.testing.assert_allclose(turned.beta, plain.beta, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(turned.standard_error, plain.standard_error, rtol=1e-8)


def test_associate_binary__refuses_a_design_of_other_samples() -> None:
    calls, covariates, traits = cohort()
    with pytest.raises(ValueError, match="The design is of 203 samples, the genotypes are of 200"):
        associate_binary(block_of(calls[:, :200]), design_of(covariates, traits), 0, "wald", 1)


@pytest.mark.parametrize(
    ("trait", "message"),
    [
        ([0, 1, 2, 0, 1, 2, 0, 1], r"'trait 1' has 3 values \(0, 1, 2\), and a binary trait is 0 \(control\) and 1 \(case\), or 1 and 2"),
        ([-9, 1, 2, -9, 1, 2, 1, 1], r"has 3 values \(-9, 1, 2\).*Make codes such as 0 or -9 for unknown null"),
        ([0, 2, 0, 2, 0, 2, 0, 2], r"has 2 values \(0, 2\)"),
        ([1, 2, 3, 4, 5, 6, 7, 8], r"has 8 values \(1, 2, 3, 4, 5, ...\)"),
        ([1, 1, 1, 1, 1, 1, 1, 1], "'trait 1' is constant: 1 wherever it is known. Leave it out"),
        ([0, 0, 0, 0, 1, 1, 1, 1], r"'trait 1': the covariates tell \(nearly\) all of its 4 cases from its 4 controls"),
    ],
)
def test_logistic_design__refuses_a_trait_that_cannot_be_fitted(trait: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        design_of(np.array([[number**3] for number in range(8)], float), np.array(trait, float)[:, None])


def test_associate_binary__of_a_site_that_has_cases_alone_scores_the_others_and_fits_everybody_by_firth() -> None:
    calls, covariates, traits = cohort()
    calls, outcome = np.where(calls == 3, 0, calls)[:12], np.nan_to_num(traits[:, 0])
    ages, site = covariates[:, :1], np.zeros(PEOPLE)
    site[np.flatnonzero(outcome)[:9]] = 1
    others = site == 0
    whole = design_of(np.column_stack([ages, site]), outcome[:, None])
    scores = associate_binary(block_of(calls), whole, 0, "firth_fallback", 0)
    alone = associate_binary(block_of(calls[:, others]), design_of(ages[others], outcome[others, None]), 0, "firth_fallback", 0)
    np.testing.assert_allclose(scores.statistic, alone.statistic, rtol=1e-5)
    fits = associate_binary(block_of(calls), whole, 0, "firth_fallback", 1)
    assert set(fits.test.tolist()) == {FIRTH}
    assert set(associate_binary(block_of(calls), whole, 0, "wald", 1).reason.tolist()) == {SEPARATED}
    standard = np.column_stack([np.ones(PEOPLE), (ages - ages.mean()) / ages.std(), site])
    for variant in range(12):
        columns = np.column_stack([standard, calls[variant]])
        point = minimize(lambda at, columns=columns: -penalized(at, columns, outcome, 0.0), np.zeros(4), tol=1e-12).x
        p = 1 / (1 + np.exp(-columns @ point))
        error = np.linalg.inv((columns.T * p * (1 - p)) @ columns)[-1, -1] ** 0.5
        np.testing.assert_allclose([fits.beta[variant], fits.standard_error[variant]], [point[-1], error], rtol=1e-4, atol=1e-5)


def test_logistic_design__reads_zero_one_and_one_two_alike() -> None:
    _, covariates, traits = cohort()
    first, second = design_of(covariates, traits), design_of(covariates, traits + 1)
    assert np.array_equal(first.signs, second.signs)
    assert first.used == PEOPLE - 2
    null = first.null(0)
    used = ~np.isnan(traits[:, 0])
    fit = sm.Logit(traits[used, 0], np.column_stack([np.ones(used.sum()), covariates[used] - covariates[used].mean(axis=0)]))
    predicted = fit.fit(disp=0, method="newton", tol=1e-7, maxiter=100).predict()
    np.testing.assert_allclose(null.residuals, traits[used, 0] - predicted, atol=1e-9)


@cache
def hapmap3(trait: str, method: Method) -> LogisticAssociation:
    packed, n_samples = read_bed(DATA / "hapmap3" / "data")
    autosomes = np.isin(chromosomes(DATA / "hapmap3" / "data"), [str(number) for number in range(1, 23)])
    folder = REFERENCE / "hapmap3"
    covariates = np.stack([floats(column) for column in list(read_columns(folder / "hm3.covar12").values())[2:]], axis=1)
    design = design_of(covariates, floats(read_columns(folder / "hm3.pheno")[trait])[:, None])
    return associate_binary(GenotypeBlock(packed[autosomes], None, n_samples), design, 0, method, 1)


def assert_plink(found: LogisticAssociation, path: Path, beta: float, error: float, stopped_early: float) -> None:
    """Every row: beta within `beta` standard errors, standard error within `error`, and `stopped_early` of both with missing calls.

    PLINK works in float32 and stops when a step's coefficients sum to less than 1e-4; its standard errors are those of the point before.
    """
    table = read_columns(path)
    flipped = table["A1"] != table["ALT"]
    frequency = found.effect_allele_frequency
    printed, errors = floats(table["BETA"]), floats(table["SE"])
    none = np.isnan(printed)
    assert np.array_equal(np.isnan(found.beta), none)
    assert np.array_equal(found.n, table["OBS_CT"].astype(int))
    assert_printed(np.where(flipped, 1 - frequency, frequency), table["A1_FREQ"], 1e-9)
    full = (found.n == found.n.max())[~none]
    beta_off = (np.abs(np.where(flipped, -1, 1) * found.beta - printed) - half_digit(table["BETA"]))[~none] / errors[~none]
    error_off = (np.abs(found.standard_error - errors) - half_digit(table["SE"]))[~none] / errors[~none]
    assert beta_off[full].max() < beta
    assert error_off[full].max() < error
    assert max(beta_off[~full].max(initial=0), error_off[~full].max(initial=0)) <= stopped_early


@needs_data
@pytest.mark.parametrize(("trait", "stopped_early"), [("y_bin", 5e-3), ("y_rare", 4e-2)])
def test_associate_binary__wald_and_fallback_are_plinks_of_hapmap3(trait: str, stopped_early: float) -> None:
    folder = REFERENCE / "hapmap3"
    wald, fallback = hapmap3(trait, "wald"), hapmap3(trait, "firth_fallback")
    assert_plink(wald, folder / f"glm_logistic_nofirth.{trait}.glm.logistic", 8e-6, 3e-6, stopped_early)
    # The rows that PLINK gave to Firth are those it has no Wald estimate for.
    separated = read_columns(folder / f"glm_logistic_nofirth.{trait}.glm.logistic")["BETA"] == "NA"
    assert separated.sum() == {"y_bin": 0, "y_rare": 74}[trait]
    assert np.array_equal(wald.reason == SEPARATED, separated)
    assert np.array_equal(fallback.test == FIRTH, separated)
    assert_plink(fallback, folder / f"glm_logistic_firthfallback.{trait}.glm.logistic.hybrid", 1e-3, 4e-4, stopped_early)


@needs_data
@pytest.mark.parametrize(("trait", "stopped_early"), [("y_bin", 5e-3), ("y_rare", 4e-2)])
@pytest.mark.soak
def test_associate_binary__firth_is_plinks_of_hapmap3(trait: str, stopped_early: float) -> None:
    path = REFERENCE / "hapmap3" / f"glm_logistic_firth.{trait}.glm.firth"
    assert_plink(hapmap3(trait, "firth"), path, 1e-3, 4e-4, stopped_early)


def regenie_example(trait: str, method: Method, p: PValue = "wald") -> LogisticAssociation:
    folder = DATA / "regenie_example"
    packed, n_samples = read_bed(folder / "example")
    covariates = read_columns(folder / "covariates.txt")
    matrix = np.stack([floats(covariates[name]) for name in ("V1", "V2", "V3")], axis=1)
    design = design_of(matrix, floats(read_columns(folder / "phenotype_bin.txt")[trait])[:, None])
    return associate_binary(GenotypeBlock(packed, None, n_samples), design, 0, method, 1, p)


@needs_data
@pytest.mark.parametrize("trait", ["Y1", "Y2"])
def test_associate_binary__is_plinks_of_the_regenie_example(trait: str) -> None:
    folder = REFERENCE / "regenie_example"
    # For Y1 PLINK stopped a step early: statsmodels' Logit is 7e-6 away from its standard errors too.
    assert_plink(regenie_example(trait, "firth_fallback"), folder / f"glm_logistic.{trait}.glm.logistic", 1e-6, 8e-6, 0)
    assert_plink(regenie_example(trait, "firth"), folder / f"glm_firth.{trait}.glm.firth", 1e-3, 1e-4, 0)


@needs_data
def test_associate_binary__goes_with_regenies_own_firth() -> None:
    # Only loosely: regenie leaves out six people, conditions on its whole-genome predictions and fits the covariates once.
    table = read_columns(DATA / "regenie_example" / "test_bin_out_firth_Y1.regenie")
    found = regenie_example("Y1", "firth")
    assert np.corrcoef(found.beta, floats(table["BETA"]))[0, 1] > 0.996
    assert np.corrcoef(found.neg_log_10_p_value, floats(table["LOG10P"]))[0, 1] > 0.99
    ratio = regenie_example("Y1", "firth", "lrt")
    assert np.corrcoef(ratio.neg_log_10_p_value, floats(table["LOG10P"]))[0, 1] > 0.99
    np.testing.assert_array_equal(ratio.beta, found.beta)


@needs_data
@pytest.mark.parametrize(("trait", "least"), [("y_bin", 0.9997), ("y_rare", 0.998)])
def test_score_test__goes_with_wald_on_hapmap3(trait: str, least: float) -> None:
    wald = hapmap3(trait, "wald")
    packed, n_samples = read_bed(DATA / "hapmap3" / "data")
    autosomes = np.isin(chromosomes(DATA / "hapmap3" / "data"), [str(number) for number in range(1, 23)])
    folder = REFERENCE / "hapmap3"
    covariates = np.stack([floats(column) for column in list(read_columns(folder / "hm3.covar12").values())[2:]], axis=1)
    design = design_of(covariates, floats(read_columns(folder / "hm3.pheno")[trait])[:, None])
    score = associate_binary(GenotypeBlock(packed[autosomes], None, n_samples), design, 0, "wald", 0)
    known = wald.reason == FINE
    assert np.corrcoef(score.neg_log_10_p_value[known], wald.neg_log_10_p_value[known])[0, 1] > least
