"""linear_gwas."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

from pipeline.errors import DataError, RunError, StageError
from pipeline.kernels.p_values import genomic_inflation
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables, plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import assert_printed, floats, needs_data, read_columns
from tests.stages.genomics.cohorts import (
    COVARIATES,
    HAPMAP3,
    Cohort,
    Data,
    Found,
    assert_found_equal,
    hapmap3,
    hapmap3_sheet,
    run,
    same_for_any_parts,
    small_cohort,
    small_sheet,
)

SCANNED: Tables = {"genotypes": examples.GENOTYPES, "samples": examples.SHEET}
TWO_TRAITS: dict[str, Any] = {"traits": ["ldl", "height"], "covariates": ["age", "sex"]}
EXAMPLES = [
    StageExample(LinearGwas(**TWO_TRAITS), SCANNED, examples.AXES, examples.SCAN),
    StageExample(LinearGwas(**TWO_TRAITS, missing="mean"), SCANNED, examples.AXES, examples.SCAN),
    StageExample(LinearGwas(**TWO_TRAITS), {**SCANNED, "predictions": examples.PREDICTIONS}, examples.AXES, examples.SCAN),
    StageExample(LinearGwas(**TWO_TRAITS, coding="recessive", max_p=0.5, sex="sex"), SCANNED, examples.AXES, examples.SCAN),
]

TEXT = ("chromosome", "effect_allele", "other_allele", "variant_id", "trait", "test", "reason")
COLUMNS = (
    "chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error", "effect_allele_frequency", "p_value",
    "neg_log_10_p_value", "variant_id", "n", "trait", "statistic", "test", "reason",
)  # fmt: skip


def gwas(traits: tuple[str, ...] = ("height",), covariates: tuple[str, ...] = ("age", "sex"), **given: Any) -> LinearGwas:
    return LinearGwas.model_validate({"traits": traits, "covariates": covariates, **given})


def small(sheet: pl.DataFrame, **given: Any) -> Found:
    return run(gwas(**given), {"genotypes": small_cohort(), "samples": sheet})[""]


def assert_plink(found: pl.DataFrame, file: str) -> None:
    """Every printed number of PLINK's table, which has the autosomes alone and names in A1 the allele that it counted."""
    table = read_columns(HAPMAP3 / file)
    rows = found.filter(pl.col("variant_id").is_in(table["ID"].tolist()))
    assert rows["variant_id"].to_list() == table["ID"].tolist()
    assert rows["base_pair_location"].to_list() == table["POS"].astype(int).tolist()
    assert rows["effect_allele"].to_list() == table["ALT"].tolist()
    assert rows["other_allele"].to_list() == table["REF"].tolist()
    flipped = table["A1"] != table["ALT"]
    assert 0 < flipped.sum() < len(flipped)
    sign, frequency = np.where(flipped, -1, 1), rows["effect_allele_frequency"].to_numpy()
    np.testing.assert_array_equal(rows["n"], table["OBS_CT"].astype(int))
    assert_printed(np.where(flipped, 1 - frequency, frequency), table["A1_FREQ"], 1e-9)
    assert_printed(sign * rows["beta"].to_numpy(), table["BETA"], 5e-7)
    assert_printed(rows["standard_error"], table["SE"], 5e-7)
    assert_printed(sign * rows["statistic"].to_numpy(), table["T_STAT"], 5e-6)
    ours, theirs = ("p_value", "P") if "P" in table else ("neg_log_10_p_value", "LOG10_P")
    assert_printed(rows[ours], table[theirs], 5e-6)
    if ours == "p_value":
        chi_square = stats.chi2.isf(floats(table[theirs]), 1)
        assert genomic_inflation(rows[ours].to_numpy()) == pytest.approx(np.median(chi_square) / stats.chi2.median(1), rel=5e-6)


