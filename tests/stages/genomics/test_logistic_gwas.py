"""logistic_gwas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.logistic_gwas import LogisticGwas
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables, plan_stage, run_parts
from tests import example_tables as examples
from tests.kernels.plink_files import floats, half_digit, needs_data, read_columns
from tests.stages.genomics.cohorts import (
    COVARIATES,
    HAPMAP3,
    Cohort,
    Found,
    assert_found_equal,
    hapmap3,
    hapmap3_sheet,
    run,
    same_for_any_parts,
    small_cohort,
    small_sheet,
)

DIAGNOSED: Tables = {
    "genotypes": examples.GENOTYPES,
    "samples": examples.SHEET.with_columns(ill=pl.col("ldl") > 1, tall=(pl.col("height") > 0) + 1),
}
TWO_DISEASES: dict[str, Any] = {"traits": ["ill", "tall"], "covariates": ["age"]}
REFITTED = dict.fromkeys(examples.SCAN, 1e-7)
EXAMPLES = [
    StageExample(LogisticGwas(**TWO_DISEASES, screen=0.5), DIAGNOSED, examples.AXES, REFITTED),
    StageExample(LogisticGwas(**TWO_DISEASES, method="wald", screen=1, max_p=0.9), DIAGNOSED, examples.AXES, REFITTED),
    StageExample(LogisticGwas(**TWO_DISEASES, method="wald", screen=0.5, calibrate=2), DIAGNOSED, examples.AXES, REFITTED),
    StageExample(
        LogisticGwas(**TWO_DISEASES, screen=0.5, calibrate=2),
        {**DIAGNOSED, "predictions": examples.PREDICTIONS.with_columns(pl.col("trait").replace({"ldl": "ill", "height": "tall"}))},
        examples.AXES,
        dict.fromkeys(examples.SCAN, 1e-6),
    ),
]

# variant, allele counted, its frequency, whether by Firth, n, beta, standard error, z, p: what PLINK 2.00a3.5 printed on X and MT with
# `--glm omit-ref hide-covar firth-fallback` for y_bin and the covariates age, PC1, PC2, PC3; sex comes from the .fam.
SEX_CHROMOSOMES = """
rs2885176 T 0.499478 N 957 -0.0157461 0.0883582 -0.178208 0.85856
rs1935630 C 0.497388 N 957 -0.02911 0.0893934 -0.325639 0.744697
rs966373 A 0.498433 N 957 -0.100594 0.0868415 -1.15836 0.246716
rs5976194 G 0.503657 N 957 0.0785537 0.0906508 0.866552 0.386187
rs28600732 A 0.014629 N 957 -0.707979 0.670537 -1.05584 0.291042
rs28358270 A 0.0188088 N 957 0.197223 0.549578 0.358864 0.719697
rs28357682 A 0.0647858 N 957 -0.101182 0.285569 -0.354317 0.723101
rs28573847 A 0.474399 N 957 -0.390058 0.176267 -2.21288 0.0269057
"""
NUMBERS = ("beta", "standard_error", "statistic", "p_value", "neg_log_10_p_value")


def gwas(traits: tuple[str, ...] = ("ill",), covariates: tuple[str, ...] = ("age",), **given: Any) -> LogisticGwas:
    return LogisticGwas.model_validate({"traits": traits, "covariates": covariates, **given})


def sheet() -> pl.DataFrame:
    """The small cohort's sheet with two binary traits, one of them unknown for somebody; strangers have other values."""
    tall = (pl.col("height") + (pl.col("age") % 9) > 174).cast(pl.Int8)
    stranger = ~pl.col("sample_id").str.starts_with("p")
    ill = pl.when(stranger).then(pl.lit(7, pl.Int8)).otherwise(tall + 1)
    return small_sheet().with_columns(ill=ill, rare=pl.when(stranger).then(None).otherwise(pl.col("age") % 5 < 1))


def small(rows: pl.DataFrame | None = None, **given: Any) -> Found:
    return run(gwas(**given), {"genotypes": small_cohort(), "samples": sheet() if rows is None else rows})[""]


