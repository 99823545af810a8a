"""whole_genome_regression."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import DataError, StageError
from pipeline.kernels.ridge_predictors import SHARES
from pipeline.stages.genomics import _ridge_levels as module
from pipeline.stages.genomics.whole_genome_regression import WholeGenomeRegression
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables, plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import DATA, floats, needs_data, read_columns
from tests.kernels.regenie_files import REGENIE, read_fits, read_loco, step1_variants
from tests.stages.genomics.cohorts import (
    COVARIATES,
    Cohort,
    assert_found_equal,
    hapmap3,
    hapmap3_sheet,
    plink_cohort,
    run,
    same_for_any_parts,
    small_cohort,
    small_sheet,
)

TWO_TRAITS: dict[str, Any] = {"traits": ["ldl", "height"], "covariates": ["age", "sex"], "block_size": 12}
SCANNED: Tables = {"genotypes": examples.GENOTYPES, "samples": examples.SHEET}
LIMITS = {"prediction": 1e-5, "mean_squared_error": 1e-6, "r_squared": 1e-4}
TIMES: dict[str, Any] = {"kind": "time_to_event", "traits": {"death": {"time": "age", "event": "died"}}, "covariates": ["height"]}
EXAMPLES = [
    StageExample(WholeGenomeRegression(**TWO_TRAITS), SCANNED, examples.AXES, LIMITS),
    StageExample(
        WholeGenomeRegression(**TIMES, block_size=12),
        {**SCANNED, "samples": examples.SHEET.with_columns(died=pl.col("ldl") > 1)},
        examples.AXES,
        {"prediction": 1e-4, "penalty": 1e-5, "deviance": 1e-5},
    ),
]


def regression(traits: Any = ("height",), covariates: tuple[str, ...] = ("age", "sex"), **given: Any) -> WholeGenomeRegression:
    return WholeGenomeRegression.model_validate({"traits": traits, "covariates": covariates, "block_size": 10, **given})


def only(cohort: Cohort, rows: pl.Expr) -> Cohort:
    index = cohort.rows.frame.select(rows.arg_true()).to_series().to_numpy()
    return replace(cohort, rows=Part(cohort.rows.frame[index], {"calls": cohort.rows.arrays["calls"][index]}))


def assert_regenie(found: dict[str, Any], folder: str, run_name: str, traits: tuple[str, ...], people: pl.DataFrame) -> None:
    """The h that regenie chose, its errors as printed, and every prediction within 1e-4 of the predictions' spread."""
    for place, trait in enumerate(traits, 1):
        fits = found["fits"].frame.filter(trait=trait)
        printed, best = read_fits(REGENIE / folder / f"{run_name}.log", trait)
        assert fits["explained_share"].to_list() == list(SHARES)
        assert fits["chosen"].arg_true().to_list() == [best]
        np.testing.assert_allclose(fits["r_squared"], printed[:, 0], rtol=2e-4)
        np.testing.assert_allclose(fits["mean_squared_error"], printed[:, 1], rtol=2e-5)
        if printed.shape[1] > 2:
            np.testing.assert_allclose(fits["log_loss"], printed[:, 2], rtol=2e-5)
        ids, predictions = read_loco(REGENIE / folder / f"{run_name}_{place}.loco.gz")
        rows = found[""].frame.filter(trait=trait)
        order = [ids.index(f"{family}_{person}") for family, person in people.select("family_id", "sample_id").iter_rows()]
        assert rows["chromosome"].unique(maintain_order=True).to_list() == [*map(str, range(1, 23)), "X"]
        for chromosome, values in predictions.items():
            ours = rows.filter(chromosome="X" if chromosome == "23" else chromosome)
            assert ours["sample_id"].to_list() == people["sample_id"].to_list()
            np.testing.assert_allclose(ours["prediction"], values[order], atol=1e-4 * values.std())


@needs_data
def test_whole_genome_regression__is_what_regenie_printed_for_hapmap3() -> None:
    common = only(hapmap3(), pl.col("variant_id").is_in(step1_variants()))
    stage = regression(("y_lin", "y_null"), COVARIATES, block_size=500)
    found = run(stage, {"genotypes": common, "samples": hapmap3_sheet()}, 5)
    assert_regenie(found, "hapmap3", "s1_qt", ("y_lin", "y_null"), common.people)
    assert found[""].counts == {"variants_used": 14266, "blocks": 40, "people": 957}