@needs_data
def test_linear_gwas__of_two_traits_in_one_pass_is_what_plink_printed_for_each() -> None:
    sheet = hapmap3_sheet().sample(fraction=1, shuffle=True, seed=5)
    found = run(gwas(("y_lin", "y_null"), COVARIATES), {"genotypes": hapmap3(), "samples": sheet}, 3)[""]
    assert found.frame["trait"].to_list() == ["y_lin", "y_null"] * 14389
    assert found.counts.items() >= {"people_y_lin": 937, "people_y_null": 957}.items()
    for trait in ("y_lin", "y_null"):
        assert_plink(found.frame.filter(trait=trait), f"glm_linear_cov12.{trait}.glm.linear")


@needs_data
def test_linear_gwas__p_values_below_what_a_double_holds_are_plinks() -> None:
    found = run(gwas(("y_strong",), COVARIATES), {"genotypes": hapmap3(), "samples": hapmap3_sheet()}, 2)[""].frame
    assert_plink(found, "glm_linear_strong_log10.y_strong.glm.linear")
    best = found.sort("neg_log_10_p_value", descending=True, nulls_last=True).row(0, named=True)
    assert (best["variant_id"], best["p_value"], round(best["neg_log_10_p_value"], 1)) == ("rs1611699", 0.0, 1073.2)


@pytest.mark.parametrize("given", [{}, {"missing": "mean"}, {"covariates": ()}])
def test_linear_gwas__is_the_same_in_any_parts_and_processes(given: dict[str, Any], workers: ClusterSession) -> None:
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": small_cohort(), "samples": small_sheet()}
    found = same_for_any_parts(gwas(("height", "score"), **given), data, workers)[""]
    dtypes = {
        name: pl.String() if name in TEXT else pl.Int64() if name in {"base_pair_location", "n"} else pl.Float64() for name in COLUMNS
    }
    assert list(found.frame.schema.items()) == list(dtypes.items())
    assert found.frame["variant_id"].to_list() == [name for name in small_cohort().rows.frame["variant_id"] for _ in range(2)]
    # p0 has no row in the sheet, and p3 no height.
    assert found.counts.items() >= {"people_height": 39, "people_score": 40}.items()
    assert set(found.frame["test"]) == {"linear"}


@pytest.mark.parametrize("missing", ["complete_case", "mean"])
def test_linear_gwas__equals_least_squares_of_the_joined_sheet(missing: str) -> None:
    import statsmodels.api as sm

    cohort = small_cohort()
    found = small(small_sheet(), missing=missing).frame
    joined = cohort.people.join(small_sheet(), on="sample_id", how="left", maintain_order="left")
    values = joined.select("height", "age", "sex").cast(pl.Float64).to_numpy()
    for row, codes in list(zip(found.iter_rows(named=True), cohort.codes, strict=True))[::7]:
        if row["chromosome"] in {"X", "MT"}:
            continue
        used = ~np.isnan(values).any(axis=1)
        genotype = np.where(codes == 3, np.nan, codes.astype(float))
        called = used & (codes != 3)
        assert row["effect_allele_frequency"] == pytest.approx(genotype[called].mean() / 2, rel=1e-12)
        if missing == "mean":
            genotype = np.where(codes == 3, genotype[called].mean(), genotype)
        else:
            used = called
        fit = sm.OLS(values[used, 0], np.column_stack([genotype, np.ones(len(codes)), values[:, 1:]])[used]).fit()
        assert row["n"] == fit.nobs
        expected = [fit.params[0], fit.bse[0], fit.tvalues[0], fit.pvalues[0], -np.log10(fit.pvalues[0])]
        names = ("beta", "standard_error", "statistic", "p_value", "neg_log_10_p_value")
        np.testing.assert_allclose([row[name] for name in names], expected, rtol=1e-8)


def test_linear_gwas__does_not_care_for_the_sheets_order_or_strangers() -> None:
    sheet = small_sheet()
    plain = sheet.filter(pl.col("sample_id").str.starts_with("p")).sort("sample_id")
    for other in (plain, sheet.reverse(), sheet.sort("age")):
        assert_found_equal({"": small(other)}, {"": small(sheet)}, "another order")


