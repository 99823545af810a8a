"""linear_gwas and logistic_gwas with `calibrate`: null traits that ride along."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

from pipeline.errors import DataError
from pipeline.kernels.design import Design
from pipeline.kernels.genotypes import pack
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.stage import Context
from pipeline.stages.genomics._binary_nulls import binary_with_nulls, drawn_cases
from pipeline.stages.genomics._calibration import with_nulls
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.stages.genomics.logistic_gwas import LogisticGwas
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED, cut
from tests.stages.genomics.cohorts import Cohort, Data, run, same_for_any_parts, small_cohort, small_sheet
from tests.stages.genomics.test_predicted_logistic import small_data as binary_data
from tests.stages.genomics.test_predicted_scan import small_data

ASKED = LinearGwas(traits=("height", "score"), covariates=("sex",), calibrate=20)


def simulated(people: int = 400, variants: int = 600) -> Cohort:
    """Half rare variants, half common ones, 2 % not called."""
    rng = np.random.default_rng(3)
    frequency = np.where(np.arange(variants) % 2, rng.uniform(0.004, 0.009, variants), rng.uniform(0.1, 0.5, variants))
    calls = rng.binomial(2, frequency[:, None], (variants, people)).astype(np.uint8)
    calls[rng.random(calls.shape) < 0.02] = 3
    frame = pl.DataFrame(
        {
            "chromosome": "1",
            "base_pair_location": np.arange(variants),
            "variant_id": [f"v{i}" for i in range(variants)],
            "ref": "A",
            "alt": "C",
        }
    )
    return Cohort(Part(frame, {"calls": pack(calls)}), pl.DataFrame({"sample_id": [f"p{i}" for i in range(people)]}))


def traits_of(cohort: Cohort) -> pl.DataFrame:
    """A normal trait that a covariate explains in part, and one with a few huge values."""
    rng = np.random.default_rng(4)
    age, n = rng.normal(50, 9, cohort.people.height), cohort.people.height
    return cohort.people.with_columns(age=age, even=age / 3 + rng.normal(0, 1, n), heavy=rng.standard_t(2, n) ** 3)


def test_linear_gwas__null_traits_pass_as_often_as_they_should_but_not_with_outliers() -> None:
    cohort = simulated()
    stage = LinearGwas(traits=("even", "heavy"), covariates=("age",), calibrate=100)
    found = run(stage, {"genotypes": cohort, "samples": traits_of(cohort)}, 2)
    rows = found["calibration"].frame
    even = rows.filter(pl.col("trait") == "even", pl.col("tests") > 20_000)
    assert even.height == 10
    assert even.filter(pl.col("threshold") >= 0.01).select((pl.col("type_1_error") / pl.col("threshold") - 1).abs().max()).item() < 0.2
    assert even.filter(threshold=1e-3).select(pl.col("type_1_error").max()).item() < 2e-3
    assert even.select((pl.col("lambda_null") - 1).abs().max()).item() < 0.05
    width = pl.col("upper") - pl.col("lower")  # some four standard errors: one interval of 95 % in twenty lies beside the truth
    assert even.filter(pl.col("threshold") >= 0.01).select(((pl.col("type_1_error") - pl.col("threshold")).abs() < width).all()).item()
    assert even.filter(threshold=0.05).select(width.max()).item() < 0.01
    heavy = rows.filter(pl.col("trait") == "heavy", pl.col("tests") > 20_000, pl.col("to_frequency") <= 0.01, pl.col("threshold") == 1e-3)
    assert heavy["lower"].item() > 2e-3
    scan = found[""].frame.filter(pl.col("trait") == "even", pl.col("effect_allele_frequency") > 0.05)
    control = np.median(scan["statistic"].to_numpy() ** 2) / stats.chi2.median(1)
    assert even.filter(to_frequency=0.5)["lambda"][0] == pytest.approx(control, abs=0.02)


def test_linear_gwas__calibration_takes_students_t_where_it_is_asked_for() -> None:
    normal = run(ASKED, small_data())["calibration"].frame
    student = run(ASKED.model_copy(update={"p": "t"}), small_data())["calibration"].frame
    assert normal["tests"].to_list() == student["tests"].to_list()
    assert normal["passed"].to_list() != student["passed"].to_list()


@pytest.mark.parametrize("predicted", [False, True])
def test_linear_gwas__calibration_is_the_same_for_any_parts_and_leaves_the_scan_alone(predicted: bool, workers: ClusterSession) -> None:
    data: dict[str, Data] = {"genotypes": small_cohort(), "samples": small_sheet()}
    data = small_data() if predicted else data
    found = same_for_any_parts(ASKED, data, workers)
    assert_frame_equal(found[""].frame, run(ASKED.model_copy(update={"calibrate": 0}), data)[""].frame)
    rows = found["calibration"].frame
    scanned = found[""].frame.filter(pl.col("reason").is_null(), ~pl.col("chromosome").is_in(["X", "XY", "MT"]))
    tests = rows.filter(threshold=0.05).group_by("trait").agg(pl.col("tests").sum()).sort("trait")["tests"].to_list()
    assert tests == [20 * count for count in scanned.group_by("trait").len().sort("trait")["len"].to_list()]


BINARY = LogisticGwas(traits=("tall", "marked"), covariates=("sex",), calibrate=6, screen=0.4)


@dataclass
class Source:
    """A part that is read, and how often it was; reading it is dear."""

    part: Part
    reads: list[int] = field(default_factory=list)
    cheap: bool = False

    def load(self) -> Part:
        self.reads.append(1)
        return self.part

    def interval(self, column: str) -> tuple[Any, Any] | None:
        return None


@pytest.mark.parametrize("predicted", [False, True])
@pytest.mark.parametrize("stage", [ASKED, BINARY], ids=["linear", "logistic"])
def test_calibrated_scans__read_genotypes_once(stage: LinearGwas | LogisticGwas, predicted: bool) -> None:
    data: dict[str, Data] = {**(small_data() if stage is ASKED else binary_data())}
    if not predicted:
        del data["predictions"]
    cohort, session = small_cohort(), Session()
    axis = Table.of(session, "genotypes", [Part(cohort.people)])
    sources = [Source(piece) for piece in cut(cohort.rows, [20, 0, 40])]
    schema = Schema(cohort.rows.frame.schema, {"calls": cohort.people.schema})
    tables = {"genotypes": Table.of(session, "genotypes", sources, schema=schema, axes={"calls": axis})}
    tables |= {role: Table.of(session, role, [Part(rows)]) for role, rows in data.items() if isinstance(rows, pl.DataFrame)}
    outcome, expected = stage.run(tables, Context("tested", SEED, session)), run(stage, data)
    for name, table in outcome.tables.items():
        assert_frame_equal(concat_parts(table.futures()).frame, expected[name].frame, rel_tol=1e-9, abs_tol=1e-9)
    assert [len(source.reads) for source in sources] == [1, 1, 1]


def test_with_nulls__permutes_what_covariates_leave() -> None:
    rng = np.random.default_rng(1)
    covariates, trait = rng.normal(size=(50, 2)), rng.normal(size=(50, 1))
    trait[7] = np.nan
    design = Design.build(covariates, trait)
    found = with_nulls(design, 5, 9)
    assert found.residuals.shape == (50, 6)
    np.testing.assert_allclose(found.residuals[:, 0], design.residuals[:, 0], atol=1e-12)
    np.testing.assert_allclose(design.basis.T @ found.residuals, 0, atol=1e-12)
    np.testing.assert_allclose(found.residuals.sum(axis=0), 0, atol=1e-10)
    assert (found.residuals[7] == 0).all()
    assert np.abs(np.corrcoef(found.residuals.T) - np.eye(6)).max() < 0.5
    np.testing.assert_array_equal(with_nulls(design, 5, 9).residuals, found.residuals)
    assert not np.allclose(with_nulls(design, 5, 10).residuals[:, 1:], found.residuals[:, 1:])


def test_drawn_cases__are_as_many_as_chances_add_up_to_and_each_as_often_as_his_chance() -> None:
    rng = np.random.default_rng(8)
    chances = rng.uniform(0, 1, 50) ** 2
    chances *= 12 / chances.sum()
    drawn = np.stack([drawn_cases(np.minimum(chances, 1), rng) for _ in range(4_000)])
    assert set(drawn.sum(axis=1)) == {np.minimum(chances, 1).sum().round()}
    np.testing.assert_allclose(drawn.mean(axis=0), np.minimum(chances, 1), atol=0.04)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(50)).max() < 0.2


def test_logistic_gwas__null_traits_of_few_cases_pass_too_often_in_the_score_test_and_not_by_the_saddle_point() -> None:
    cohort = simulated(variants=300)
    rng = np.random.default_rng(6)
    age = rng.normal(50, 9, cohort.people.height)
    sheet = cohort.people.with_columns(age=age, rare=(rng.random(len(age)) < 0.08 * np.exp((age - 50) / 20)).astype(float))
    nothing = pl.DataFrame({"trait": "rare", "sample_id": cohort.people["sample_id"], "chromosome": "1", "prediction": 0.0})
    data: dict[str, Data] = {"genotypes": cohort, "samples": sheet, "predictions": nothing}
    errors = dict[str, float]()
    for method in ("score", "spa"):
        stage = LogisticGwas(traits=("rare",), covariates=("age",), calibrate=40, method=method)
        rows = run(stage, data, 2)["calibration"].frame
        assert rows["case_share"].unique().to_list() == [sheet["rare"].mean()]
        common = rows.filter(to_frequency=0.5, threshold=0.05)["type_1_error"].item()
        assert common == pytest.approx(0.05, abs=0.006)
        errors[method] = rows.filter(to_frequency=0.01, threshold=1e-3)["type_1_error"].item()
    assert errors["score"] > 4e-3
    assert errors["spa"] < errors["score"] / 2


@pytest.mark.parametrize("predicted", [False, True])
def test_logistic_gwas__calibration_is_the_same_for_any_parts_and_leaves_the_scan_alone(predicted: bool, workers: ClusterSession) -> None:
    data: dict[str, Data] = {**binary_data()}
    if not predicted:
        del data["predictions"]
    found = same_for_any_parts(BINARY, data, workers)
    assert_frame_equal(found[""].frame, run(BINARY.model_copy(update={"calibrate": 0}), data)[""].frame)
    rows = found["calibration"].frame
    scanned = found[""].frame.filter(pl.col("reason").is_null(), ~pl.col("chromosome").is_in(["X", "XY", "MT"]))
    tests = rows.filter(threshold=0.05).group_by("trait").agg(pl.col("tests").sum()).sort("trait")["tests"].to_list()
    counts = scanned.group_by("trait").len().sort("trait")["len"].to_list()
    assert [abs(number / 6 - count) < 0.1 * count for number, count in zip(tests, counts, strict=True)] == [True, True]


def test_logistic_gwas__says_where_null_traits_cannot_be_fitted() -> None:
    design = LogisticDesign.build(np.repeat([0.0, 1.0], 12)[:, None], np.array([1.0, *[0.0] * 11, *[1.0] * 11, 0.0])[:, None])
    with pytest.raises(DataError, match=r"a null trait of 'trait 1' cannot be fitted, so calibrate counts nothing\. Trait 'trait 1'"):
        binary_with_nulls(design, 60, 3)
