from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray

from pipeline.kernels import linear_regression
from pipeline.kernels.design import Design
from pipeline.kernels.genotype_block import CODES, HAPLOID, GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.linear_regression import (
    COLLINEAR,
    COVARIATES,
    FINE,
    FLAT,
    MONOMORPHIC,
    REASONS,
    TOO_FEW,
    Association,
    Missing,
    associate,
    associate_plain,
)
from pipeline.kernels.p_values import t_test_p_values
from tests.kernels.plink_files import DATA, REFERENCE, assert_printed, chromosomes, floats, needs_data, read_bed, read_columns

Floats = NDArray[np.float64]


@cache
def cohort() -> tuple[NDArray[np.int8], Floats, Floats]:
    """Calls of 80 variants in 137 samples with 0 to 60 % missing, 3 covariates, 4 traits with two samples missing."""
    rng = np.random.default_rng(8)
    frequency = np.concatenate([rng.uniform(0.02, 0.98, 78), [0.01, 0.99]])
    calls = rng.binomial(2, frequency[:, None], (80, 137)).astype(np.int8)
    calls[rng.random(calls.shape) < np.linspace(0, 0.6, 80)[:, None]] = 3
    covariates = rng.normal([50, 0, 1e4], [9, 1, 5], (137, 3))
    traits = rng.normal(size=(137, 4)) + covariates[:, :1] / 20 + np.where(calls[20:24] == 3, 0, calls[20:24]).T
    traits[[0, 77]] = np.nan
    return calls, covariates, traits


def of_calls(calls: NDArray[Any], codes: tuple[float, float] = CODES["additive"]) -> GenotypeBlock:
    return GenotypeBlock(pack(calls), None, calls.shape[1], codes)


def by_statsmodels(calls: NDArray[np.int8], covariates: Floats, trait: Floats, missing: Missing) -> list[float]:
    """n, beta, standard error and t of one variant and one trait by ordinary least squares on the whole matrix."""
    used = ~np.isnan(trait) & ~np.isnan(covariates).any(axis=1)
    genotype = np.where(calls == 3, np.nan, calls.astype(float))
    if missing == "mean":
        genotype = np.where(calls == 3, np.nanmean(genotype[used]), genotype)
    used &= ~np.isnan(genotype)
    fit = sm.OLS(trait[used], np.column_stack([genotype, np.ones(len(trait)), covariates - covariates.mean(axis=0)])[used]).fit()
    return [int(fit.nobs), float(fit.params[0]), float(fit.bse[0]), float(fit.tvalues[0])]


@pytest.mark.parametrize("missing", ["complete_case", "mean"])
def test_associate__equals_least_squares_on_every_variant_and_trait(missing: Missing) -> None:
    calls, covariates, traits = cohort()
    found = associate(of_calls(calls), Design.build(covariates, traits), missing)
    fine = np.flatnonzero((found.reason == FINE).all(axis=1))
    assert len(fine) >= 78
    for variant in fine:
        for trait in range(4):
            expected = by_statsmodels(calls[variant], covariates, traits[:, trait], missing)
            got = [array[variant, trait] for array in (found.beta, found.standard_error, found.statistic)]
            assert found.n[variant] == expected[0]
            assert found.degrees_of_freedom[variant] == expected[0] - 5
            np.testing.assert_allclose(got, expected[1:], rtol=1e-8, atol=1e-12)


def test_associate__several_traits_in_one_pass_equal_one_at_a_time() -> None:
    calls, covariates, traits = cohort()
    together = associate(of_calls(calls), Design.build(covariates, traits))
    for trait in range(4):
        alone = associate(of_calls(calls), Design.build(covariates, traits[:, [trait]]))
        np.testing.assert_allclose(together.statistic[:, trait], alone.statistic[:, 0], rtol=1e-11)
        assert np.array_equal(together.n, alone.n)


def test_associate_plain__does_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, covariates, traits = cohort()
    design = Design.build(covariates, traits)
    whole = associate_plain(of_calls(calls), design)
    monkeypatch.setattr(linear_regression, "BLOCK_BYTES", 4 * 32 * 35 * 7)
    assert_alike(associate_plain(of_calls(calls), design), whole)