def test_linear_gwas__reads_a_boolean_trait_and_whole_numbers() -> None:
    sheet = small_sheet().with_columns(ill=pl.col("age") > 52, ill_int=(pl.col("age") > 52).cast(pl.Int8))
    found = small(sheet, traits=("ill", "ill_int")).frame
    assert found.filter(trait="ill").drop("trait").equals(found.filter(trait="ill_int").drop("trait"))


def test_linear_gwas__says_why_a_variant_has_no_result() -> None:
    found = small(small_sheet()).frame.filter(pl.col("chromosome") != "X")
    assert found.filter(pl.col("variant_id") == "rs57")["reason"].to_list() == ["no variation among the called samples"]
    assert found.filter(pl.col("variant_id") == "rs59")["reason"].to_list() == ["too few called samples"]
    without = pl.col("reason").is_not_null()
    numbers = ("beta", "standard_error", "statistic", "p_value", "neg_log_10_p_value")
    assert found.filter(without).select(numbers).null_count().row(0) == (2,) * 5
    assert found.filter(~without).select(numbers).null_count().row(0) == (0,) * 5
    assert not found.select(pl.any_horizontal(pl.selectors.float().is_nan().any())).item()


def constant(sheet: pl.DataFrame, column: str, value: float | None) -> pl.DataFrame:
    return sheet.with_columns(pl.lit(value, pl.Float64).alias(column))


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        (
            pl.concat([small_sheet(), small_sheet()[3:5]]),
            r"stage tested: the samples table names 2 people twice, such as '\w+'. Give one row per person",
        ),
        (
            small_sheet().with_columns(sample_id="FAM_" + pl.col("sample_id")),
            r"stage tested: no sample_id of the samples table \(\['FAM_.*\) is in the genotype table \(\['p0', 'p1'\]\). Are the ids",
        ),
        (constant(small_sheet(), "height", 3.0), "Trait 'height' is constant: 3 for all 40 samples .* Leave it out"),
        (constant(small_sheet(), "height", None), "Trait 'height' is missing for all 41 samples. Leave it out, or look at"),
        (constant(small_sheet(), "height", float("nan")), "Trait 'height' is missing for all 41 samples"),
        (constant(small_sheet(), "age", 3.0), "Covariate 'age' is constant: 3 for all 39 samples .* Leave it out"),
        (constant(small_sheet(), "sex", None), "Covariate 'sex' is missing for all 41 samples"),
        (
            small_sheet().with_columns(sex=2 * pl.col("age") + 1),
            "Covariate 'sex' is a linear combination of the intercept and age .* Leave one of them out",
        ),
        (small_sheet().with_columns(height=3 * pl.col("age")), "Trait 'height' is a linear combination of the covariates"),
        (constant(small_sheet(), "age", float("inf")), "Covariate 'age' is infinite for 40 samples"),
        (
            small_sheet().filter(pl.col("sample_id").is_in(["p1", "p2", "p4", "p9"])),
            "Only 4 of 41 samples have all of height, age, sex; 5 are needed",
        ),
    ],
)
def test_linear_gwas__refuses_a_sheet_that_does_not_fit(sheet: pl.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        small(sheet)


def test_linear_gwas__names_the_stage_where_a_task_finds_the_trait_constant(workers: ClusterSession) -> None:
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": small_cohort(), "samples": constant(small_sheet(), "height", 3.0)}
    with pytest.raises(DataError, match=r"^stage tested: Trait 'height' is constant: 3 for all 40 samples"):
        run(gwas(), data, 2, workers)


def test_linear_gwas__takes_constants_that_belong_to_people_who_are_not_in_the_cohort() -> None:
    sheet = small_sheet()
    stranger = ~pl.col("sample_id").str.starts_with("p")
    with pytest.raises(DataError, match="Trait 'height' is constant: 1 for all 40"):
        small(sheet.with_columns(height=pl.when(stranger).then("height").otherwise(1.0)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"traits": ("hieght",)}, "no column 'hieght'.* Did you mean 'height'"),
        ({"covariates": ("age", "sexx")}, "no column 'sexx'.* Did you mean 'sex'"),
        ({"traits": ("sample_id",)}, "column 'sample_id' is String, and numbers are needed"),
        ({"traits": ("age",)}, "'age' is both a trait and a covariate; leave one of them out"),
        ({"traits": ("height", "height")}, "traits: height, height names a column twice"),
        ({"covariates": ("age", "age")}, "covariates: age, age names a column twice"),
    ],
)
def test_linear_gwas__refuses_at_plan_time(given: dict[str, Any], message: str) -> None:
    tables: dict[str, pl.DataFrame | Part] = {"genotypes": small_cohort().rows, "samples": small_sheet()}
    with pytest.raises(StageError, match=message):
        plan_stage(gwas(**given), tables, {"calls": small_cohort().people})


