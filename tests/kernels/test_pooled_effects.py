"""Pooled effects against statsmodels' meta-analysis."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.pooled_effects import pooled_effects


def test_pooled_effects__are_those_of_statsmodels() -> None:
    combine_effects = pytest.importorskip("statsmodels.stats.meta_analysis").combine_effects
    rng = np.random.default_rng(1)
    error = rng.uniform(0.05, 0.4, (40, 5))
    beta = rng.normal(0.1, 0.02, (40, 1)) + rng.normal(0, error) + rng.normal(0, 0.3, (40, 5)) * (np.arange(40) % 2)[:, None]
    found = pooled_effects(beta, error)
    for row in range(40):
        with np.errstate(invalid="ignore"):  # statsmodels goes on with a variance below 0
            expected = combine_effects(beta[row], error[row] ** 2, method_re="dl", use_t=False)
        assert found.beta[row] == pytest.approx(expected.mean_effect_fe, rel=1e-12)
        assert found.standard_error[row] == pytest.approx(expected.sd_eff_w_fe, rel=1e-12)
        assert found.q[row] == pytest.approx(expected.q, rel=1e-12)
        assert found.p_heterogeneity[row] == pytest.approx(expected.test_homogeneity().pvalue, rel=1e-9)
        assert found.i_squared[row] == pytest.approx(max(expected.i2, 0), abs=1e-12)
        assert found.tau_squared[row] == pytest.approx(max(expected.tau2, 0), abs=1e-14)
        if expected.tau2 > 0:
            assert found.beta_random[row] == pytest.approx(expected.mean_effect_re, rel=1e-12)
            assert found.standard_error_random[row] == pytest.approx(expected.sd_eff_w_re, rel=1e-12)
    assert 10 < (found.tau_squared > 0).sum() < 40


def test_pooled_effects__of_studies_that_lack_a_variant() -> None:
    beta = np.array([[0.2, np.nan, 0.4], [0.3, np.nan, np.nan], [np.nan] * 3, [0.1, 0.2, 0.3]])
    error = np.array([[0.1, 0.2, 0.1], [0.1, np.nan, 0.1], [0.1] * 3, [0.1, 0.0, np.inf]])
    found = pooled_effects(beta, error)
    assert found.studies.tolist() == [2, 1, 0, 1]
    np.testing.assert_allclose(found.beta, [0.3, 0.3, np.nan, 0.1], rtol=1e-15)
    np.testing.assert_allclose(found.standard_error, [0.1 / np.sqrt(2), 0.1, np.nan, 0.1], rtol=1e-15)
    np.testing.assert_allclose(found.beta_random, found.beta, rtol=1e-12)
    np.testing.assert_array_equal(np.isnan(found.q), [False, True, True, True])
    assert found.q[0] == pytest.approx(2.0)
    assert found.i_squared[0] == pytest.approx(0.5)
