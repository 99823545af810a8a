"""Relational stages on genotype tables: the calls of every variant stay with its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.registry import stage_class
from pipeline.tables.session import ClusterSession
from pipeline.testing.stages import plan_stage
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import Cohort, Found, hapmap3, run, same_for_any_parts, small_cohort

PANEL = pl.DataFrame({"variant_id": ["rs9", "rs40", "x", "rs2"], "gene": ["a", "b", "c", None]})
STAGES: dict[str, dict[str, Any]] = {
    "filter": {"where": "chromosome = '1' and base_pair_location > 1020 or ref = 'G'"},
    "derive": {"columns": {"kb": "base_pair_location / 1000.0", "ref": "lower(ref)"}},
    "select": {"columns": ["variant_id", "chromosome"]},
    "rename": {"columns": {"ref": "reference"}},
    "cast": {"columns": {"base_pair_location": "int32"}},
    "sort": {"by": ["chromosome", "-base_pair_location"], "limit": 25},
    "sample": {"fraction": 0.4, "key": "variant_id"},
    "drop_duplicates": {"columns": ["chromosome", "ref"]},
}


def make(use: str, **given: Any) -> Any:
    return stage_class(use).model_validate(given)


def assert_calls_follow(found: Found, cohort: Cohort, least: int, most: int) -> None:
    """Every row has the calls that its variant_id has in the cohort."""
    place = {name: i for i, name in enumerate(cohort.rows.frame["variant_id"])}
    rows = [place[name] for name in found.frame["variant_id"]]
    assert least <= len(rows) <= most
    np.testing.assert_array_equal(found.part.arrays["calls"], cohort.rows.arrays["calls"][rows])
    assert found.axes["calls"].equals(cohort.people)


@pytest.mark.parametrize("use", STAGES)
def test_genotype_table__calls_follow_the_rows_in_any_parts_and_processes(use: str, workers: ClusterSession) -> None:
    cohort = small_cohort()
    unordered = "variant_id" if use == "drop_duplicates" else None
    found = same_for_any_parts(make(use, **STAGES[use]), {"rows": cohort}, workers, unordered)[""]
    whole = use in {"derive", "select", "rename", "cast"}
    assert_calls_follow(found, cohort, *((60, 60) if whole else (7, 40)))


@pytest.mark.parametrize(("how", "rows"), [("inner", 3), ("left", 60), ("semi", 3), ("anti", 57)])
def test_genotype_table__calls_follow_through_a_join(how: str, rows: int, workers: ClusterSession) -> None:
    cohort = small_cohort()
    found = same_for_any_parts(make("join", on="variant_id", how=how), {"left": cohort, "right": PANEL}, workers)[""]
    assert_calls_follow(found, cohort, rows, rows)
    if how == "left":
        assert dict(found.frame.filter(pl.col("gene").is_not_null()).select("variant_id", "gene").iter_rows()) == {"rs9": "a", "rs40": "b"}


def test_genotype_table__a_joined_variant_that_matches_twice_has_its_calls_twice() -> None:
    twice = pl.concat([PANEL, PANEL])
    found = run(make("join", on="variant_id"), {"left": small_cohort(), "right": twice}, 2)[""]
    assert_calls_follow(found, small_cohort(), 6, 6)


@needs_data
def test_genotype_table__hapmap3_filtered_by_sql_has_the_calls_of_what_is_left() -> None:
    where = "chromosome in ('6', 'X') and base_pair_location between 20000000 and 40000000 and not (ref = 'A' and alt = 'G')"
    cohort = hapmap3()
    found = run(make("filter", where=where), {"rows": cohort}, 4)[""]
    frame = cohort.rows.frame.to_pandas()
    mask = frame["chromosome"].isin(["6", "X"]) & frame["base_pair_location"].between(20_000_000, 40_000_000)
    mask &= ~((frame["ref"] == "A") & (frame["alt"] == "G"))
    assert found.frame["variant_id"].to_list() == frame["variant_id"][mask].tolist()
    np.testing.assert_array_equal(found.part.arrays["calls"], cohort.rows.arrays["calls"][mask.to_numpy()])


def test_genotype_table__union_refuses_it() -> None:
    rows = small_cohort().rows
    with pytest.raises(StageError, match="'a' is a genotype table, and union joins plain tables only"):
        plan_stage(make("union"), {"a": rows, "b": rows}, {"calls": small_cohort().people})