def test_linear_gwas__refuses_a_genotype_table_without_calls_and_a_sheet_without_ids() -> None:
    with pytest.raises(StageError, match="the table given as 'genotypes' has no calls"):
        plan_stage(gwas(), {"genotypes": small_sheet(), "samples": small_sheet()})
    tables: dict[str, pl.DataFrame | Part] = {"genotypes": small_cohort().rows, "samples": small_sheet().rename({"sample_id": "IID"})}
    with pytest.raises(StageError, match="the table given as 'samples' has no column 'sample_id'"):
        plan_stage(gwas(), tables, {"calls": small_cohort().people})


def test_linear_gwas__of_no_variants_has_no_rows() -> None:
    cohort = small_cohort()
    none = Cohort(Part(cohort.rows.frame[:0], {"calls": cohort.rows.arrays["calls"][:0]}), cohort.people)
    found = run(gwas(), {"genotypes": none, "samples": small_sheet()})[""].frame
    assert found.columns == list(COLUMNS)
    assert found.height == 0


def test_scan__asks_as_it_goes_whether_its_run_still_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: dict[str, Data] = {"genotypes": small_cohort(), "samples": small_sheet()}
    whole, asked = run(gwas(), tables)[""].frame, list[int]()

    def ask() -> None:
        """Keep count, and give up at the tenth."""
        asked.append(len(asked))
        if len(asked) == 10:
            raise RunError("its run was interrupted")

    monkeypatch.setattr("pipeline.stages.genomics._scan.go_on", ask)
    monkeypatch.setattr(LinearGwas, "genotypes_at_once", 41 * 6)
    assert_frame_equal(run(gwas(), tables)[""].frame, whole)
    assert 3 <= len(asked) < 10
    monkeypatch.setattr(LinearGwas, "genotypes_at_once", 1)
    with pytest.raises(RunError, match="its run was interrupted"):
        run(gwas(), tables)


def test_minus_nine__that_several_people_have_is_warned_of() -> None:
    """PLINK writes missing values so: a file of its kind that is read as CSV keeps them as numbers."""
    sheet = small_sheet().with_columns(coded=pl.col("height").fill_null(-9), low=pl.col("age") - 60)
    several = sheet.with_columns(coded=pl.when(pl.int_range(pl.len()) % 9 == 0).then(-9.0).otherwise("coded"))
    stage = LinearGwas(traits=("coded", "low"))
    found = run(stage, {"genotypes": small_cohort(), "samples": several})[""].counts
    people = several.join(small_cohort().people, on="sample_id", how="semi")
    assert found["minus_nine_coded"] == (people["coded"] == -9).sum() > 2
    assert "minus_nine_low" not in found
    (text,) = stage.noticed(found)
    assert text.startswith(f"{found['minus_nine_coded']} people have -9 for the trait 'coded', which is taken as a number")
    assert not stage.noticed(run(stage, {"genotypes": small_cohort(), "samples": sheet})[""].counts)