@needs_data
def test_whole_genome_regression__is_what_regenie_printed_for_its_three_chromosomes() -> None:
    example = DATA / "regenie_example"
    cohort = plink_cohort(example / "example_3chr.bed")
    traits, covariates = read_columns(example / "phenotype.txt"), read_columns(example / "covariates.txt")
    names = [name for name in covariates if name not in {"FID", "IID"}]
    columns = {name: floats(traits[name]) for name in ("Y1", "Y2")} | {name: floats(covariates[name]) for name in names}
    sheet = pl.DataFrame({"sample_id": traits["IID"].tolist(), **columns})
    found = run(regression(("Y1", "Y2"), tuple(names), block_size=50), {"genotypes": cohort, "samples": sheet}, 3)
    assert_regenie(found, "example_3chr", "s1_qt", ("Y1", "Y2"), cohort.people)


@needs_data
def test_whole_genome_regression__takes_x_as_one_more_chromosome() -> None:
    """What regenie 4.1.2 printed for chromosomes 20 to 23 (`plink2 --chr 20-23 --mac 5`, `--step 1 --bsize 100`)."""
    cohort = hapmap3()
    copies = np.where(cohort.codes == 3, 0, cohort.codes)
    minor = np.minimum(copies.sum(axis=1), 2 * (cohort.codes != 3).sum(axis=1) - copies.sum(axis=1))
    kept = only(cohort, pl.col("chromosome").is_in(["20", "21", "22", "23", "X"]) & pl.Series(minor >= 5))
    found = run(regression(("y_lin",), COVARIATES, block_size=100), {"genotypes": kept, "samples": hapmap3_sheet()}, 5)
    fits = found["fits"].frame
    np.testing.assert_allclose(fits["r_squared"], [0.000810485, 0.00119917, 0.00192458, 0.00274305, 0.0116184], rtol=2e-4)
    np.testing.assert_allclose(fits["mean_squared_error"], [0.98577, 0.995535, 0.996572, 0.998573, 0.988876], rtol=2e-5)
    people = ["NA12347", "NA12348", "NA06984", "NA06989", "NA06986"]
    printed = {
        "1": [0.0553575, 0.0058269, -0.0628093, -0.106678, -0.068349],
        "22": [0.0107474, 0.0152393, -0.0890234, -0.0819321, -0.0754377],
        "X": [0.0369492, 0.0130939, -0.0396537, -0.100066, -0.0465117],
    }
    for chromosome, values in printed.items():
        rows = found[""].frame.filter(chromosome=chromosome)
        ours = dict(rows.select("sample_id", "prediction").iter_rows())
        np.testing.assert_allclose([ours[person] for person in people], values, atol=1e-4 * float(rows["prediction"].to_numpy().std()))


@needs_data
def test_whole_genome_regression__of_binary_traits_is_what_regenie_printed_for_hapmap3() -> None:
    common = only(hapmap3(), pl.col("variant_id").is_in(step1_variants()))
    sheet = hapmap3_sheet()
    stage = regression(("y_bin", "y_rare"), COVARIATES, block_size=500, kind="binary")
    assert_regenie(run(stage, {"genotypes": common, "samples": sheet}, 2), "hapmap3", "s1_bt", ("y_bin", "y_rare"), common.people)


@needs_data
def test_whole_genome_regression__of_binary_traits_is_what_regenie_printed_for_its_three_chromosomes() -> None:
    example = DATA / "regenie_example"
    traits, covariates = read_columns(example / "phenotype_bin.txt"), read_columns(example / "covariates.txt")
    names = [name for name in covariates if name not in {"FID", "IID"}]
    columns = {name: floats(traits[name]) for name in ("Y1", "Y2")} | {name: floats(covariates[name]) for name in names}
    sheet, cohort = pl.DataFrame({"sample_id": traits["IID"].tolist(), **columns}), plink_cohort(example / "example_3chr.bed")
    found = run(regression(("Y1", "Y2"), tuple(names), block_size=50, kind="binary"), {"genotypes": cohort, "samples": sheet}, 3)
    assert_regenie(found, "example_3chr", "s1_bt", ("Y1", "Y2"), cohort.people)


