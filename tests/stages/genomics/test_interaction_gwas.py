"""interaction_gwas, beside PLINK 2.00a3.5 on HapMap 3, and statsmodels variant by variant."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import special, stats

from pipeline.errors import StageError
from pipeline.kernels.genotypes import unpack
from pipeline.kernels.p_values import chi_square_p_values, f_test_p_values
from pipeline.stages.genomics.interaction_gwas import InteractionGwas
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables, plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import Cohort, hapmap3, hapmap3_sheet, run, same_for_any_parts, small_cohort, small_sheet

SCANNED: Tables = {"genotypes": examples.GENOTYPES, "samples": examples.SHEET}
EXAMPLES = [
    StageExample(InteractionGwas(traits=("ldl",), covariates=("age",), interactions=("age",)), SCANNED, examples.AXES, examples.SCAN),
    StageExample(InteractionGwas(traits=("ldl",), genotypic=True), SCANNED, examples.AXES, examples.SCAN),
]
# plink2 --glm MODEL no-firth --tests TERMS, covariates age and sex01: BETA (log OR), SE, T or Z and P of rs4970383; F, P of all terms
LINEAR = {
    "genotypic": [(-0.0711221, 0.0878006, -0.810041, 0.418123), (-0.100249, 0.116566, -0.860019, 0.39), (1.28155, 0.278093)],
    "interaction": [
        (-0.206889, 0.258959, -0.798925, 0.424538),
        (0.00239847, 0.00533943, 0.4492, 0.653392),
        (-0.00797845, 0.156559, -0.0509612, 0.959367),
        (0.674691, 0.567653),
    ],
}
BINARY = {
    "genotypic": [(np.log(0.865238), 0.122772, -1.17902, 0.238389), (np.log(0.931714), 0.163078, -0.433716, 0.664494), (1.34259,)],
    "interaction": [
        (np.log(0.812268), 0.363675, -0.571733, 0.567503),
        (np.log(0.999923), 0.00747497, -0.0102348, 0.991834),
        (np.log(1.07487), 0.219075, 0.329559, 0.741734),
        (0.858478,),
    ],
}
MODELS: dict[str, dict[str, Any]] = {"genotypic": {"genotypic": True}, "interaction": {"interactions": ("age", "sex01")}}


def of_variant(model: str, trait: str, regression: str, **given: Any) -> pl.DataFrame:
    cohort = hapmap3()
    rows = cohort.rows.frame["variant_id"].is_in(["rs4970383", "rs3748592"]).arg_true().to_numpy()
    part = type(cohort.rows)(cohort.rows.frame[rows], {"calls": cohort.rows.arrays["calls"][rows]})
    asked = {"traits": (trait,), "covariates": ("age", "sex01"), "regression": regression, **MODELS[model], **given}
    found = run(InteractionGwas.model_validate(asked), {"genotypes": Cohort(part, cohort.people), "samples": hapmap3_sheet()})
    return found[""].frame.filter(pl.col("variant_id") == "rs4970383")


@needs_data
@pytest.mark.parametrize("model", [*MODELS])
def test_quantitative__terms_and_their_joint_test_are_plinks(model: str) -> None:
    found = of_variant(model, "y_lin", "linear")
    rows = found.select("beta", "standard_error", "statistic", "p_value").rows()
    *terms, joint = LINEAR[model]
    for row, printed in zip(rows[:-1], terms, strict=True):
        assert row == pytest.approx(printed, rel=1e-5)
    assert (rows[-1][0], *rows[-1][2:]) == (None, *(pytest.approx(value, rel=1e-5) for value in joint))
    assert found["n"].to_list() == [937] * len(rows)
    assert found["test"].to_list()[-1] == "joint"


@needs_data
@pytest.mark.parametrize("model", [*MODELS])
def test_binary__terms_are_plinks_and_its_joint_f_is_the_chi_square_by_its_terms(model: str) -> None:
    found = of_variant(model, "y_bin", "logistic")
    rows = found.select("beta", "standard_error", "statistic", "p_value").rows()
    *terms, joint = BINARY[model]
    for row, printed in zip(rows[:-1], terms, strict=True):
        assert row == pytest.approx(printed, rel=1e-3, abs=1e-6)  # PLINK prints six digits of the odds ratio, and ends its steps early
    assert rows[-1][2] / len(terms) == pytest.approx(joint[0], rel=1e-4)
    assert rows[-1][3] == pytest.approx(stats.chi2.sf(rows[-1][2], len(terms)), rel=1e-9)


def columns_of(genotype: Any, rows: pl.DataFrame, *, genotypic: bool) -> Any:
    """Intercept, age and sex, then the variant's terms in the stage's order."""
    own = [genotype, *([np.minimum(genotype, 2 - genotype)] if genotypic else [])]
    each = [one * by for by in (np.ones(rows.height), rows["age"].to_numpy()) for one in own]
    return np.column_stack([np.ones(rows.height), rows.select("age", "sex").to_numpy().astype(float), *each])


def need_same(ours: pl.DataFrame, columns: Any, values: Any, *, logistic: bool) -> None:
    """A variant's rows have statsmodels' numbers: the last four columns, and their joint test."""
    import statsmodels.api as sm

    fit = sm.Logit(values, columns).fit(disp=0, method="newton", tol=1e-12, maxiter=100) if logistic else sm.OLS(values, columns).fit()
    joint = fit.wald_test(np.eye(7)[3:], use_f=not logistic, scalar=True)
    assert ours["beta"].to_list()[:-1] == pytest.approx(fit.params[3:].tolist(), rel=1e-6, abs=1e-9)
    assert ours["standard_error"].to_list()[:-1] == pytest.approx(fit.bse[3:].tolist(), rel=1e-6)
    assert ours["p_value"].to_list() == pytest.approx([*fit.pvalues[3:].tolist(), float(joint.pvalue)], rel=1e-6)
    assert ours["statistic"].to_list()[-1] == pytest.approx(float(joint.statistic), rel=1e-6)


@pytest.mark.parametrize("kind", ["calls", "dosages"])
@pytest.mark.parametrize("regression", ["linear", "logistic"])
def test_every_variant__has_statsmodels_numbers(regression: str, kind: str) -> None:
    cohort, random = small_cohort(40, 120), np.random.default_rng(3)
    genotypes = unpack(cohort.rows.arrays["calls"], 120, np.float64, np.nan)
    part = cohort.rows
    if kind == "dosages":
        genotypes = np.clip(genotypes + random.uniform(-0.3, 0.3, genotypes.shape), 0, 2).astype(np.float32).astype(float)
        part = type(part)(part.frame, {"alt_dosages": genotypes.astype(np.float32)})
    people = Cohort(part, cohort.people.with_columns(sex=pl.Series(np.arange(120) % 2 + 1, dtype=pl.Int8)))
    rows = cohort.people.with_columns(age=random.normal(50, 9, 120), sex=np.arange(120) % 2 + 1)
    trait = 0.4 * np.nan_to_num(genotypes[0]) * (rows["age"].to_numpy() - 50) / 9 + random.normal(size=120)
    rows = rows.with_columns(trait=pl.Series(trait > 0).cast(pl.Int8) if regression == "logistic" else pl.Series(trait))
    stage = InteractionGwas(
        traits=("trait",),
        covariates=("age", "sex"),
        interactions=("age",),
        genotypic=True,
        regression=regression,
    )
    found = run(stage, {"genotypes": people, "samples": rows}, 3)[""].frame
    checked = 0
    for place, name in enumerate(part.frame["variant_id"]):
        ours = found.filter(pl.col("variant_id") == name)
        if ours["reason"][0] is not None:
            assert ours.select("beta", "p_value").null_count().row(0) == (5, 5)
            continue
        called = ~np.isnan(genotypes[place])
        columns, values = columns_of(genotypes[place][called], rows.filter(called), genotypic=True), rows["trait"].to_numpy()[called]
        need_same(ours, columns, values, logistic=regression == "logistic")
        assert ours["n"].to_list() == [called.sum()] * 5
        checked += 1
    assert checked >= 20
    on_mt = found.filter(pl.col("chromosome") == "MT")
    assert {*on_mt["reason"]} == {"dominant and recessive coding need two copies of the chromosome"}
    assert on_mt["test"].n_unique() == 5


def test_every_part_and_process__gives_the_same(workers: ClusterSession) -> None:
    stage = InteractionGwas(traits=("height", "score"), covariates=("age", "sex"), interactions=("sex",), max_p=0.5)
    found = same_for_any_parts(stage, {"genotypes": small_cohort(), "samples": small_sheet()}, workers)[""].frame
    joint = found.filter(pl.col("test") == "joint")
    assert 0 < joint.height == found.height / 3
    assert joint["p_value"].max() <= 0.5  # type: ignore[operator]


def test_separated__variants_have_no_result_and_say_why() -> None:
    cohort, rows = small_cohort(12, 60), small_cohort(12, 60).people
    calls = unpack(cohort.rows.arrays["calls"], 60)[0]
    sheet = rows.with_columns(case=pl.Series((calls > 0).astype(np.int64)), age=np.random.default_rng(2).normal(size=60))
    stage = InteractionGwas(traits=("case",), covariates=("age",), interactions=("age",), regression="logistic")
    found = run(stage, {"genotypes": cohort, "samples": sheet})[""].frame
    assert {*found.filter(pl.col("variant_id") == "rs0")["reason"]} == {"no finite maximum of the likelihood"}
    missing = {*found.filter(pl.col("variant_id") == "rs11")["reason"]}
    assert missing == {"too few called samples"}


@pytest.mark.parametrize("terms", [1, 2, 3, 5])
def test_joint_p_values__are_scipys_and_go_on_where_a_float_ends(terms: int) -> None:
    values = np.array([0.0, 0.3, 1.0, 5.0, 40.0, 200.0])
    p_value, logarithm = f_test_p_values(values, terms, np.full(6, 900.0))
    assert p_value == pytest.approx(stats.f.sf(values, terms, 900), rel=1e-9)
    assert 10.0**-logarithm == pytest.approx(p_value, rel=1e-9)
    p_value, logarithm = chi_square_p_values(values, terms)
    assert p_value == pytest.approx(stats.chi2.sf(values, terms), rel=1e-9)
    large = np.array([1_300.0, 5_000.0])
    a, expected = (0.5, np.log(2) + stats.norm.logsf(np.sqrt(large))) if terms % 2 else (1.0, -large / 2)
    while a < terms / 2:  # Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1)
        expected, a = np.logaddexp(expected, a * np.log(large / 2) - large / 2 - special.gammaln(a + 1)), a + 1
    assert chi_square_p_values(large, terms)[1] == pytest.approx(-expected / np.log(10), rel=1e-12)
    narrow = f_test_p_values(np.array([500.0, 1e12]), 2, np.array([2_000.0, 90.0]))[1]  # of two terms it is (1 + 2 f / df)^(-df / 2)
    assert narrow == pytest.approx([1_000 * np.log10(1.5), 45 * np.log10(1 + 1e12 / 45)], rel=1e-12)
    assert np.isnan(chi_square_p_values(np.array([np.nan]), terms)[1]).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give interactions, or genotypic: true"),
        ({"interactions": ("bmi",)}, "interactions names 'bmi', which is no covariate"),
        ({"genotypic": True, "coding": "dominant"}, "genotypic is of additive coding"),
    ],
)
def test_stage__refuses_what_makes_no_term(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        InteractionGwas.model_validate({"traits": ("height",), "covariates": ("age",), **given})


def test_stage__refuses_words_and_traits_of_many_values() -> None:
    words = small_sheet().with_columns(site=pl.lit("a"))
    stage = InteractionGwas(traits=("height",), covariates=("site",), interactions=("site",))
    with pytest.raises(StageError, match="'site' is words, and effects are multiplied with numbers"):
        plan_stage(stage, {"genotypes": examples.GENOTYPES, "samples": words}, examples.AXES)
    binary = InteractionGwas(traits=("height",), covariates=("age",), interactions=("age",), regression="logistic")
    with pytest.raises(Exception, match="trait 'height' has 39 values, and a logistic regression is of two"):
        run(binary, {"genotypes": small_cohort(), "samples": small_sheet()})
