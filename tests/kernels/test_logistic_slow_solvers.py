"""Logistic scans beside solvers that take their time: a search from many starts, and a linear program that finds separation."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize
from scipy.stats import norm

from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.kernels.logistic_regression import FIRTH, FIRTH_LRT, WALD, Method, PValue
from pipeline.kernels.logistic_scan import LogisticAssociation, associate_binary
from pipeline.kernels.logistic_score import COLLINEAR, FINE, MONOMORPHIC, SEPARATED

pytestmark = pytest.mark.long

Floats = NDArray[np.float64]
PEOPLE = 500


class Cohort(NamedTuple):
    """Calls `[v, 500]` with 3 where missing, covariates `[500, 3]`, and a trait `[500]`."""

    calls: NDArray[np.int8]
    covariates: Floats
    trait: Floats

    def columns(self, variant: int) -> tuple[Floats, Floats]:
        """Intercept, covariates and genotype of the called, and their trait."""
        called = self.calls[variant] != 3
        matrix = np.column_stack([np.ones(PEOPLE), self.covariates, self.calls[variant]])
        return matrix[called], self.trait[called]

    def scan(self, method: Method, p: PValue = "wald") -> LogisticAssociation:
        """All variants refitted."""
        design = LogisticDesign.build(self.covariates, self.trait[:, None])
        return associate_binary(GenotypeBlock(pack(self.calls), None, PEOPLE), design, 0, method, 1, p)


@cache
def cohort(cases: int, strength: float, missing: float = 0.0) -> Cohort:
    """80 rare variants, the last one a covariate's copy; the covariates explain little of the trait, or nearly all."""
    rng = np.random.default_rng(17)
    covariates = rng.normal(size=(PEOPLE, 3))
    covariates[:, 2] = covariates[:, 2] > 1
    liability = strength * covariates.sum(axis=1) + rng.logistic(size=PEOPLE)
    trait = (liability >= np.sort(liability)[-cases]).astype(float)
    calls = rng.binomial(2, rng.uniform(0.001, 0.02, (80, 1)), (80, PEOPLE)).astype(np.int8)
    calls[:, 0] = np.maximum(calls[:, 0], 1)
    calls[-1] = covariates[:, 2]
    calls[(rng.random(calls.shape) < missing) & (np.arange(80) < 79)[:, None]] = 3
    return Cohort(calls, covariates, trait)


class Solution(NamedTuple):
    """A maximum of Firth's likelihood: its height, the genotype's coefficient, and the standard error of that."""

    height: float
    beta: float
    error: float


def slow_firth(columns: Floats, trait: Floats, free: int = 1) -> list[Solution]:
    """The maxima that a search from many starts reaches, the highest first; without `free` the genotype's coefficient is held at 0."""
    kept = np.append(np.ones(columns.shape[1] - 1), free)

    def loss(point: Floats) -> tuple[float, Floats]:
        point = point * kept
        fitted = 1 / (1 + np.exp(-np.clip(columns @ point, -300, 300)))
        weight = fitted * (1 - fitted)
        information = (columns.T * weight) @ columns
        sign, logarithm = np.linalg.slogdet(information)
        if sign <= 0 or logarithm < -200:
            return 1e6, np.zeros(len(point))
        leverage = np.einsum("ij,ij->i", columns @ np.linalg.inv(information), columns) * weight
        margins = (2 * trait - 1) * (columns @ point)
        gradient = columns.T @ (trait - fitted + leverage * (0.5 - fitted))
        return float(np.logaddexp(0, -margins).sum() - 0.5 * logarithm), -gradient * kept

    size = columns.shape[1]
    null = np.append(sm.GLM(trait, columns[:, :-1], family=sm.families.Binomial()).fit().params, 0)
    starts = [np.zeros(size), null, null + 3 * np.eye(size)[-1], null - 3 * np.eye(size)[-1], 0.3 * null]
    maxima = []
    for start in starts:
        found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 500})
        fitted = 1 / (1 + np.exp(-columns @ found.x))
        error = np.linalg.inv((columns.T * (fitted * (1 - fitted))) @ columns)[-1, -1] ** 0.5
        maxima.append(Solution(-float(found.fun), float(found.x[-1]), float(error)))
    return sorted(maxima, reverse=True)


