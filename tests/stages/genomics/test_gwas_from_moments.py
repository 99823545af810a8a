"""gwas_from_moments: what linear_gwas and statsmodels give, from sums alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.gwas_from_moments import GwasFromMoments
from pipeline.stages.genomics.pool_moments import PoolMoments
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage
from tests.example_tables import SCAN
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import COVARIATES as AXES
from tests.stages.genomics.cohorts import Cohort, codes, hapmap3, hapmap3_sheet, small_cohort
from tests.stages.genomics.moments import gone, in_order, moments_of, scanned, shards, sheet_with_gaps, stayed

ALL = moments_of("all")
EXAMPLES = [
    StageExample(GwasFromMoments(), {"rows": ALL}, tolerances=SCAN, ordered=True),
    StageExample(GwasFromMoments(max_p=0.3, covariates=("sex",)), {"rows": ALL}, tolerances=SCAN, ordered=True),
]


def scan_of(moments: pl.DataFrame, **more: Any) -> pl.DataFrame:
    """What the stage gives."""
    return in_order(run_stage(GwasFromMoments.model_validate(more), {"rows": moments}, 3)[""])


def pooled(moments: pl.DataFrame, **withdrawn: pl.DataFrame) -> pl.DataFrame:
    """The moments together."""
    return run_stage(PoolMoments(cohort="pooled"), {"moments": moments, **withdrawn}, 2)[""]


def test_gwas_from_moments__of_three_shards_is_the_scan_of_all() -> None:
    found, expected = scan_of(pooled(shards())), scanned(sheet_with_gaps())
    assert found["n"].n_unique() > 5
    assert {*found["reason"]} == {None, "no variation among the called samples", "too few called samples"}
    assert_frame_equal(found, expected, rel_tol=1e-10, abs_tol=1e-12)


def test_gwas_from_moments__without_the_withdrawn_is_the_scan_of_the_others() -> None:
    found = scan_of(pooled(ALL, withdrawn=moments_of("gone", sheet=gone())))
    assert_frame_equal(found, scanned(stayed()), rel_tol=1e-10, abs_tol=1e-12)


@pytest.mark.parametrize("covariates", [("sex", "age"), ("sex",), ()])
def test_gwas_from_moments__adjusts_for_any_of_the_covariates(covariates: tuple[str, ...]) -> None:
    expected = scanned(sheet_with_gaps().drop_nulls("age"), covariates=covariates)
    assert_frame_equal(scan_of(ALL, covariates=covariates), expected, rel_tol=1e-10, abs_tol=1e-12)


def test_gwas_from_moments__is_least_squares_of_statsmodels() -> None:
    import statsmodels.api as sm

    cohort = small_cohort()
    sheet = cohort.people.join(sheet_with_gaps(), on="sample_id", how="left", maintain_order="left")
    calls, ids = codes(cohort.rows, 41).astype(float), cohort.rows.frame["variant_id"].to_list()
    for row in scan_of(ALL).filter(pl.col("reason").is_null())[::7].iter_rows(named=True):
        values = np.column_stack([calls[ids.index(row["variant_id"])], sheet.select(row["trait"], "age", "sex").to_numpy()])
        values = values[(values[:, 0] != 3) & ~np.isnan(values).any(axis=1)]
        fit = sm.OLS(values[:, 1], sm.add_constant(values[:, [0, 2, 3]])).fit()
        told = [row[name] for name in ("beta", "standard_error", "statistic", "p_value")]
        np.testing.assert_allclose(told, [fit.params[1], fit.bse[1], fit.tvalues[1], fit.pvalues[1]], rtol=1e-9)


@needs_data
def test_gwas_from_moments__of_hapmap3_is_the_scan() -> None:
    whole, sheet = hapmap3(), hapmap3_sheet()
    few = Cohort(whole.rows.replaced(frame=whole.rows.frame[::40], calls=whole.rows.arrays["calls"][::40]), whole.people)
    leaving = pl.col("sample_id").is_in(whole.people["sample_id"][5:900:18].to_list())
    given: dict[str, Any] = {"traits": ("y_lin",), "covariates": AXES}
    parts = [moments_of("a", few, sheet, **given), moments_of("b", few, sheet.filter(leaving), **given)]
    found = scan_of(pooled(parts[0], withdrawn=parts[1]))
    assert_frame_equal(found, scanned(sheet.filter(~leaving), few, **given), rel_tol=1e-9, abs_tol=1e-12)


def test_gwas_from_moments__refuses_what_is_not_in_the_sums() -> None:
    with pytest.raises(DataError, match="no covariate 'pc1', but age, sex"):
        scan_of(ALL, covariates=("pc1",))
    with pytest.raises(StageError, match="column 'digits' of the table is String, and Int64"):
        plan_stage(GwasFromMoments(), {"rows": ALL.cast({"digits": pl.String})})
