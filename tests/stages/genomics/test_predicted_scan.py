"""linear_gwas with the predictions of a whole-genome regression."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics._results import follow
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.stages.genomics.whole_genome_regression import WholeGenomeRegression
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.stages import Tables, plan_stage
from tests.kernels.plink_files import floats, needs_data
from tests.kernels.regenie_files import REGENIE, read_loco, read_results, step1_variants
from tests.stages.genomics.cohorts import COVARIATES, Cohort, hapmap3, hapmap3_sheet, run, same_for_any_parts, small_cohort, small_sheet

SMALL = LinearGwas(traits=("height", "score"), covariates=("sex",))


def printed_predictions(name: str, traits: tuple[str, ...], people: pl.DataFrame) -> pl.DataFrame:
    """regenie's own predictions as a table."""
    ids = {f"{family}_{person}": person for family, person in people.select("family_id", "sample_id").iter_rows()}
    frames = []
    for place, trait in enumerate(traits, 1):
        header, rows = read_loco(REGENIE / "hapmap3" / f"{name}_{place}.loco.gz")
        own = pl.DataFrame({"sample_id": [ids[person] for person in header], **rows})
        frames.append(own.unpivot(index="sample_id", variable_name="chromosome", value_name="prediction").with_columns(trait=pl.lit(trait)))
    return pl.concat(frames)


def small_predictions() -> pl.DataFrame:
    """Of both traits for everybody but p7, without chromosomes 1, 2 and X, in an order of its own, and a third trait's."""
    rng = np.random.default_rng(8)
    people = small_cohort().people.filter(pl.col("sample_id") != "p7")[rng.permutation(40)]
    each = pl.DataFrame({"trait": ["height", "score", "weight"]}).join(pl.DataFrame({"chromosome": ["1", "2", "X"]}), how="cross")
    rows = each.join(people, how="cross")
    return rows.with_columns(prediction=pl.Series(rng.normal(0, 0.3, rows.height)))


def small_data(**given: pl.DataFrame) -> dict[str, Cohort | pl.DataFrame]:
    return {"genotypes": small_cohort(), "samples": small_sheet(), "predictions": small_predictions(), **given}


@needs_data
@pytest.mark.parametrize("by", ["regenie", "us"])
def test_linear_gwas__with_predictions_gives_what_regenie_printed(by: str) -> None:
    traits, cohort, sheet = ("y_lin", "y_null"), hapmap3(), hapmap3_sheet()
    if by == "regenie":
        predictions = printed_predictions("s1_qt", traits, cohort.people)
    else:
        first = WholeGenomeRegression(traits=traits, covariates=COVARIATES, block_size=500)
        index = cohort.rows.frame["variant_id"].is_in(step1_variants()).arg_true().to_numpy()
        common = Cohort(Part(cohort.rows.frame[index], {"calls": cohort.rows.arrays["calls"][index]}), cohort.people)
        predictions = run(first, {"genotypes": common, "samples": sheet})[""].frame
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": cohort, "samples": sheet, "predictions": predictions}
    found = run(LinearGwas(traits=traits, covariates=COVARIATES), data, 3)[""]
    assert {name: found.counts[name] for name in ("people_y_lin", "people_y_null")} == {"people_y_lin": 937, "people_y_null": 957}
    assert found.counts["audited"] > 5
    assert "audited_off" not in found.counts
    for trait in traits:
        table = read_results(REGENIE / "hapmap3" / f"s2_qt_{trait}.regenie.gz")
        rows = found.frame.filter(pl.col("variant_id").is_in(table["ID"].tolist()), trait=trait)
        assert rows["variant_id"].to_list() == table["ID"].tolist()
        assert rows["effect_allele"].to_list() == table["ALLELE1"].tolist()
        np.testing.assert_allclose(rows["effect_allele_frequency"], floats(table["A1FREQ"]), atol=6e-7)
        np.testing.assert_allclose(rows["standard_error"], floats(table["SE"]), rtol=2e-5)
        assert rows["n"].to_list() == floats(table["N"]).tolist()
        z = np.sign(floats(table["BETA"])) * np.sqrt(floats(table["CHISQ"]))
        np.testing.assert_allclose(rows["statistic"], z, atol=1e-5)
        assert np.quantile(abs(rows["statistic"].to_numpy() ** 2 / floats(table["CHISQ"]) - 1), 0.999) < 1e-3
        np.testing.assert_allclose(rows["neg_log_10_p_value"], floats(table["LOG10P"]), rtol=1e-5, atol=1e-5)


def test_linear_gwas__with_predictions_is_the_same_for_any_parts(workers: ClusterSession) -> None:
    found = same_for_any_parts(SMALL, small_data(), workers)[""]
    assert found.counts["people_height"] == 38
    assert found.counts["people_score"] == 39


