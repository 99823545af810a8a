"""P-values on the device, in the simulator, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pipeline.kernels.device.p_values import t_tests, z_tests
from pipeline.testing.device import simulated


@pytest.mark.parametrize("df", [2, 5, 50, 997, 100_000])
def test_t_tests__equal_scipy_where_scipy_does_not_underflow(df: int) -> None:
    t = np.concatenate([np.geomspace(1e-8, 1e4, 90), -np.geomspace(0.1, 30, 30)]).reshape(-1, 3)
    p, logarithm = np.zeros((2, *t.shape))
    simulated(t_tests, 2, t, np.full(len(t), float(df)), 1.0, p, logarithm, threads=64)
    expected = 2 * stats.t.sf(np.abs(t), df)
    known = expected > 1e-300
    np.testing.assert_allclose(p[known], expected[known], rtol=1e-10)
    np.testing.assert_allclose(logarithm[known], -np.log10(expected[known]), rtol=1e-9, atol=1e-14)


def test_t_tests__of_one_degree_of_freedom_are_those_of_the_cauchy_distribution() -> None:
    t = np.geomspace(1e-9, 1e9, 60)[:, None]
    p, logarithm = np.zeros((2, 60, 1))
    simulated(t_tests, 1, t, np.ones(60), 1.0, p, logarithm, threads=64)
    np.testing.assert_allclose(p, 2 / np.pi * np.arctan2(1, t), rtol=1e-12)


def test_t_tests__are_the_plain_version_for_tiny_and_odd_values() -> None:
    t = np.array([[60.0, 421.164, 2000], [1e8, 1e300, 0], [np.inf, -np.inf, np.nan], [2, 3, -1e-200], [1, 2, np.inf]])
    df = np.array([500.0, 941, 5, 60, 0])
    found, expected = np.zeros((2, 2, *t.shape))
    simulated(t_tests, 1, t, df, 1.0, *found, threads=16)
    t_tests.plain(t, df, 1.0, *expected)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert not np.signbit(found[1, 1, 2])


def test_t_tests__spare_those_above_the_largest_that_counts() -> None:
    t = np.random.default_rng(1).normal(size=(40, 2)) * 3
    df = np.linspace(3, 90, 40)
    found, expected = np.zeros((2, 2, 40, 2))
    simulated(t_tests, 1, t, df, 0.01, *found, threads=96)
    t_tests.plain(t, df, 1.0, *expected)
    np.testing.assert_array_equal(found[0] <= 0.01, expected[0] <= 0.01)
    counted = found[0] <= 0.01
    np.testing.assert_allclose(found[:, counted], expected[:, counted], rtol=1e-10)
    assert counted.any()


def test_z_tests__equal_scipy_and_keep_the_logarithm_of_what_underflows() -> None:
    z = np.concatenate([np.geomspace(1e-8, 1e8, 80), -np.geomspace(0.1, 60, 30), [np.inf, -np.inf, np.nan, 0.0, 1e200]])
    found, expected = np.zeros((2, 2, len(z)))
    simulated(z_tests, 2, z, *found, threads=64)
    z_tests.plain(z, *expected)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12, atol=1e-15)
    assert not np.signbit(found[1, -2])
