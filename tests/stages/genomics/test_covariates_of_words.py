"""Covariates that are words: the columns of 0 and 1 that statsmodels' formulas make of them, in every scan."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stage import Stage
from pipeline.stages.genomics.gwas_moments import GwasMoments
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.stages.genomics.logistic_gwas import LogisticGwas
from pipeline.stages.genomics.whole_genome_regression import WholeGenomeRegression
from pipeline.testing.stages import plan_stage
from tests.stages.genomics.cohorts import run, small_cohort, small_sheet

SITES = np.random.default_rng(3).choice(["oslo", "bergen", "tromsø"], small_sheet().height, p=[0.3, 0.5, 0.2])
SHEET = small_sheet().with_columns(site=pl.Series(SITES), ill=(pl.col("height") > 170).cast(pl.Float64))
PLAIN = SHEET.with_columns((pl.col("site") == word).cast(pl.Float64).alias(f"site={word}") for word in ("oslo", "tromsø"))
TRAIT: dict[str, Any] = {"traits": ["height"]}


@pytest.mark.parametrize(
    "stage",
    [LinearGwas(**TRAIT), LogisticGwas(traits=("ill",), method="wald", screen=1.0), WholeGenomeRegression(**TRAIT, block_size=20, folds=2)],
    ids=lambda stage: stage.name,
)
def test_words__count_each_against_the_most_frequent(stage: Stage) -> None:
    given = {"genotypes": small_cohort()}
    words, numbers = ("age", "site"), ("age", "site=oslo", "site=tromsø")
    found = run(stage.model_copy(update={"covariates": words}), {**given, "samples": SHEET})[""]
    expected = run(stage.model_copy(update={"covariates": numbers}), {**given, "samples": PLAIN})[""]
    assert found.frame.equals(expected.frame)


def test_words__are_those_of_statsmodels() -> None:
    import statsmodels.formula.api as formulas

    cohort = small_cohort()
    found = run(LinearGwas(**TRAIT, covariates=("age", "site")), {"genotypes": cohort, "samples": SHEET})[""].frame
    row = found.row(0, named=True)
    place = cohort.rows.frame["variant_id"].to_list().index(row["variant_id"])
    codes = pl.Series(cohort.codes[place].astype(float)).replace(3.0, None)
    joined = cohort.people.with_columns(g=codes).join(SHEET, on="sample_id").drop_nulls(["g", "height", "age"])
    data = {name: joined[name].to_numpy() for name in ("height", "g", "age", "site")}
    fit = formulas.ols("height ~ g + age + C(site)", data).fit()
    assert (row["beta"], row["standard_error"], row["n"]) == pytest.approx((fit.params["g"], fit.bse["g"], len(joined)), rel=1e-9)


def test_a_word_that_nobody_with_a_trait_has__is_no_column() -> None:
    lacking = SHEET.with_columns(score=pl.when(pl.col("site") != "tromsø").then("score"))
    found = run(LinearGwas(traits=("height", "score"), covariates=("site",)), {"genotypes": small_cohort(), "samples": lacking})[""]
    alone = run(LinearGwas(traits=("score",), covariates=("site",)), {"genotypes": small_cohort(), "samples": lacking})[""]
    assert found.frame.filter(trait="score").equals(alone.frame)
    assert alone.frame["statistic"].drop_nulls().len() > 40


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.lit("oslo"), "covariate 'site' is 'oslo' for everybody who has the traits"),
        (
            pl.int_range(pl.len()).cast(pl.String),
            "covariate 'site' has 39 different words, such as .*, and at most 30 are taken. Is it an id",
        ),
    ],
)
def test_words_that_tell_nothing__are_refused(monkeypatch: pytest.MonkeyPatch, column: pl.Expr, message: str) -> None:
    monkeypatch.setattr("pipeline.stages.genomics._sheet.MOST_WORDS", 30)
    with pytest.raises(DataError, match=message):
        run(LinearGwas(**TRAIT, covariates=("site",)), {"genotypes": small_cohort(), "samples": SHEET.with_columns(site=column)})


def test_moments_of_several_cohorts__take_numbers_alone() -> None:
    stage = GwasMoments(cohort="first", **TRAIT, covariates=("site",))
    with pytest.raises(StageError, match="column 'site' is String, and numbers are needed"):
        plan_stage(stage, {"genotypes": small_cohort().rows, "samples": SHEET}, {"calls": small_cohort().people})


def test_the_ids_of_people__are_no_covariate() -> None:
    tables: dict[str, Any] = {"genotypes": small_cohort().rows, "samples": SHEET}
    with pytest.raises(StageError, match=r"'sample_id' is who people are, and explains nothing\. Leave it out"):
        plan_stage(LinearGwas(**TRAIT, covariates=("age", "sample_id")), tables, {"calls": small_cohort().people})
