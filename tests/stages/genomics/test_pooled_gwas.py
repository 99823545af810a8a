"""pooled_gwas: what linear_gwas and PLINK give of all people, from tables that say nothing one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.stages.genomics.pooled_gwas import PooledGwas
from pipeline.tables.part import Part
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage
from tests.example_tables import SCAN
from tests.kernels.plink_files import assert_printed, needs_data, read_columns
from tests.stages.genomics.cohorts import (
    COVARIATES,
    HAPMAP3,
    Cohort,
    codes,
    hapmap3,
    hapmap3_sheet,
    run,
    small_cohort,
    small_sheet,
    with_calls,
)
from tests.stages.genomics.sites import leaving, people_of, stage_of
from tests.stages.models.federation import SITES, shared

ALL = pl.concat([leaving(site) for site in SITES])
EXAMPLES = [
    StageExample(PooledGwas(), {"rows": ALL}, tolerances=SCAN, ordered=True),
    StageExample(PooledGwas(max_p=0.3), {"rows": ALL}, tolerances=SCAN, ordered=True),
]
NUMBERS = ["beta", "standard_error", "statistic", "p_value", "neg_log_10_p_value", "effect_allele_frequency"]


def pooled(tables: pl.DataFrame, **more: Any) -> pl.DataFrame:
    """What the stage gives."""
    return run_stage(PooledGwas.model_validate(more), {"rows": tables}, 3)[""]


def scanned(cohort: Cohort, sheet: pl.DataFrame, **given: Any) -> pl.DataFrame:
    """What linear_gwas gives of all people on the autosomes, as pooled_gwas orders it."""
    stage = LinearGwas.model_validate({"traits": ("height",), "covariates": ("age", "sex"), **given})
    rows = run(stage, {"genotypes": cohort, "samples": sheet})[""].frame
    rows = rows.with_columns(pl.col("chromosome").str.strip_prefix("chr")).filter(~pl.col("chromosome").is_in(["X", "XY", "MT"]))
    return rows.sort(pl.col("chromosome").cast(pl.Int64), "base_pair_location")


def test_pooled_gwas__is_the_scan_of_all_people() -> None:
    found, expected = pooled(ALL), scanned(small_cohort(), small_sheet())
    assert found["n"].n_unique() > 3
    assert found["reason"].drop_nulls().to_list() == ["no variation among the called samples", "too few called samples"]
    assert_frame_equal(found, expected, rel_tol=1e-8, abs_tol=1e-10)


def test_pooled_gwas__takes_the_mean_of_the_site_for_a_missing_call() -> None:
    import statsmodels.api as sm

    found = pooled(pl.concat([leaving(site, missing="mean") for site in SITES]))
    sites = [people_of(small_cohort(), site) for site in SITES]
    sheet = pl.concat([site.people for site in sites]).join(small_sheet(), on="sample_id", how="left", maintain_order="left")
    values = sheet.select("height", "age", "sex").cast(pl.Float64).to_numpy()
    used = ~np.isnan(values).any(axis=1)
    edges = np.cumsum([0, *(site.people.height for site in sites)])
    for row in found.filter(pl.col("reason").is_null()).iter_rows(named=True):
        at = small_cohort().rows.frame["variant_id"].to_list().index(row["variant_id"])
        filled = []
        for site, start, stop in zip(sites, edges[:-1], edges[1:], strict=True):
            calls, here = codes(site.rows, site.people.height)[at].astype(float), used[start:stop]
            calls[calls == 3] = calls[here & (calls != 3)].mean()
            filled.append(calls)
        fit = sm.OLS(values[used, 0], np.column_stack([np.concatenate(filled), np.ones(len(values)), values[:, 1:]])[used]).fit()
        told = [row[name] for name in ("beta", "standard_error", "statistic", "p_value")]
        np.testing.assert_allclose(told, [fit.params[0], fit.bse[0], fit.tvalues[0], fit.pvalues[0]], rtol=1e-8)
        assert row["n"] == used.sum()


@needs_data
def test_pooled_gwas__has_plinks_numbers_of_three_sites() -> None:
    whole, sheet = hapmap3(), hapmap3_sheet()
    few = Cohort(Part(whole.rows.frame.gather_every(11), {"calls": whole.rows.arrays["calls"][::11]}), whole.people)
    tables = [leaving(site, few, sheet, trait="y_lin", covariates=COVARIATES) for site in SITES]
    found = pooled(pl.concat(tables))
    assert_frame_equal(found, scanned(few, sheet, traits=("y_lin",), covariates=COVARIATES), rel_tol=1e-8, abs_tol=1e-10)
    table = read_columns(HAPMAP3 / "glm_linear_cov12.y_lin.glm.linear")
    at = np.flatnonzero(np.isin(table["ID"], found["variant_id"].to_list()))
    rows = found.join(pl.DataFrame({"variant_id": table["ID"][at].tolist()}), on="variant_id", maintain_order="right")
    assert rows.height == len(at) > 1000
    sign = np.where(table["A1"][at] != table["ALT"][at], -1, 1)
    np.testing.assert_array_equal(rows["n"], table["OBS_CT"][at].astype(int))
    assert_printed(sign * rows["beta"].to_numpy(), table["BETA"][at], 5e-7)
    assert_printed(rows["standard_error"], table["SE"][at], 5e-7)
    assert_printed(sign * rows["statistic"].to_numpy(), table["T_STAT"][at], 5e-6)
    assert_printed(rows["p_value"], table["P"][at], 5e-6)


def test_pooled_gwas__leaves_out_a_variant_that_a_site_does_not_have() -> None:
    lost = ["rs0", "rs5"]
    tables = pl.concat([ALL.filter((pl.col("site") != "oslo") | ~pl.col("variant_id").is_in(lost))])
    part = PooledGwas().pooled(Part(tables), stage_of("oslo").agreed)
    assert part.counts == {"variants_out": ALL.height // 3 - 2, "variants_not_everywhere": 2}
    assert_frame_equal(pooled(tables), pooled(ALL).filter(~pl.col("variant_id").is_in(lost)))


def test_pooled_gwas__does_not_take_other_alleles_for_the_same_variant() -> None:
    cohort = small_cohort()
    turned = Cohort(
        cohort.rows.replaced(frame=cohort.rows.frame.rename({"ref": "alt", "alt": "ref"}).select(cohort.rows.frame.columns)), cohort.people
    )
    tables = [leaving(site, turned if site == "rome" else None) for site in SITES]
    assert pooled(pl.concat(tables)).height == 0


def test_pooled_gwas__says_what_is_flat_or_collinear() -> None:
    cohort, sheet = small_cohort(), small_sheet()
    for columns, reason in (
        ({"height": pl.lit(3.0)}, "the trait does not vary among the called samples"),
        ({"sex": pl.col("age") * 2 + 1}, "the covariates are collinear among the called samples"),
    ):
        tables = pl.concat([leaving(site, cohort, sheet.with_columns(**columns)) for site in SITES])
        assert reason in pooled(tables)["reason"].to_list()
    calls = codes(cohort.rows, cohort.people.height)
    sexes = cohort.people.join(sheet, on="sample_id", how="left", maintain_order="left")["sex"].fill_null(0).to_numpy()
    calls[0] = sexes
    tables = pl.concat([leaving(site, with_calls(cohort, calls)) for site in SITES])
    assert pooled(tables).filter(variant_id="rs0")["reason"].to_list() == ["collinear with the covariates"]


def test_pooled_gwas__says_that_masks_do_not_cancel() -> None:
    wrong = {**shared("oslo"), "rome": "not what rome has, by a slip of hand"}
    tables = pl.concat([leaving(site, secrets=wrong if site == "oslo" else shared(site)) for site in SITES])
    with pytest.raises(DataError, match=r"masks of the sites do not cancel at 1:.*different secrets.*under a new study"):
        pooled(tables)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (ALL.filter(pl.col("site") != "rome"), "the table of site 'rome' is missing"),
        (pl.concat([ALL, ALL.filter(site="oslo")]), "the table of a site has the variant .* twice"),
        (pl.concat([ALL.filter(pl.col("site") != "oslo"), leaving("oslo", missing="mean")]), "have not agreed on columns.*genotype, else"),
        (ALL.with_columns(masked=pl.lit("zz")), "a row has no masked sums"),
        (ALL.with_columns(masked=pl.lit("00")), "a row has no masked sums of 5 columns"),
        (ALL[:0], "give the tables that site_gwas_sums made"),
    ],
)
def test_pooled_gwas__names_what_is_missing_double_or_not_agreed(tables: pl.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pooled(tables)


def test_pooled_gwas__refuses_other_tables_at_plan_time() -> None:
    with pytest.raises(StageError, match="no column 'masked'"):
        plan_stage(PooledGwas(), {"rows": ALL.drop("masked")})
    with pytest.raises(StageError, match="column 'digits' is String, and Int64"):
        plan_stage(PooledGwas(), {"rows": ALL.cast({"digits": pl.String})})