@pytest.mark.parametrize("left_out", [5_000, 10])
def test_whole_genome_regression__of_binary_traits_is_the_same_for_any_parts(
    left_out: int, workers: ClusterSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEFT_OUT", left_out)
    sheet = small_sheet().with_columns(tall=pl.col("height") > 170, old=(pl.col("age") > 50) + 1)
    stage = regression(("tall", "old"), ("sex",), block_size=7, kind="binary")
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": small_cohort(), "samples": sheet}
    found = run(stage, data)
    assert found[""].counts["people"] == 39
    assert found["fits"].frame["log_loss"].is_between(0.3, 1.5).all()
    assert_found_equal(run(stage, data, 7), found, "7 parts")
    if left_out == 5_000:  # workers know nothing of what this test sets
        assert_found_equal(run(stage, data, 3, workers), found, "two processes")


def test_whole_genome_regression__is_the_same_for_any_parts(workers: ClusterSession) -> None:
    stage = regression(("height", "age"), ("sex",), block_size=7)
    found = same_for_any_parts(stage, {"genotypes": small_cohort(), "samples": small_sheet()}, workers)
    assert found[""].counts == {"variants_used": 44, "blocks": 7, "people": 40}
    assert found[""].frame.height == 2 * 23 * 40


def test_whole_genome_regression__of_times_to_an_event_is_the_same_for_any_parts(workers: ClusterSession) -> None:
    sheet = small_sheet().with_columns(died=pl.col("height") > 170)
    stage = regression(TIMES["traits"], ("sex",), block_size=7, kind="time_to_event")
    found = same_for_any_parts(stage, {"genotypes": small_cohort(), "samples": sheet}, workers)
    assert found[""].frame.height == 23 * found[""].counts["people"]
    fits = found["fits"].frame
    assert fits["chosen"].sum() == 1
    assert fits["explained_share"].is_null().all()
    assert fits.filter("chosen")["deviance"].item() == fits["deviance"].min()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"traits": ("height",), "kind": "time_to_event"}, r"takes traits by name, each a time and an event, such as traits: \{death"),
        ({"traits": TIMES["traits"]}, "kind: time_to_event takes traits by name"),
        ({"traits": {"death": {"time": "age"}}, "kind": "time_to_event"}, "event"),
    ],
)
def test_whole_genome_regression__refuses_traits_of_another_kind(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        regression(**given)


def test_whole_genome_regression__leaves_out_the_chromosome_that_is_named() -> None:
    cohort, data = small_cohort(), {"samples": small_sheet()}
    both = run(regression(), {"genotypes": cohort, **data})[""].frame.pivot("chromosome", index="sample_id", values="prediction")
    assert both.columns[1:] == [*map(str, range(1, 23)), "X"]
    assert both["3"].equals(both["22"])
    np.testing.assert_allclose(both["1"] + both["2"] + both["X"], 2 * both["3"], atol=1e-6)
    assert np.corrcoef(both["1"], both["2"])[0, 1] < 0.99


def test_whole_genome_regression__of_dosages_is_that_of_the_calls_they_equal() -> None:
    cohort = small_cohort()
    dosages = np.where(cohort.codes == 3, np.nan, cohort.codes).astype(np.float32)
    sheet = small_sheet()
    calls, alike = (
        StageExample(regression(), {"genotypes": genotypes, "samples": sheet}, {name: cohort.people}).run(Session(), 2)[""].frame
        for name, genotypes in (("calls", cohort.rows), ("alt_dosages", Part(cohort.rows.frame, {"alt_dosages": dosages})))
    )
    np.testing.assert_allclose(alike["prediction"], calls["prediction"], atol=1e-6)
    assert alike.drop("prediction").equals(calls.drop("prediction"))


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (regression(("sex",), ("sex",)), "'sex' is both a trait and a covariate"),
        (regression(("tall",)), "has no column 'tall'"),
        (regression(("height", "height")), "height, height names a column twice"),
    ],
)
def test_whole_genome_regression__refuses_before_anything_runs(stage: WholeGenomeRegression, text: str) -> None:
    with pytest.raises(StageError, match=text):
        plan_stage(stage, {"genotypes": small_cohort().rows, "samples": small_sheet()}, {"calls": small_cohort().people})


def test_whole_genome_regression__says_what_it_lacks() -> None:
    cohort, sheet = small_cohort(), small_sheet()
    with pytest.raises(DataError, match="no autosomal or X variant varies"):
        run(regression(), {"genotypes": only(cohort, pl.col("chromosome") == "MT"), "samples": sheet})
    with pytest.raises(DataError, match="7 people have a trait and all covariates; 5 folds need 10"):
        run(regression(), {"genotypes": cohort, "samples": sheet.drop_nulls("height").head(7)})


def test_whole_genome_regression__says_before_it_runs_what_it_will_hold() -> None:
    text = regression(("height", "age"), ("sex",), block_size=1_000).of_pairs(500_000, 400_000)
    assert text.startswith("level 0: at most 500,000 variants of 400,000 people, some ")
    assert text.endswith("predictors: 8.0 GB on local disk, 8.0 GB in memory for each trait at work")