def assert_alike(found: Association, expected: Association) -> None:
    for field in fields(Association):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-13)
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("codes", [*CODES.values(), HAPLOID])
@pytest.mark.parametrize("missing", ["complete_case", "mean"])
@pytest.mark.parametrize(("people", "columns", "traits"), [(7, 0, 1), (31, 1, 2), (32, 3, 1), (33, 2, 5), (137, 3, 40), (263, 6, 2)])
def test_associate__compiled_is_the_plain_version(
    people: int, columns: int, traits: int, missing: Missing, codes: tuple[float, float]
) -> None:
    rng = np.random.default_rng(people)
    calls = rng.binomial(2, rng.uniform(0, 1, (50, 1)), (50, people)).astype(np.int8)
    calls[rng.random(calls.shape) < np.linspace(0, 0.7, 50)[:, None]] = 3
    calls[7], calls[8], calls[9] = 3, 2, 0
    values = rng.normal(size=(people, traits))
    values[people // 2] = np.nan
    design = Design.build(rng.normal(size=(people, columns)), values)
    assert_alike(associate(of_calls(calls, codes), design, missing), associate_plain(of_calls(calls, codes), design, missing))


@pytest.mark.parametrize("codes", [*CODES.values(), HAPLOID])
@pytest.mark.parametrize("missing", ["complete_case", "mean"])
def test_associate__of_dosages_that_are_calls_is_that_of_the_calls(missing: Missing, codes: tuple[float, float]) -> None:
    calls, covariates, traits = cohort()
    dosages = np.where(calls == 3, np.nan, calls).astype(np.float32)
    design = Design.build(covariates, traits)
    found = associate(GenotypeBlock(None, dosages, 137, codes), design, missing)
    assert_alike(found, associate(of_calls(calls, codes), design, missing))


def test_associate__of_dosages_equals_least_squares() -> None:
    calls, covariates, traits = cohort()
    dosages = np.where(calls == 3, np.nan, np.clip(calls + np.random.default_rng(2).normal(0, 0.2, calls.shape), 0, 2)).astype(np.float32)
    dosages[0] = 0.7
    found = associate(GenotypeBlock(None, dosages, 137), Design.build(covariates, traits))
    assert found.reason[0].tolist() == [MONOMORPHIC] * 4
    for variant in range(1, 80, 7):
        used = ~np.isnan(dosages[variant]) & ~np.isnan(traits[:, 1])
        columns = np.column_stack([dosages[variant], np.ones(137), covariates - covariates.mean(axis=0)])[used].astype(float)
        fit = sm.OLS(traits[used, 1], columns).fit()
        got = [array[variant, 1] for array in (found.beta, found.standard_error, found.statistic)]
        np.testing.assert_allclose(got, [fit.params[0], fit.bse[0], fit.tvalues[0]], rtol=1e-8)
        assert found.n[variant] == fit.nobs
        assert found.effect_allele_frequency[variant] == pytest.approx(columns[:, 0].mean() / 2, rel=1e-12)


def test_associate__turns_the_sign_with_the_alleles_even_where_alt_is_nearly_fixed() -> None:
    rng = np.random.default_rng(3)
    calls = np.zeros((1, 5000), np.int8)
    calls[0, :3] = [1, 2, 1]
    calls[0, 9] = 3
    design = Design.build(rng.normal(size=(5000, 2)), rng.normal(size=(5000, 1)))
    rare, common = (associate(of_calls(codes), design) for codes in (calls, np.where(calls == 3, 3, 2 - calls).astype(np.int8)))
    np.testing.assert_allclose(common.beta, -rare.beta, rtol=1e-12)
    np.testing.assert_allclose(common.standard_error, rare.standard_error, rtol=1e-12)


def test_associate__gives_a_reason_instead_of_a_number() -> None:
    rng = np.random.default_rng(4)
    sex = np.repeat([0.0, 1.0], 10)
    calls = np.stack(
        [
            rng.integers(0, 3, 20),
            np.zeros(20, int),
            np.ones(20, int),
            2 * sex.astype(int),
            np.full(20, 3),
            np.where(np.arange(20) < 17, 3, np.arange(20) % 3),
            np.where(sex == 1, 3, np.arange(20) % 3),
            np.where(np.arange(20) % 2, 3, 0),
        ]
    )
    found = associate(of_calls(calls.astype(np.int8)), Design.build(sex[:, None], rng.normal(size=(20, 2))))
    assert found.reason[:, 0].tolist() == [FINE, MONOMORPHIC, MONOMORPHIC, COLLINEAR, TOO_FEW, TOO_FEW, COVARIATES, MONOMORPHIC]
    for array in (found.beta, found.standard_error, found.statistic):
        assert np.array_equal(np.isnan(array), found.reason != FINE)
    assert found.n.tolist() == [20, 20, 20, 20, 0, 3, 10, 10]
    assert np.isnan(found.effect_allele_frequency[4])
    assert len(REASONS) == 1 + max(FINE, TOO_FEW, MONOMORPHIC, COLLINEAR, COVARIATES, FLAT)


def test_associate__of_a_perfect_fit_is_finite_and_of_a_trait_that_does_not_vary_nan() -> None:
    calls = np.array([[0, 1, 2, 0, 1, 2, 1, 0, 2, 1], [0, 1, 2, 0, 1, 2, 1, 0, 3, 3]], np.int8)
    flat = np.array([0.0, 0, 0, 0, 0, 0, 0, 0, 5, 7])
    found = associate(of_calls(calls), Design.build(np.zeros((10, 0)), np.stack([3.0 * calls[0] + 1, flat], axis=1)))
    np.testing.assert_allclose(found.beta[:, 0], 3)
    assert (found.statistic[:, 0] > 1e6).all()
    assert np.isfinite(found.statistic[:, 0]).all()
    assert np.isnan(found.statistic).tolist() == [[False, False], [False, True]]
    assert found.reason.tolist() == [[FINE, FINE], [FINE, FLAT]]


def test_associate__takes_no_variants() -> None:
    design = Design.build(np.zeros((9, 0)), np.random.default_rng(1).normal(size=(9, 2)))
    found = associate(GenotypeBlock(np.zeros((0, 3), np.uint8), None, 9), design)
    assert found.beta.shape == (0, 2)


def test_associate__refuses_a_design_of_other_samples() -> None:
    design = Design.build(np.zeros((9, 0)), np.random.default_rng(1).normal(size=(9, 1)))
    with pytest.raises(ValueError, match="The design is of 9 samples, the calls are of 8"):
        associate(GenotypeBlock(np.zeros((1, 2), np.uint8), None, 8), design)


def assert_plink(found: Association, path: Path) -> None:
    """Every printed column. PLINK names the allele it counted in A1, where it is not ALT."""
    table = read_columns(path)
    flipped = table["A1"] != table["ALT"]
    sign = np.where(flipped, -1, 1)
    frequency = found.effect_allele_frequency
    p, neg_log_10 = t_test_p_values(found.statistic[:, 0], found.degrees_of_freedom)
    assert np.array_equal(found.n, table["OBS_CT"].astype(int))
    assert_printed(np.where(flipped, 1 - frequency, frequency), table["A1_FREQ"], 1e-9)
    assert_printed(sign * found.beta[:, 0], table["BETA"], 5e-7)
    assert_printed(found.standard_error[:, 0], table["SE"], 5e-7)
    assert_printed(sign * found.statistic[:, 0], table["T_STAT"], 5e-6)
    assert_printed(*((p, table["P"]) if "P" in table else (neg_log_10, table["LOG10_P"])), 5e-6)


@needs_data
@pytest.mark.parametrize(
    ("file", "trait", "covariates"),
    [
        ("glm_linear_cov12.y_lin.glm.linear", "y_lin", True),
        ("glm_linear_cov12.y_null.glm.linear", "y_null", True),
        ("glm_linear_nocov.y_lin.glm.linear", "y_lin", False),
        ("glm_linear_nocov.y_null.glm.linear", "y_null", False),
        ("glm_linear_strong_log10.y_strong.glm.linear", "y_strong", True),
    ],
)
def test_associate__is_what_plink_printed_for_hapmap3(file: str, trait: str, covariates: bool) -> None:
    packed, n_samples = read_bed(DATA / "hapmap3" / "data")
    autosomes = np.isin(chromosomes(DATA / "hapmap3" / "data"), [str(number) for number in range(1, 23)])
    folder = REFERENCE / "hapmap3"
    values = [floats(column) for column in list(read_columns(folder / "hm3.covar12").values())[2:]]
    matrix = np.stack(values, axis=1) if covariates else np.zeros((n_samples, 0))
    design = Design.build(matrix, floats(read_columns(folder / "hm3.pheno")[trait])[:, None])
    assert_plink(associate(GenotypeBlock(packed[autosomes], None, n_samples), design), folder / file)


@needs_data
@pytest.mark.parametrize("trait", ["Y1", "Y2"])
def test_associate__is_what_plink_printed_for_the_regenie_example(trait: str) -> None:
    packed, n_samples = read_bed(DATA / "regenie_example" / "example")
    covariates = read_columns(DATA / "regenie_example" / "covariates.txt")
    matrix = np.stack([floats(covariates[name]) for name in ("V1", "V2", "V3")], axis=1)
    design = Design.build(matrix, floats(read_columns(DATA / "regenie_example" / "phenotype.txt")[trait])[:, None])
    assert_plink(
        associate(GenotypeBlock(packed, None, n_samples), design), REFERENCE / "regenie_example" / f"glm_linear.{trait}.glm.linear"
    )