@pytest.mark.parametrize(
    "given", [{}, {"method": "wald", "screen": 1}, {"method": "firth", "screen": 0.3, "coding": "dominant"}, {"max_p": 0.4}]
)
def test_logistic_gwas__is_the_same_in_any_parts_and_processes(given: dict[str, Any], workers: ClusterSession) -> None:
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": small_cohort(), "samples": sheet()}
    found = same_for_any_parts(gwas(("ill", "rare"), **given), data, workers)[""]
    coding = " dominant" if "coding" in given else ""
    assert {*found.frame["test"]} <= {f"{test}{coding}" for test in ("score", "wald", "firth")}
    assert (found.counts["people_ill"], found.counts["people_rare"]) == (39, 40)
    if "max_p" in given:
        assert 0 < found.frame.height < 120
        assert (found.frame["p_value"] <= 0.4).all()
    else:
        named = [name for name in small_cohort().rows.frame["variant_id"] for _ in range(2)]
        assert found.frame["variant_id"].to_list() == named
        assert found.frame["trait"].to_list() == ["ill", "rare"] * 60


def test_logistic_gwas__of_a_site_that_has_cases_alone_gives_firths_fits() -> None:
    rows = sheet().with_columns(site=((pl.col("ill") == 2) & (pl.int_range(pl.len()) % 3 == 0)).cast(pl.Int8))
    assert 0 < rows["site"].sum() < (rows["ill"] == 2).sum()
    found = small(rows, covariates=("age", "site"), screen=1, calibrate=2).frame
    assert {*found.filter(pl.col("reason").is_null())["test"]} == {"firth"}
    assert found.filter(pl.col("reason").is_null())["standard_error"].is_finite().all()


def test_logistic_gwas__equals_statsmodels_on_the_joined_sheet() -> None:
    import statsmodels.api as sm

    cohort = small_cohort()
    found = small(method="wald", screen=1).frame
    joined = cohort.people.join(sheet(), on="sample_id", how="left", maintain_order="left")
    values = joined.select(pl.col("ill") - 1, pl.col("age") / 10).cast(pl.Float64).to_numpy()
    fitted = 0
    for row, codes in zip(found.iter_rows(named=True), cohort.codes, strict=True):
        used = (codes != 3) & ~np.isnan(values).any(axis=1)
        if row["reason"] is not None or row["chromosome"] in {"X", "MT"}:
            continue
        columns = np.column_stack([codes[used].astype(float), np.ones(used.sum()), values[used, 1:]])
        fit = sm.GLM(values[used, 0], columns, family=sm.families.Binomial()).fit(tol=1e-13)
        expected = [fit.params[0], fit.bse[0], fit.tvalues[0], fit.pvalues[0], -np.log10(fit.pvalues[0])]
        np.testing.assert_allclose([row[name] for name in NUMBERS], expected, rtol=1e-6, atol=1e-9)
        assert (row["n"], row["test"]) == (fit.nobs, "wald")
        fitted += 1
    assert fitted > 20


def test_logistic_gwas__names_the_test_of_each_row() -> None:
    score, some, firth = (small(screen=screen, method=method).frame for screen, method in ((0, "wald"), (0.2, "wald"), (1, "firth")))
    assert {*score["test"]} == {"score"}
    assert {*firth.filter(pl.col("reason").is_null())["test"]} == {"firth"}
    notable = score["p_value"].fill_null(1) <= 0.2
    assert 0 < notable.sum() < 60
    assert some["test"].to_list() == ["wald" if refitted else "score" for refitted in notable]
    assert some.filter(~notable).equals(score.filter(~notable))
    np.testing.assert_allclose(score["p_value"].drop_nulls(), 2 * norm.sf(abs(score["statistic"].drop_nulls())), rtol=1e-12)


def test_logistic_gwas__says_where_the_likelihood_ratio_is_the_test() -> None:
    wald, ratio = (small(method="firth_fallback", screen=1, p=p).frame for p in ("wald", "lrt"))
    by_firth = wald["test"] == "firth"
    assert by_firth.any()
    assert ratio["test"].to_list() == wald["test"].replace("firth", "firth_lrt").to_list()
    assert ratio.filter(~by_firth).equals(wald.filter(~by_firth))
    same = ["variant_id", "beta", "standard_error", "n", "reason"]
    assert ratio.select(same).equals(wald.select(same))
    tested = ratio.filter(by_firth)
    np.testing.assert_allclose(tested["p_value"], 2 * norm.sf(abs(tested["statistic"])), rtol=1e-12)
    assert (tested["statistic"] != wald.filter(by_firth)["statistic"]).all()


