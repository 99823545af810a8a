from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from pipeline.kernels.p_values import MEDIAN_CHI_SQUARE, genomic_inflation, scan_p_values, significant, t_test_p_values, z_test_p_values
from tests.kernels.plink_files import REFERENCE, floats, needs_data, read_columns


@pytest.mark.parametrize("df", [2, 5, 50, 997, 100_000])
def test_t_test__equals_scipy_where_scipy_does_not_underflow(df: int) -> None:
    t = np.concatenate([np.geomspace(1e-8, 1e4, 500), -np.geomspace(1e-8, 1e4, 500)])
    p, neg_log_10 = t_test_p_values(t, np.full(len(t), df))
    expected = 2 * stats.t.sf(np.abs(t), df)
    known = expected > 1e-300
    np.testing.assert_allclose(p[known], expected[known], rtol=1e-10)
    np.testing.assert_allclose(neg_log_10[known], -np.log10(expected[known]), rtol=1e-10, atol=1e-15)


def test_t_test__of_one_degree_of_freedom_is_the_cauchy_distribution() -> None:
    t = np.geomspace(1e-9, 1e9, 200)
    np.testing.assert_allclose(t_test_p_values(t, np.ones(1))[0], 2 / np.pi * np.arctan2(1, t), rtol=1e-12)


@pytest.mark.parametrize(("t", "df"), [(60.0, 500), (421.164, 941), (2000.0, 941), (300.0, 100_000), (1e8, 60)])
def test_t_test__keeps_the_logarithm_of_what_underflows(t: float, df: int) -> None:
    """Against the logarithm of the density, integrated from t on by substitution (no incomplete beta)."""
    u = np.linspace(0, 60, 600_001)  # x = t * exp(u / df): the density falls by about exp(-u)
    log_density = stats.t.logpdf(t * np.exp(u / df), df) + u / df + np.log(t / df)
    log_p = np.log(2) + log_density[0] + np.log(np.trapezoid(np.exp(log_density - log_density[0]), u))
    p, neg_log_10 = t_test_p_values(np.array([t]), np.array([df]))
    np.testing.assert_allclose(neg_log_10, -log_p / np.log(10), rtol=1e-8)
    assert p[0] == 0 or np.isclose(np.log(p[0]), log_p, rtol=1e-8)


def test_t_test__is_smooth_where_it_changes_its_formula() -> None:
    t = np.linspace(40, 60, 4001)
    neg_log_10 = t_test_p_values(t, np.array([2000.0]))[1]
    assert neg_log_10[0] < 280 < neg_log_10[-1]
    steps = np.diff(neg_log_10, n=2)
    assert np.abs(steps).max() < 2e-5


def test_t_test__passes_nan_on_and_takes_the_infinite() -> None:
    p, neg_log_10 = t_test_p_values(np.array([np.nan, np.inf, -np.inf, 0.0, 1e300, 2.0, 2.0]), np.array([5, 5, 5, 5, 5, 0, np.nan]))
    assert np.array_equal(p, [np.nan, 0, 0, 1, 0, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(np.isnan(neg_log_10), np.isnan(p))
    assert neg_log_10[1:4].tolist() == [np.inf, np.inf, 0.0]
    assert not np.signbit(neg_log_10[3])


@pytest.mark.parametrize("max_p", [0.0, 1e-300, 1e-250, 1e-9, 0.01, 0.5, 1 - 1e-9])
def test_significant__gives_the_rows_that_all_p_values_would(max_p: float) -> None:
    df = np.array([1, 2, 7, 40, 940, 940, 100_000])
    t = np.random.default_rng(7).normal(size=(7, 60)) * np.geomspace(1e-3, 300, 60)
    t[:, 5] = np.nan
    t[4, 7] = -stats.t.isf(0.005, 940)
    p, neg_log_10 = t_test_p_values(t, df[:, None])
    row, column = np.nonzero(p <= max_p)
    for ours, theirs in zip(significant(t, df, max_p), (row, column, p[row, column], neg_log_10[row, column]), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_significant__of_all_keeps_what_is_nan() -> None:
    row, column, p, neg_log_10 = significant(np.array([[1.0, np.nan], [2.0, 3.0]]), np.array([5, 0]), 1)
    assert (row.tolist(), column.tolist()) == ([0, 0, 1, 1], [0, 1, 0, 1])
    assert np.isnan(p).tolist() == np.isnan(neg_log_10).tolist() == [False, True, True, True]


def test_inflation__is_the_median_chi_square_over_its_expectation() -> None:
    z = np.random.default_rng(2).normal(size=1001) * 1.3
    p = 2 * special.ndtr(-np.abs(z))
    assert genomic_inflation(p) == pytest.approx(np.median(stats.chi2.isf(p, 1)) / stats.chi2.median(1), rel=1e-12)
    assert stats.chi2.median(1) == pytest.approx(MEDIAN_CHI_SQUARE, rel=1e-12)


def test_inflation__leaves_out_what_is_nan() -> None:
    assert genomic_inflation(np.array([np.nan, 0.5, np.nan])) == pytest.approx(1.0, rel=1e-12)
    assert np.isnan(genomic_inflation(np.array([np.nan])))


@needs_data
def test_t_test__is_what_plink_printed_down_to_1e_1073() -> None:
    table = read_columns(REFERENCE / "hapmap3" / "glm_linear_strong_log10.y_strong.glm.linear")
    printed = floats(table["LOG10_P"])
    columns = 13  # 12 covariates and the intercept
    t = floats(table["T_STAT"])
    neg_log_10 = t_test_p_values(t, table["OBS_CT"].astype(int) - columns - 1)[1]
    assert printed.max() > 1073
    # t was printed to six digits: its own rounding moves -log10 p by up to |t| * t / df / ln 10 of it.
    np.testing.assert_allclose(neg_log_10, printed, rtol=1.2e-5, atol=5e-6)


@pytest.mark.parametrize("p_values", [z_test_p_values, scan_p_values], ids=["plain", "compiled"])
def test_z_test__equals_scipy_and_keeps_the_logarithm_of_what_underflows(p_values: Callable[[Any], tuple[Any, Any]]) -> None:
    z = np.concatenate([np.geomspace(1e-8, 37, 400), -np.geomspace(1e-8, 37, 400)])
    p, neg_log_10 = p_values(z)
    np.testing.assert_allclose(p, stats.chi2.sf(z**2, 1), rtol=1e-11)
    np.testing.assert_allclose(neg_log_10, -np.log10(p), rtol=1e-10, atol=1e-15)
    far = np.array([38.0, 60, 1000, 1e8])
    # The asymptotic series of the normal tail (Abramowitz & Stegun 26.2.12).
    series = np.log(1 - 1 / far**2 + 3 / far**4 - 15 / far**6 + 105 / far**8)
    expected = (far**2 / 2 + np.log(far * np.sqrt(np.pi / 2)) - series) / np.log(10)
    np.testing.assert_allclose(p_values(-far)[1], expected, rtol=1e-12)
    odd, logarithms = p_values(np.array([np.inf, np.nan, 0.0, 1e200]))
    np.testing.assert_array_equal(odd, [0, np.nan, 1, 0])
    np.testing.assert_array_equal(np.isnan(logarithms), [False, True, False, False])
    assert (logarithms[0], logarithms[2]) == (np.inf, 0)
