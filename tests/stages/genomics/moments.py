"""What the tests of moments share: those of a small cohort, of three shards of it, and of some people."""

from __future__ import annotations

from typing import Any

import polars as pl

from pipeline.stages.genomics.gwas_moments import GwasMoments
from pipeline.stages.genomics.linear_gwas import LinearGwas
from tests.stages.genomics.cohorts import Cohort, Data, run, small_cohort, small_sheet
from tests.stages.genomics.sites import people_of

TRAITS, COVARIATES = ("height", "score"), ("age", "sex")
SHARDS = ("berlin", "oslo", "rome")
GONE = ("p1", "p5", "p8", "p30")


def sheet_with_gaps() -> pl.DataFrame:
    """The small sheet, where some lack the score or their age: three different sets of people."""
    several = pl.col("sample_id").is_in(["p2", "p9", "p17"])
    score = pl.col("score") + 3 * pl.col("sex") + pl.col("score").sin() * 9
    return small_sheet().with_columns(
        score=pl.when(~several).then(score), age=pl.when(pl.col("sample_id") != "p20").then(pl.col("age"))
    )  # fmt: skip


def stage_of(cohort: str, **more: Any) -> GwasMoments:
    """The stage of a cohort."""
    return GwasMoments.model_validate({"cohort": cohort, "traits": TRAITS, "covariates": COVARIATES, **more})


def moments_of(cohort: str, people: Cohort | None = None, sheet: pl.DataFrame | None = None, **more: Any) -> pl.DataFrame:
    """The moments of a cohort's people who are in the sheet."""
    data: dict[str, Data] = {"genotypes": people or small_cohort(), "samples": sheet_with_gaps() if sheet is None else sheet}
    return run(stage_of(cohort, **more), data, 2)[""].frame


def shards() -> pl.DataFrame:
    """The moments of three shards, below one another."""
    return pl.concat([moments_of(name, people_of(small_cohort(), name)) for name in SHARDS])


def gone(sheet: pl.DataFrame | None = None) -> pl.DataFrame:
    """The sheet of those who have withdrawn."""
    return (sheet_with_gaps() if sheet is None else sheet).filter(pl.col("sample_id").is_in(GONE))


def stayed(sheet: pl.DataFrame | None = None) -> pl.DataFrame:
    """The sheet of the others."""
    return (sheet_with_gaps() if sheet is None else sheet).filter(~pl.col("sample_id").is_in(GONE))


def scanned(sheet: pl.DataFrame, cohort: Cohort | None = None, **more: Any) -> pl.DataFrame:
    """What linear_gwas gives of a sheet's people on the autosomes, by chromosome, place and trait."""
    stage = LinearGwas.model_validate({"traits": TRAITS, "covariates": COVARIATES, **more})
    rows = run(stage, {"genotypes": cohort or small_cohort(), "samples": sheet})[""].frame
    rows = rows.with_columns(pl.col("chromosome").str.strip_prefix("chr")).filter(~pl.col("chromosome").is_in(["X", "XY", "MT"]))
    return in_order(rows)


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Results by chromosome, place and trait."""
    return rows.sort(pl.col("chromosome").cast(pl.Int64), "base_pair_location", "trait")