def test_logistic_gwas__says_why_a_variant_has_no_result() -> None:
    # The variant before the last three has one carrier of ALT, who is a case or a control.
    found = {method: small(method=method, screen=1).frame.filter(pl.col("chromosome") == "1") for method in ("wald", "firth_fallback")}
    reasons = {method: dict(frame.select("variant_id", "reason").iter_rows()) for method, frame in found.items()}
    assert reasons["wald"]["rs57"] == "no variation among the called samples"
    assert reasons["wald"]["rs59"] == "too few called samples"
    assert reasons["wald"]["rs58"].startswith("no finite estimate")
    assert reasons["firth_fallback"]["rs58"] is None
    for frame in found.values():
        without = pl.col("reason").is_not_null()
        assert frame.filter(without).select(pl.all_horizontal(pl.col(NUMBERS).is_null()).all()).item()
        assert frame.filter(~without).select(NUMBERS).null_count().row(0) == (0,) * 5
    fallback = found["firth_fallback"].filter(variant_id="rs58")
    assert fallback["test"].to_list() == ["firth"]


def test_logistic_gwas__takes_booleans_and_both_codings_and_any_order() -> None:
    numbers = small(sheet()).frame
    recoded = sheet().with_columns(ill=pl.when(pl.col("ill") < 3).then(pl.col("ill") == 2))
    assert_found_equal({"": small(recoded)}, {"": small(sheet())}, "booleans")
    assert small(sheet().sort("age")).frame.equals(numbers)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.col("age").round(), r"Trait 'ill' has \d+ values \(.*\.\.\.\), and a binary trait is 0 \(control\) and 1 \(case\), or 1 and 2"),
        (pl.when(pl.col("age") > 60).then(0).otherwise("ill"), r"^stage tested: Trait 'ill' has 3 values \(0, 1, 2\)"),
        (pl.lit(2), "Trait 'ill' is constant: 2 wherever it is known. Leave it out"),
        (pl.col("age") > 50, "Trait 'ill': the covariates tell .* all of its"),
    ],
)
def test_logistic_gwas__refuses_a_trait_that_is_not_binary(column: pl.Expr, message: str, workers: ClusterSession) -> None:
    rows = sheet().with_columns(ill=column)
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": small_cohort(), "samples": rows}
    with pytest.raises(DataError, match=message):
        run(gwas(), data, 2, workers)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"traits": ("il",)}, "no column 'il'.* Did you mean 'ill'"),
        ({"traits": ("sample_id",)}, "column 'sample_id' is String, and numbers are needed"),
        ({"traits": ("age",)}, "'age' is both a trait and a covariate"),
        ({"p": "lrt", "method": "wald"}, "the likelihood ratio tests Firth's rows, and method: wald gives none; choose firth"),
    ],
)
def test_logistic_gwas__refuses_at_plan_time(given: dict[str, Any], message: str) -> None:
    tables: dict[str, pl.DataFrame | Part] = {"genotypes": small_cohort().rows, "samples": sheet()}
    with pytest.raises(StageError, match=message):
        plan_stage(gwas(**given), tables, {"calls": small_cohort().people})