def test_linear_gwas__with_predictions_takes_them_in_any_order() -> None:
    expected = run(SMALL, small_data())[""].frame
    shuffled = small_predictions().sample(fraction=1, shuffle=True, seed=3)
    assert run(SMALL, small_data(predictions=shuffled))[""].frame.equals(expected)
    coded = small_predictions().with_columns(pl.col("chromosome").replace({"X": "23", "2": "chr2"}))
    assert run(SMALL, small_data(predictions=coded))[""].frame.equals(expected)


def test_linear_gwas__with_predictions_has_no_result_where_none_leave_the_chromosome_out() -> None:
    rows = run(SMALL, small_data())[""].frame
    assert rows.filter(chromosome="MT")["reason"].unique().to_list() == ["no predictions leave out chromosome MT"]
    assert rows.filter(chromosome="X")["reason"].null_count() > 20
    assert rows["variant_id"].unique(maintain_order=True).to_list() == small_cohort().rows.frame["variant_id"].to_list()
    assert set(rows.filter(pl.col("reason").is_null())["test"]) == {"chi_square"}
    kept = run(SMALL.model_copy(update={"max_p": 0.5}), small_data())[""].frame
    expected = rows.filter(pl.col("p_value") <= 0.5)
    assert kept.equals(expected)
    assert 0 < kept.height < rows.height


def test_linear_gwas__with_predictions_of_nothing_is_least_squares_on_means() -> None:
    sheet = small_sheet().with_columns(pl.col("height").fill_null(170.0))
    data = small_data(samples=sheet, predictions=small_predictions().with_columns(prediction=0.0))
    people = small_predictions()["sample_id"].unique()
    ours = run(SMALL, data)[""].frame.filter(chromosome="1")
    plain = run(
        SMALL.model_copy(update={"missing": "mean"}),
        {"genotypes": small_cohort(), "samples": sheet.filter(pl.col("sample_id").is_in(people.implode()))},
    )
    theirs = plain[""].frame.filter(chromosome="1")
    np.testing.assert_allclose(ours["beta"].to_numpy(), theirs["beta"].to_numpy(), rtol=1e-9)
    t, df = theirs["statistic"].to_numpy(), 39 - 3
    np.testing.assert_allclose(ours["statistic"].to_numpy() ** 2, (df + 1) * t**2 / (df + t**2), rtol=1e-9)
    named = run(SMALL.model_copy(update={"p": "t"}), data)[""].frame.filter(chromosome="1")
    for column in ("beta", "standard_error", "statistic", "p_value", "neg_log_10_p_value"):
        np.testing.assert_allclose(named[column].to_numpy(), theirs[column].to_numpy(), rtol=1e-8)
    assert set(named.filter(pl.col("reason").is_null())["test"]) == {"t"}


@pytest.mark.parametrize(
    ("predictions", "text"),
    [
        (small_predictions().filter(pl.col("trait") != "score"), "there are no predictions of the trait 'score'"),
        (pl.concat([small_predictions(), small_predictions()[:1]]), "somebody has two predictions of 'height' for chromosome 1"),
        (small_predictions()[1:], "1 people have predictions of 'height' for some of the chromosomes only"),
        (
            small_predictions().with_columns(prediction=pl.lit(None, pl.Float64)),
            "a prediction of 'height' for chromosome 1 is missing or infinite",
        ),
        (small_predictions().with_columns(pl.col("sample_id") + "x"), "no one who has 'height' has a prediction of it"),
    ],
)
def test_linear_gwas__refuses_predictions_that_do_not_fit(predictions: pl.DataFrame, text: str) -> None:
    with pytest.raises(DataError, match=text):
        run(SMALL, small_data(predictions=predictions))


def test_linear_gwas__has_no_other_p_without_predictions() -> None:
    with pytest.raises(StageError, match="without predictions the test is Student's t already"):
        plan_stage(
            LinearGwas(traits=("height",), p="t"),
            {"genotypes": small_cohort().rows, "samples": small_sheet()},
            {"calls": small_cohort().people},
        )


def test_linear_gwas__refuses_a_table_of_predictions_without_its_columns() -> None:
    tables: Tables = {"genotypes": small_cohort().rows, "samples": small_sheet(), "predictions": small_predictions().drop("chromosome")}
    with pytest.raises(StageError, match="the table given as 'predictions' has no column 'chromosome'"):
        plan_stage(SMALL, tables, {"calls": small_cohort().people})


def test_follow__tells_pieces_that_need_no_sorting() -> None:
    of = [[0, 0, 1, 1], [], [2, 2]], [[0, 1, 0, 1], [2]], [[0, 2], [1]], [[0, 1], [1, 2]]
    assert [follow([pl.Series(piece, dtype=pl.Int64) for piece in pieces]) for pieces in of] == [True, False, False, False]
    assert follow([pl.Series([1, 0])])  # a piece alone is as it is made
