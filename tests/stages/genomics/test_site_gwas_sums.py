"""site_gwas_sums: exact sums of products of a variant under masks, and what it does not give."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stage import Context
from pipeline.stages.genomics._pooled_scan import pooled_sums
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from tests.stages.genomics.cohorts import Cohort, codes, run, same_for_any_parts, small_cohort, small_sheet
from tests.stages.genomics.sites import leaving, people_of, stage_of
from tests.stages.models.federation import SITES, Watching, assert_keeps_secrets, shared

OSLO = people_of(small_cohort(), "oslo")
EXAMPLES = [
    StageExample(
        stage_of("oslo", missing=missing), {"genotypes": OSLO.rows, "samples": small_sheet()}, {"calls": OSLO.people}, ordered=True
    )
    for missing in ("complete_case", "mean")
]


def test_site_gwas_sums__add_up_to_the_exact_sums_of_the_called() -> None:
    tables = [leaving(site, digits=20) for site in SITES]
    stage = stage_of("oslo", digits=20)
    rows = pl.concat(tables).sort("chromosome", "base_pair_location", "site")
    found = pooled_sums(rows, stage.agreed)
    cohort = small_cohort()
    sheet = cohort.people.join(small_sheet(), on="sample_id", how="left", maintain_order="left")
    values = np.round(np.ldexp(sheet.select("age", "sex", "height").cast(pl.Float64).to_numpy(), 20))
    ids = rows["variant_id"].gather_every(3).to_list()
    for variant in (0, 17, 31):
        calls = codes(cohort.rows, 41)[cohort.rows.frame["variant_id"].to_list().index(ids[variant])]
        known = ~np.isnan(values).any(axis=1) & (calls != 3)
        columns = [[1 << 20] * known.sum(), *([int(x) for x in values[known, i]] for i in range(3)), [int(c) << 20 for c in calls[known]]]
        for i, left in enumerate(columns):
            for j, right in enumerate(columns[i:], i):
                assert Fraction(found[variant, i, j]) == sum(a * b for a, b in zip(left, right, strict=True))


def test_site_gwas_sums__are_the_same_to_the_last_digit_for_any_parts(workers: ClusterSession) -> None:
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": OSLO, "samples": small_sheet()}
    found = same_for_any_parts(stage_of("oslo"), data, workers)[""]
    assert found.counts == {"people_used": 14, "variants_out": 32, "variants_off_autosomes": 28, "variants_rare": 0}


def test_site_gwas_sums__of_one_site_or_two_look_like_random_digits() -> None:
    tables = [leaving(site)["masked"] for site in SITES]
    one = np.frombuffer(bytes.fromhex("".join(tables[0])), np.uint8)
    size = 8 * len(one)
    assert abs(int(np.unpackbits(one).sum()) - size / 2) < 4 * (size / 4) ** 0.5
    assert np.bincount(one, minlength=256).min() > 0
    two = [(int(a, 16) + int(b, 16)) & ((1 << 160) - 1) for a, b in zip(*(column.str.slice(0, 40) for column in tables[:2]), strict=True)]
    assert min(number.bit_count() for number in two) > 40
    assert not {*tables[0]} & {*leaving("berlin", study="two")["masked"]}


def test_site_gwas_sums__leaves_out_what_few_carry() -> None:
    found = leaving("oslo", carriers=6)
    counts = np.array([np.bincount(row, minlength=4) for row in codes(OSLO.rows, OSLO.people.height)])
    assert 0 < found.height < 32
    rare = OSLO.rows.frame.filter(pl.Series((counts[:, 1] + counts[:, 2] < 6) | (counts[:, 0] + counts[:, 1] < 6)))["variant_id"]
    assert not {*rare} & {*found["variant_id"]}


def test_site_gwas_sums__refuses_a_variant_that_is_there_twice() -> None:
    rows = small_cohort().rows
    twice = Cohort(Part(rows.frame[[0, 1, 0]], {"calls": rows.arrays["calls"][[0, 1, 0]]}), small_cohort().people)
    with pytest.raises(
        DataError, match=r"has the variant 1:\d+:A:C twice: use drop_duplicates by chromosome, base_pair_location, ref, alt"
    ):
        leaving("oslo", twice)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"least": 20}, "site 'oslo' has 14 people with trait and covariates, and least is 20"),
        ({"digits": 56}, r"column 'age' has a value of 2\^6 or more.*lower digits at every site"),
    ],
)
def test_site_gwas_sums__refuses_few_people_and_large_values(more: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        leaving("oslo", **more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"secrets": {"rome": "x" * 40}}, "no secret shared with site 'berlin'"),
        ({"secrets": {**shared("oslo"), "rome": "quick brown"}}, "it has 11 characters and could be guessed"),
        ({"covariates": ("age", "age")}, "there twice"),
        ({"trait": "sample_id"}, "'sample_id' is String, and numbers are needed"),
    ],
)
def test_site_gwas_sums__refuses_at_plan_time_and_tells_no_secret(more: dict[str, Any], message: str) -> None:
    schemas = {"genotypes": Schema(OSLO.rows.frame.schema, {"calls": OSLO.people.schema}), "samples": Schema(small_sheet().schema)}
    with pytest.raises(StageError, match=message) as error:
        stage_of("oslo", **more).plan(schemas, Context("sums", 1, Session()))
    assert "quick brown" not in str(error.value)


def test_site_gwas_sums__takes_no_other_species() -> None:
    beasts = Cohort(OSLO.rows, OSLO.people.with_columns(autosomes=pl.lit(29, pl.Int16)))
    with pytest.raises(StageError, match="human autosomes alone"):
        run(stage_of("oslo"), {"genotypes": beasts, "samples": small_sheet()})


def test_site_gwas_sums__gives_no_task_a_secret() -> None:
    session = Watching()
    people = Table.of(session, "people", [Part(OSLO.people)], schema=Schema(OSLO.people.schema))
    schema = Schema(OSLO.rows.frame.schema, {"calls": OSLO.people.schema})
    genotypes = Table.of(session, "genotypes", [OSLO.rows], schema=schema, axes={"calls": people})
    samples = Table.of(session, "samples", [Part(small_sheet())], schema=Schema(small_sheet().schema))
    assert_keeps_secrets(stage_of("oslo"), {"genotypes": genotypes, "samples": samples}, session)