@pytest.mark.parametrize("given", [{"method": "ridge"}, {"screen": 1.5}, {"screen": -0.1}])
def test_logistic_gwas__refuses_other_methods_and_screens(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        gwas(**given)


def test_logistic_gwas__of_no_variants_has_no_rows() -> None:
    cohort = small_cohort()
    none = Cohort(Part(cohort.rows.frame[:0], {"calls": cohort.rows.arrays["calls"][:0]}), cohort.people)
    assert run(gwas(), {"genotypes": none, "samples": sheet()})[""].frame.height == 0


def test_logistic_gwas__loads_its_kernels_beforehand() -> None:
    for method in ("wald", "firth", "firth_fallback"):
        gwas(method=method).prepare()
    assert LogisticGwas.tests[:4] == ("score", "wald", "firth", "firth_lrt")


@needs_data
@pytest.mark.parametrize("trait", ["y_bin", pytest.param("y_rare", marks=pytest.mark.soak)])
def test_logistic_gwas__with_everything_refitted_is_plinks_hybrid(trait: str) -> None:
    traits = read_columns(HAPMAP3 / "hm3.pheno")
    column = pl.DataFrame({"sample_id": traits["IID"].tolist(), trait: floats(traits[trait])})
    found = run(gwas((trait,), COVARIATES, screen=1), {"genotypes": hapmap3(), "samples": hapmap3_sheet().join(column, on="sample_id")}, 3)
    table = read_columns(HAPMAP3 / f"glm_logistic_firthfallback.{trait}.glm.logistic.hybrid")
    frame = found[""].frame.filter(pl.col("variant_id").is_in(table["ID"].tolist()))
    assert frame["variant_id"].to_list() == table["ID"].tolist()
    assert frame["effect_allele"].to_list() == table["ALT"].tolist()
    # With missing calls PLINK stops early, and for Firth too: see the kernel's tests.
    exact = ((frame["n"] == 957) & (frame["test"] == "wald")).to_numpy()
    assert exact.sum() > 6_000
    sign = np.where(table["A1"] != table["ALT"], -1, 1)
    errors, rounding = floats(table["SE"]), half_digit(table["BETA"])
    off = np.abs(sign * frame["beta"].to_numpy() - floats(table["BETA"])) - rounding
    assert (off / errors)[exact].max() < 8e-6
    off = np.abs(frame["standard_error"].to_numpy() - errors) - half_digit(table["SE"])
    assert (off / errors)[exact].max() < 3e-6
    np.testing.assert_allclose((sign * frame["statistic"].to_numpy())[exact], floats(table["Z_STAT"])[exact], rtol=5e-6, atol=2e-5)
    np.testing.assert_allclose(frame["p_value"].to_numpy()[exact], floats(table["P"])[exact], rtol=1e-4)


@needs_data
def test_logistic_gwas__on_x_and_mt_is_plinks() -> None:
    traits = read_columns(HAPMAP3 / "hm3.pheno")
    column = pl.DataFrame({"sample_id": traits["IID"].tolist(), "y_bin": floats(traits["y_bin"])})
    stage = gwas(("y_bin",), ("age", "PC1", "PC2", "PC3"), screen=1)
    found = run(stage, {"genotypes": hapmap3(), "samples": hapmap3_sheet().join(column, on="sample_id")})[""].frame
    rows = {row["variant_id"]: row for row in found.iter_rows(named=True)}
    for line in SEX_CHROMOSOMES.split("\n")[1:-1]:
        variant, allele, frequency, firth, n, *printed = line.split()
        row, (beta, error, z, p) = rows[variant], map(float, printed)
        assert (row["effect_allele"], row["n"], row["test"]) == (allele, int(n), "firth" if firth == "Y" else "wald")
        assert row["effect_allele_frequency"] == pytest.approx(float(frequency), rel=5e-6)
        assert row["beta"] == pytest.approx(beta, rel=5e-6, abs=1e-5 * error)
        assert (row["standard_error"], row["p_value"]) == (pytest.approx(error, rel=8e-6), pytest.approx(p, rel=2e-5))
        assert row["statistic"] == pytest.approx(z, rel=1e-5, abs=1e-5)


def test_logistic_gwas__of_dosages_that_are_whole_is_that_of_calls() -> None:
    cohort = small_cohort()
    dosages = np.where(cohort.codes == 3, np.nan, cohort.codes).astype(np.float32)
    genotypes = Part(cohort.rows.frame, {"alt_dosages": dosages})
    (found,) = run_parts(gwas(), {"genotypes": [genotypes], "samples": [Part(sheet())]}, axes={"alt_dosages": cohort.people})[""]
    assert_found_equal({"": Found(found, {}, {})}, {"": replace(small(), counts={})}, "dosages")
