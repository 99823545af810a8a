"""The sum of single effects: exact where there is one effect, near the exact posterior where there are two, and as susieR has it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from pipeline.errors import DataError
from pipeline.kernels.single_effects import credible_sets, single_effects

Floats = NDArray[np.float64]


def chain(count: int, rho: float) -> Floats:
    """Correlations that fall from neighbour to neighbour."""
    place = np.arange(count)
    return np.asarray(rho ** abs(place[:, None] - place))


def expected_z(r: Floats, effects: dict[int, float], n: float) -> Floats:
    """z of marginal regressions whose noise is none, with a little of it (a sine) so that no two variants are alike."""
    marginal = r[:, list(effects)] @ np.array(list(effects.values()))
    return np.asarray((marginal + 0.004 * np.sin(np.arange(len(r)) * 2.4)) * np.sqrt(n - 2) / np.sqrt(1 - marginal**2))


def log_density(share: Floats, r: Floats, n: float, variants: tuple[int, ...], variances: tuple[float, ...]) -> float:
    """Log density of the estimates when these variants have effects of these prior variances, beside none: Gaussian, integrated exactly."""
    chosen = r[:, list(variants)]
    noise = r / (n - 1)
    with_effects = noise + chosen @ np.diag(variances) @ chosen.T
    return float(stats.multivariate_normal.logpdf(share, cov=with_effects) - stats.multivariate_normal.logpdf(share, cov=noise))


def estimates(z: Floats, n: float) -> Floats:
    return np.asarray(z / np.sqrt(z**2 + n - 2))


def test_single_effects__of_one_effect_is_the_exact_posterior() -> None:
    n, r = 900.0, chain(12, 0.8)
    z = expected_z(r, {5: 0.12}, n)
    found = single_effects(z, r, n, 1)
    share = estimates(z, n)

    def evidence(log_variance: float) -> Floats:
        return np.array([log_density(share, r, n, (one,), (float(np.exp(log_variance)),)) for one in range(12)])

    best = optimize.minimize_scalar(
        lambda place: -np.logaddexp.reduce(evidence(place)), bounds=(-9, 0), method="bounded", options={"xatol": 1e-9}
    )
    logs = evidence(best.x)
    assert np.log(found.variance[0]) == pytest.approx(best.x, abs=1e-5)
    np.testing.assert_allclose(found.inclusion, np.exp(logs - np.logaddexp.reduce(logs)), atol=1e-7)
    assert found.log_bayes_factors[0] == pytest.approx(np.logaddexp.reduce(logs) - np.log(12), abs=1e-9)
    assert found.settled


def test_single_effects__of_two_effects_is_near_the_sum_over_all_configurations() -> None:
    n, r = 2000.0, chain(10, 0.5)
    z = expected_z(r, {2: 0.1, 7: -0.12}, n)
    found = single_effects(z, r, n, 2)
    share, variances = estimates(z, n), (float(found.variance[0]), float(found.variance[1]))
    logs = np.array([[log_density(share, r, n, pair, variances) for pair in product([first], range(10))] for first in range(10)])
    joint = np.exp(logs - logs.max())
    joint /= joint.sum()
    exact = np.array([1 - joint[np.ix_(np.arange(10) != one, np.arange(10) != one)].sum() for one in range(10)])
    np.testing.assert_allclose(found.inclusion, exact, atol=0.01)
    assert exact.max() > 0.9
    assert np.argsort(found.inclusion)[-2:].tolist() in ([2, 7], [7, 2])


# pysusie 0.1.0, a port of susieR: susie_rss(z, R, n=1500, L=5, tol=1e-10) of the locus below.
SETS = [[9, 8], [30, 31, 29, 28, 32, 33]]
COVERAGE, PURITY = [0.9773757, 0.96351765], [0.9, 0.59049]
INCLUSION = [
    0.00014825266, 0.00014860813, 0.00015409129, 0.00015671028, 0.00016720754, 0.00020594986, 0.00083260165, 0.00165217391, 0.04211616585,
    0.93541179659,
]  # fmt: skip
VARIANCE, MEAN, DEVIATION = [0.02148983, 0.00988813], [0.13603211967, -0.05653440877], [0.0433964262, 0.0537583464]


def test_single_effects__are_those_of_susie() -> None:
    n, r = 1500.0, chain(40, 0.9)
    z = np.round(expected_z(r, {9: 0.15, 30: -0.11}, n), 6)
    found = single_effects(z, r, n, 5)
    sets = credible_sets(found, r, 0.95, 0.5)
    assert [one.variants.tolist() for one in sets] == SETS
    np.testing.assert_allclose([one.coverage for one in sets], COVERAGE, atol=1e-5)
    np.testing.assert_allclose([one.purity for one in sets], PURITY, rtol=1e-6)
    np.testing.assert_allclose(found.inclusion[:10], INCLUSION, atol=1e-5)
    np.testing.assert_allclose(found.variance[:2], VARIANCE, rtol=1e-4)
    np.testing.assert_allclose(found.posterior[0][[9, 30]], MEAN, rtol=1e-4)
    np.testing.assert_allclose(found.posterior[1][[9, 30]], DEVIATION, rtol=1e-4)


def test_single_effects__are_none_where_nothing_acts() -> None:
    r = chain(30, 0.9)
    found = single_effects(np.sin(np.arange(30.0)), r, 500.0, 4)
    assert found.inclusion.max() < 0.2
    assert credible_sets(found, r, 0.95, 0.5) == []
    none = single_effects(np.zeros(3), np.eye(3), 500.0, 2)
    assert not none.active.any()
    np.testing.assert_array_equal(none.inclusion, np.zeros(3))


def test_credible_sets__leave_out_impure_ones_and_twins() -> None:
    r = chain(40, 0.2)
    found = single_effects(expected_z(r, {20: 0.12}, 900.0), r, 900.0, 2)
    assert len(credible_sets(found, r, 0.999, 0.0)) >= 1
    assert credible_sets(found, r, 0.999, 0.5) == []


def test_single_effects__refuse_z_that_linkage_contradicts() -> None:
    with pytest.raises(DataError, match="z statistics and linkage contradict one another"):
        single_effects(np.array([40.0, -40.0, 40.0]), 900 * np.array([[1, 1, -1], [1, 1, 1], [-1, 1, 1.0]]), 300.0, 3)
