"""Cox models and score tests against published numbers, SciPy's optimum of the likelihood, and what regenie printed."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from pipeline.errors import DataError
from pipeline.kernels.cox_again import cox_again
from pipeline.kernels.cox_design import CoxDesign
from pipeline.kernels.cox_firth import cox_likelihood_ratio
from pipeline.kernels.cox_null import RiskOrder, cox_coefficients
from pipeline.kernels.cox_scan import CoxMethod, associate_times
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import pack
from tests.kernels.times import PEOPLE, times_cohort

PRINTED = {
    # Beta, standard error and chi-square that regenie 4.1.2 printed for times_cohort, by --t2e and --firth --approx --pThresh 0.999.
    ("alone", "score"): [
        (-0.0279888, 0.139516, 0.040246), (0.187921, 0.138995, 1.82788), (-0.0194483, 0.149944, 0.0168229),
        (0.0156638, 0.17975, 0.0075938), (-0.105198, 0.226669, 0.215392), (0.854376, 0.293624, 8.46672),
        (1.07691, 0.4217, 6.52152), (-0.0462191, 0.236735, 0.0381169), (0.173513, 0.161198, 1.15864),
        (-0.101283, 0.137589, 0.541887), (0.121338, 0.136164, 0.794085), (0.162568, 0.20002, 0.660575),
    ],
    ("alone", "firth_approximate"): [
        (-0.0297831, 0.140967, 0.0447208), (0.206184, 0.144985, 2.02092), (-0.0134344, 0.14083, 0.00914974),
        (0.020825, 0.169684, 0.0150623), (-0.0716544, 0.215517, 0.113134), (0.815356, 0.238203, 9.43906),
        (1.05944, 0.334212, 7.858), (-0.0693721, 0.233061, 0.0872405), (0.1418, 0.150012, 0.913985),
        (-0.0997859, 0.135597, 0.541465), (0.102449, 0.125016, 0.674001), (0.164374, 0.189879, 0.729229),
    ],
    ("predicted", "score"): [
        (0.00981044, 0.138755, 0.004999), (0.279819, 0.137394, 4.14779), (-0.0358121, 0.147943, 0.0585962),
        (0.0387775, 0.179394, 0.0467244), (-0.0321578, 0.22493, 0.0204399), (0.784237, 0.291922, 7.21708),
        (1.13845, 0.418164, 7.41204), (0.0811698, 0.233226, 0.121125), (0.163645, 0.160303, 1.04213),
        (-0.128359, 0.136703, 0.881646), (0.191556, 0.135182, 2.00796), (0.105011, 0.196798, 0.284723),
    ],
    ("predicted", "firth_approximate"): [
        (0.00943869, 0.142652, 0.00439187), (0.304629, 0.14251, 4.55567), (-0.0308932, 0.145277, 0.0455269),
        (0.0413971, 0.168892, 0.0599148), (-0.00818045, 0.215114, 0.0014514), (0.724738, 0.234952, 7.76999),
        (1.19246, 0.338247, 9.56515), (0.0614303, 0.238875, 0.0674708), (0.129353, 0.147004, 0.792023),
        (-0.127174, 0.135204, 0.884134), (0.167893, 0.126363, 1.76978), (0.111754, 0.189991, 0.339869),
    ],
}  # fmt: skip


def log_likelihood(signed: Any, log_hazard: Any) -> float:
    """Breslow's, one event after another."""
    times = abs(signed)
    return float(sum(log_hazard[i] - np.log(np.exp(log_hazard[times >= times[i]]).sum()) for i in np.flatnonzero(signed > 0)))


def information(signed: Any, log_hazard: Any, columns: Any) -> Any:
    """Of coefficients of columns `[k, n]`."""
    total, times = np.zeros((len(columns), len(columns))), abs(signed)
    for i in np.flatnonzero(signed > 0):
        at_risk = times >= times[i]
        total += np.cov(columns[:, at_risk], aweights=np.exp(log_hazard[at_risk]), ddof=0)
    return total


def test_cox_coefficients__of_freireichs_leukaemia_are_those_in_print() -> None:
    # Freireich et al. 1963: weeks in remission with 6-MP and placebo; R's survival prints 1.5092 by Breslow's ties.
    treated = [6, 6, 6, 7, 10, 13, 16, 22, 23, -6, -9, -10, -11, -17, -19, -20, -25, -32, -32, -34, -35]
    placebo = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
    signed, group = np.array(treated + placebo, float), np.repeat([0.0, 1.0], 21)
    found = cox_coefficients("remission", group[None] - 0.5, RiskOrder.of(signed), np.zeros(42), firth=False)
    assert found[0] == pytest.approx(1.5092, abs=5e-5)


@pytest.mark.parametrize("firth", [False, True])
def test_cox_coefficients__are_scipys_optimum(firth: bool) -> None:
    data = times_cohort()
    columns = (data.covariates - data.covariates.mean(axis=0)).T / [[8.0], [0.5]]

    def value(at: Any) -> float:
        log_hazard = data.predictions + at @ columns
        penalty = np.linalg.slogdet(information(data.signed, log_hazard, columns))[1] / 2 if firth else 0.0
        return -log_likelihood(data.signed, log_hazard) - float(penalty)

    expected = minimize(value, np.zeros(2), method="BFGS", options={"gtol": 1e-5}).x
    found = cox_coefficients("T", columns, RiskOrder.of(data.signed), data.predictions, firth=firth)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_cox_coefficients__say_when_a_covariate_tells_who_has_the_event() -> None:
    signed = np.array([1.0, 2, 3, -4, -5, -6, -7, -8])
    with pytest.raises(DataError, match="Trait 'T': the Cox model of the covariates has no maximum"):
        cox_coefficients("T", np.where(signed > 0, 1.0, 0.0)[None], RiskOrder.of(signed), np.zeros(8), firth=False)


