"""Variants among the covariates: a scan conditional on them, as PLINK 2's --condition-list, in every scan."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stage import Stage
from pipeline.stages.genomics.genotype_features import GenotypeFeatures
from pipeline.stages.genomics.gwas_moments import GwasMoments
from pipeline.stages.genomics.heritability import Heritability
from pipeline.stages.genomics.interaction_gwas import InteractionGwas
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.stages.genomics.logistic_gwas import LogisticGwas
from pipeline.stages.genomics.mixed_model_gwas import MixedModelGwas
from pipeline.stages.genomics.whole_genome_regression import WholeGenomeRegression
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.stages import plan_stage
from tests.kernels.plink_files import DATA, needs_data
from tests.stages.genomics.cohorts import (
    HAPMAP3,
    Cohort,
    hapmap3,
    hapmap3_sheet,
    run,
    same_for_any_parts,
    small_cohort,
    small_sheet,
)

LEADS = ("rs12", "rs40")
TRAIT: dict[str, Any] = {"traits": ["height"]}


def conditioned(cohort: Cohort, sheet: pl.DataFrame, leads: tuple[str, ...]) -> Cohort:
    """The sheet's people who have genotypes, with the leads' dosages beside, as genotype_features and a join give them."""
    found = run(GenotypeFeatures(), {"genotypes": cohort, "variants": pl.DataFrame({"variant_id": leads})})[""]
    order = found.frame.with_row_index().join(sheet, on="sample_id", how="inner", maintain_order="right")
    array = found.part.arrays["dosages"][order["index"].to_numpy()]
    return Cohort(Part(order.drop("index"), {"dosages": array}), found.axes["dosages"])


def plain(rows: Cohort) -> pl.DataFrame:
    """The same with a column of numbers for each lead."""
    array = rows.rows.arrays["dosages"].astype(float)
    names = rows.people["variant_id"].to_list()
    return rows.rows.frame.with_columns(pl.Series(name, array[:, i], nan_to_null=True) for i, name in enumerate(names))


@pytest.mark.parametrize(
    "stage",
    [
        LinearGwas(**TRAIT),
        LogisticGwas(traits=("ill",), method="wald", screen=1.0),
        InteractionGwas(**TRAIT, covariates=("age",), interactions=("age",)),
        MixedModelGwas(**TRAIT, method="score"),
        WholeGenomeRegression(**TRAIT, block_size=20, folds=2),
        Heritability(**TRAIT),
    ],
    ids=lambda stage: stage.name,
)
def test_variants__are_covariates_of_their_dosages(stage: Stage) -> None:
    cohort, sheet = small_cohort(), small_sheet().with_columns(ill=(pl.col("height") > 170).cast(pl.Float64))
    samples = conditioned(cohort, sheet, LEADS)
    assert plain(samples).select(LEADS).null_count().sum_horizontal().item() > 0
    found = run(stage.model_copy(update={"covariates": ("age", "dosages")}), {"genotypes": cohort, "samples": samples})[""].frame
    expected = run(stage.model_copy(update={"covariates": ("age", *LEADS)}), {"genotypes": cohort, "samples": plain(samples)})[""].frame
    assert found.equals(expected)
    if stage.name == "linear_gwas":
        assert found.filter(pl.col("variant_id").is_in(LEADS))["reason"].to_list() == ["collinear with the covariates"] * 2


@pytest.mark.process
def test_variants__are_the_same_covariates_from_any_parts(workers: ClusterSession) -> None:
    cohort = small_cohort()
    data = {"genotypes": cohort, "samples": conditioned(cohort, small_sheet(), LEADS)}
    found = same_for_any_parts(LinearGwas(**TRAIT, covariates=("age", "dosages")), data, workers)[""].frame
    assert found["statistic"].drop_nulls().len() > 30


@needs_data
def test_hapmap3__conditional_on_its_leads_is_plinks(tmp_path: Path) -> None:
    """Within PLINK 2's printed digits; it is run where it is installed."""
    plink, leads = shutil.which("plink2"), ("rs2376727", "rs6875273", "rs710870")
    if not plink:
        pytest.skip("plink2 is not installed")
    (tmp_path / "leads").write_text("\n".join(leads), encoding="utf-8")
    command = [
        plink,
        "--bfile",
        str(DATA / "hapmap3" / "data"),
        "--autosome",
        "--pheno",
        str(HAPMAP3 / "hm3.pheno"),
        "--pheno-name",
        "y_lin",
    ]
    command += ["--covar", str(HAPMAP3 / "hm3.covar12"), "--covar-name", "PC1,PC2", "--condition-list", str(tmp_path / "leads")]
    subprocess.run([*command, "--glm", "hide-covar", "--threads", "1", "--out", str(tmp_path / "x")], check=True, capture_output=True)
    theirs = pl.read_csv(tmp_path / "x.y_lin.glm.linear", separator="\t", null_values="NA", infer_schema_length=None)
    samples = conditioned(hapmap3(), hapmap3_sheet(), leads)
    stage = LinearGwas(traits=("y_lin",), covariates=("PC1", "PC2", "dosages"))
    ours = run(stage, {"genotypes": hapmap3(), "samples": samples}, 2)[""].frame
    both = theirs.join(ours, left_on="ID", right_on="variant_id", how="inner")
    assert both.height == theirs.height > 14_000
    assert both["OBS_CT"].equals(both["n"].rename("OBS_CT"))
    sign = (pl.col("A1") == pl.col("effect_allele")).cast(pl.Int8) * 2 - 1
    tested = both.with_columns(t=sign * pl.col("statistic")).filter(pl.col("T_STAT").is_not_null())
    assert both.height - tested.height == tested["t"].null_count() + len(leads)
    np.testing.assert_allclose(tested["t"], tested["T_STAT"], rtol=5e-6, atol=1e-8)
    np.testing.assert_allclose(tested["p_value"], tested["P"], rtol=5e-6)


def test_variants__are_refused_where_only_numbers_go() -> None:
    samples = conditioned(small_cohort(), small_sheet(), LEADS)
    axes = {"calls": small_cohort().people, "dosages": samples.people}
    tables = {"genotypes": small_cohort().rows, "samples": samples.rows}
    with pytest.raises(StageError, match="the table has no column 'dosages'"):
        plan_stage(GwasMoments(cohort="first", **TRAIT, covariates=("dosages",)), tables, axes)
    with pytest.raises(StageError, match="'dosages' is several variants, and effects are multiplied with columns of numbers"):
        plan_stage(InteractionGwas(**TRAIT, covariates=("dosages",), interactions=("dosages",)), tables, axes)
