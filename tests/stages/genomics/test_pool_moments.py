"""pool_moments: shards added, people taken away, covariates dropped, to the last bit."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.pool_moments import PoolMoments
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests.stages.genomics.moments import gone, in_order, moments_of, shards, sheet_with_gaps, stayed

ALL, SHARDS, LEAVING = moments_of("all"), shards(), moments_of("gone", sheet=gone())
KEY = ["chromosome", "base_pair_location", "ref", "alt", "trait"]
EXAMPLES = [
    StageExample(PoolMoments(cohort="all"), {"moments": SHARDS}, ordered=True),
    StageExample(PoolMoments(cohort="left", covariates=("sex",)), {"moments": SHARDS, "withdrawn": LEAVING}, ordered=True),
]


def pooled(moments: pl.DataFrame, withdrawn: pl.DataFrame | None = None, **more: Any) -> pl.DataFrame:
    """What the stage gives."""
    tables = {"moments": moments} | ({} if withdrawn is None else {"withdrawn": withdrawn})
    return run_stage(PoolMoments.model_validate({"cohort": "all", **more}), tables, 3)[""]


def test_pool_moments__of_three_shards_are_those_of_the_cohort() -> None:
    assert_frame_equal(pooled(SHARDS), in_order(ALL))


def test_pool_moments__without_the_withdrawn_are_those_of_the_others() -> None:
    left = in_order(moments_of("all", sheet=stayed()))
    assert left["sums"].to_list() != in_order(ALL)["sums"].to_list()
    assert_frame_equal(pooled(ALL, LEAVING), left)
    assert_frame_equal(pooled(SHARDS, LEAVING), left)


def test_pool_moments__added_again_are_those_of_before() -> None:
    assert_frame_equal(pooled(pl.concat([pooled(ALL, LEAVING, cohort="left"), LEAVING])), in_order(ALL))


def test_pool_moments__drops_covariates() -> None:
    everybody = sheet_with_gaps().drop_nulls("age")
    assert_frame_equal(pooled(ALL, covariates=("sex",)), in_order(moments_of("all", sheet=everybody, covariates=("sex",))))
    assert_frame_equal(pooled(ALL, covariates=()), in_order(moments_of("all", sheet=everybody, covariates=())))


def test_pool_moments__is_the_same_for_any_parts_and_order() -> None:
    assert_same_for_any_parts(PoolMoments(cohort="left"), {"moments": SHARDS, "withdrawn": LEAVING}, sort_by=KEY)


def test_pool_moments__leaves_out_what_a_table_lacks() -> None:
    lacking = SHARDS.filter((pl.col("cohort") != "oslo") | (pl.col("variant_id") != "rs0"))
    assert_frame_equal(pooled(lacking), in_order(ALL).filter(pl.col("variant_id") != "rs0"))


@pytest.mark.parametrize(
    ("moments", "withdrawn", "more", "message"),
    [
        (LEAVING, ALL, {}, "trait 'height' at 1:.* has fewer than no people.*take them away once"),
        (pl.concat([ALL, ALL]), None, {}, "a cohort has the variant .* twice"),
        (ALL, None, {"covariates": ("agee",)}, "no covariate 'agee', but age, sex: .*Did you mean 'age'"),
        (pl.concat([ALL, LEAVING.with_columns(digits=pl.lit(20, pl.Int64))]), None, {}, r"of different digits, 20 and 40.*\."),
        (ALL.with_columns(sums=pl.lit("zz")), None, {}, "no sums of 2 covariates"),
        (ALL[:0], None, {}, "Give what gwas_moments made"),
    ],
)
def test_pool_moments__names_what_cannot_be_added(
    moments: pl.DataFrame, withdrawn: pl.DataFrame | None, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        pooled(moments, withdrawn, **more)


def test_pool_moments__refuses_other_tables_at_plan_time() -> None:
    with pytest.raises(StageError, match="no column 'sums'"):
        plan_stage(PoolMoments(cohort="a"), {"moments": ALL, "withdrawn": LEAVING.drop("sums")})
