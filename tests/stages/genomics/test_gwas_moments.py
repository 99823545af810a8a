"""gwas_moments: exact sums of products, the same for any parts, and of the people of the sheet alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stage import Context
from pipeline.stages.genomics._moments import sums_in, whole_sums
from pipeline.tables.part import Schema
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import StageExample
from tests.stages.genomics.cohorts import codes, run, same_for_any_parts, small_cohort, with_calls
from tests.stages.genomics.moments import COVARIATES, GONE, gone, moments_of, sheet_with_gaps, stage_of

EXAMPLES = [
    StageExample(
        stage_of("all"), {"genotypes": small_cohort().rows, "samples": sheet_with_gaps()}, {"calls": small_cohort().people}, ordered=True
    )
]


def test_gwas_moments__are_the_exact_sums_of_the_called() -> None:
    cohort = small_cohort()
    rows = moments_of("all", digits=20).filter(trait="score")
    found = whole_sums(sums_in(rows, COVARIATES), COVARIATES)
    sheet = cohort.people.join(sheet_with_gaps(), on="sample_id", how="left", maintain_order="left")
    values = np.round(np.ldexp(sheet.select(*COVARIATES, "score").cast(pl.Float64).to_numpy(), 20))
    for place, variant in enumerate(rows["variant_id"].to_list()):
        calls = codes(cohort.rows, 41)[cohort.rows.frame["variant_id"].to_list().index(variant)]
        known = ~np.isnan(values).any(axis=1) & (calls != 3)
        columns = [[1 << 20] * known.sum(), *([int(x) for x in values[known, i]] for i in range(3)), [int(c) << 20 for c in calls[known]]]
        for i, left in enumerate(columns):
            for j, right in enumerate(columns[i:], i):
                assert found[place, i, j] == sum(a * b for a, b in zip(left, right, strict=True))


def test_gwas_moments__are_the_same_to_the_last_digit_for_any_parts(workers: ClusterSession) -> None:
    found = same_for_any_parts(stage_of("all"), {"genotypes": small_cohort(), "samples": sheet_with_gaps()}, workers)[""]
    assert found.counts == {"people_height": 38, "people_score": 36, "variants_off_autosomes": 28}


def test_gwas_moments__of_some_people_need_no_calls_of_the_others() -> None:
    cohort = small_cohort()
    calls = codes(cohort.rows, 41)
    calls[:, [i for i in range(41) if f"p{i}" not in GONE]] = 0
    assert_frame_equal(moments_of("gone", with_calls(cohort, calls), gone()), moments_of("gone", sheet=gone()))


def test_gwas_moments__refuses_values_beyond_its_digits() -> None:
    with pytest.raises(DataError, match=r"column 'age' has a value of 2\^2 or more.*digits: 60"):
        moments_of("all", digits=60)


def test_gwas_moments__refuses_text_and_dosages_at_plan_time() -> None:
    genotypes = Schema(small_cohort().rows.frame.schema, {"calls": small_cohort().people.schema})
    dosages = Schema(genotypes.columns, {"alt_dosages": small_cohort().people.schema})
    for schemas, message in (
        ({"genotypes": genotypes, "samples": Schema(sheet_with_gaps().cast({"height": pl.String}).schema)}, "'height' is String"),
        (
            {"genotypes": dosages, "samples": Schema(sheet_with_gaps().schema)},
            "has dosages, and this stage takes calls. Read it with field: calls",
        ),
    ):
        with pytest.raises(StageError, match=message):
            stage_of("all").plan(schemas, Context("tested", 1, Session()))


def test_gwas_moments__of_nobody_are_zero() -> None:
    nobody = run(
        stage_of("none"),
        {"genotypes": small_cohort(), "samples": gone().with_columns(height=pl.lit(None, pl.Float64), score=pl.lit(None, pl.Float64))},
    )[""].frame
    assert {*nobody["sums"]} == {"0" * 600}