def test_hazards__make_residuals_that_sum_to_nothing_and_a_censored_zero_is_no_event() -> None:
    signed = np.array([3.0, -0.0, 1, 1, -1, 2, 0.0])
    risk = RiskOrder.of(signed)
    assert sorted(risk.order[risk.event].tolist()) == [0, 2, 3, 5, 6]
    assert risk.hazards(np.zeros(7)) == pytest.approx(
        [1 / 7 + 2 / 5 + 1 / 2 + 1, 1 / 7, *[1 / 7 + 2 / 5] * 3, 1 / 7 + 2 / 5 + 1 / 2, 1 / 7]
    )


@pytest.mark.parametrize(("given", "method"), PRINTED)
def test_associate_times__gives_what_regenie_printed(given: str, method: CoxMethod) -> None:
    data = times_cohort()
    design = CoxDesign.build(data.covariates, data.signed[:, None])
    models = design.less(None if given == "alone" else data.predictions[None])
    found = associate_times(GenotypeBlock(pack(data.calls), None, PEOPLE), models, method, 1.0)[0]
    beta, error, chi_square = np.array(PRINTED[given, method]).T
    np.testing.assert_allclose(found.standard_error, error, rtol=3e-5)
    np.testing.assert_allclose(found.beta, beta, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(found.statistic**2, chi_square, rtol=4e-4, atol=1e-6)
    assert found.n.tolist() == (data.calls < 3).sum(axis=1).tolist()


def test_associate_times__leaves_out_who_lacks_a_trait() -> None:
    data = times_cohort()
    lacking = np.arange(PEOPLE) % 6 == 0
    both = np.stack([data.signed, np.where(lacking, np.nan, data.signed)], axis=1)
    dosages = np.where(data.calls == 3, 1, data.calls).astype(np.float32)
    block = GenotypeBlock(None, dosages, PEOPLE)
    found = associate_times(block, CoxDesign.build(data.covariates, both).less(None), "firth_approximate", 1.0)[1]
    own = CoxDesign.build(data.covariates[~lacking], both[~lacking, 1:])
    expected = associate_times(GenotypeBlock(None, dosages[:, ~lacking], int((~lacking).sum())), own.less(None), "firth_approximate", 1.0)[
        0
    ]
    for name in ("beta", "standard_error", "statistic", "n", "effect_allele_frequency"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-7)


def test_cox_likelihood_ratio__is_scipys_optimum_of_the_penalized_likelihood() -> None:
    data = times_cohort()
    risk = RiskOrder.of(data.signed)
    adjusted = np.where(data.calls == 3, 0, data.calls)[4:8] - 0.3
    found = cox_likelihood_ratio(adjusted[:, risk.order], data.predictions[risk.order], risk, np.zeros(4))
    for place, own in enumerate(adjusted):

        def value(at: float, own: Any = own) -> float:
            log_hazard = data.predictions + at * own
            return -log_likelihood(data.signed, log_hazard) - float(np.log(information(data.signed, log_hazard, own[None]).item())) / 2

        best = minimize_scalar(value, bracket=(-0.5, 0.5), tol=1e-7)
        assert found.beta[place] == pytest.approx(best.x, abs=1e-5)
        assert found.chi_square[place] == pytest.approx(2 * (value(0.0) - best.fun), abs=1e-7)


@pytest.mark.parametrize("test", ["score", "firth_approximate"])
def test_cox_again__agrees_with_the_scan_and_shows_a_fault(test: CoxMethod) -> None:
    data = times_cohort()
    models = CoxDesign.build(data.covariates, data.signed[:, None]).less(data.predictions[None])
    found = associate_times(GenotypeBlock(pack(data.calls), None, PEOPLE), models, test, 1.0)[0]
    genotype = np.where(data.calls[5] == 3, np.nan, data.calls[5])
    log_hazards = (models.log_hazards[0], models.centres[0])
    once = cox_again(genotype, data.covariates, data.signed, log_hazards, test)
    assert (once.beta, once.standard_error, once.n) == pytest.approx((found.beta[5], found.standard_error[5], found.n[5]), rel=1e-5)
    assert cox_again(genotype[::-1], data.covariates, data.signed, log_hazards, test).beta != pytest.approx(found.beta[5], abs=0.1)


def test_cox_again__needs_as_much_memory_as_people_and_not_as_people_times_events() -> None:
    random, people = np.random.default_rng(9), 20_000
    signed = np.where(random.random(people) < 0.3, 1, -1) * random.exponential(10, people)
    genotype, covariates, flat = random.binomial(2, 0.3, people).astype(float), np.empty((people, 0)), np.zeros(people)
    tracemalloc.start()
    try:
        found = cox_again(genotype, covariates, signed, (flat, flat), "firth_approximate")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.isfinite(found.beta)
    assert peak < 200 * 8 * people, "some columns of people; with each of 6,000 events it is 120 million numbers"


def test_cox_design__says_when_nobody_has_an_event() -> None:
    with pytest.raises(DataError, match="Trait 'T': none of the people who have it and all covariates has an event"):
        CoxDesign.build(np.empty((6, 0)), -np.arange(1.0, 7)[:, None], ((), ("T",)))