def separated(columns: Floats, trait: Floats) -> bool:
    """Whether some direction of the coefficients lowers nobody's odds of what he is and raises somebody's (Konis 2007)."""
    signed = columns * (2 * trait - 1)[:, None]
    scaled = signed / abs(signed).max(axis=0)
    best = linprog(-scaled.sum(axis=0), A_ub=-scaled, b_ub=np.zeros(len(scaled)), bounds=(-1, 1))
    return bool(-best.fun > 1e-6)


COHORTS = pytest.mark.parametrize(
    ("cases", "strength", "missing"),
    [
        pytest.param(12, 0.3, 0.0, id="few"),
        pytest.param(15, 2.5, 0.0, id="explained", marks=pytest.mark.soak),
        pytest.param(25, 0.3, 0.05, id="missing", marks=pytest.mark.soak),
    ],
)


@COHORTS
def test_firth__reaches_the_highest_maximum_that_a_slow_search_finds(cases: int, strength: float, missing: float) -> None:
    data = cohort(cases, strength, missing)
    found = data.scan("firth")
    reasons, two_maxima = found.reason.tolist(), 0
    assert {*reasons} <= {FINE, COLLINEAR, MONOMORPHIC}
    assert reasons[-1] == COLLINEAR
    for variant in np.flatnonzero(found.reason == FINE):
        maxima = slow_firth(*data.columns(variant))
        two_maxima += maxima[0].height - maxima[-1].height > 1e-3
        # Two may be as high as one another.
        off = [abs(found.beta[variant] - one.beta) / one.error for one in maxima if one.height > maxima[0].height - 1e-7]
        assert min(off) < 2e-5, (variant, found.beta[variant], maxima)
        error = min(abs(found.standard_error[variant] / one.error - 1) for one in maxima)
        assert error < 2e-5
    assert reasons.count(FINE) > 70
    assert (two_maxima > 2) == (strength > 1)


@COHORTS
def test_wald__is_null_exactly_where_a_linear_program_finds_separation(cases: int, strength: float, missing: float) -> None:
    data = cohort(cases, strength, missing)
    found, fallback = data.scan("wald"), data.scan("firth_fallback")
    tested = np.isin(found.reason, [FINE, SEPARATED])
    expected = [separated(*data.columns(variant)) for variant in np.flatnonzero(tested)]
    assert 5 < sum(expected) < len(expected) - 5
    assert (found.reason[tested] == SEPARATED).tolist() == expected
    assert (fallback.test[tested] == FIRTH).tolist() == expected
    assert (fallback.reason[tested] == FINE).all()
    for variant in np.flatnonzero(found.reason == FINE):
        columns, trait = data.columns(variant)
        fit = sm.GLM(trait, columns, family=sm.families.Binomial()).fit(tol=1e-13, maxiter=200)
        assert fallback.test[variant] == WALD
        assert abs(found.beta[variant] - fit.params[-1]) < 1e-5 * fit.bse[-1]
        assert found.standard_error[variant] == pytest.approx(fit.bse[-1], rel=1e-5)


@COHORTS
def test_firth__is_tested_by_the_ratio_of_the_highest_maxima(cases: int, strength: float, missing: float) -> None:
    data = cohort(cases, strength, missing)
    found = data.scan("firth", "lrt")
    tested = np.flatnonzero(found.reason == FINE)
    assert {*found.test[tested]} == {FIRTH_LRT}
    for variant in tested[::2]:
        free, held = (slow_firth(*data.columns(variant), free)[0] for free in (1, 0))
        assert found.statistic[variant] ** 2 == pytest.approx(2 * (free.height - held.height), rel=1e-5, abs=1e-6)
        assert np.sign(found.statistic[variant]) == np.sign(found.beta[variant])
    p_values = 2 * norm.sf(abs(found.statistic[tested]))
    np.testing.assert_allclose(found.p_value[tested], p_values, rtol=1e-12)
