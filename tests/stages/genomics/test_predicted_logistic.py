"""logistic_gwas with the predictions of a whole-genome regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.genomics.logistic_gwas import LogisticGwas
from pipeline.tables.session import ClusterSession
from pipeline.testing.stages import plan_stage
from tests.kernels.plink_files import floats, needs_data
from tests.kernels.regenie_files import REGENIE, read_results
from tests.stages.genomics.cohorts import COVARIATES, Cohort, hapmap3, hapmap3_sheet, run, same_for_any_parts, small_cohort, small_sheet
from tests.stages.genomics.test_predicted_scan import printed_predictions, small_predictions

TRAITS = ("y_bin", "y_rare")
PRINTED = {"firth_approximate": "firth", "spa": "spa", "score": "score"}


def small_gwas(**given: Any) -> LogisticGwas:
    return LogisticGwas(**{"traits": ("tall", "marked"), "covariates": ("sex",), "screen": 0.5, **given})


def small_data() -> dict[str, Cohort | pl.DataFrame]:
    """Two binary traits of different people, and what is predicted of them."""
    sheet = small_sheet().with_columns(
        tall=(pl.col("height") > pl.col("height").median()).cast(pl.Float64),
        marked=(pl.col("score") > pl.col("score").quantile(0.7)).cast(pl.Float64) + 1,
    )
    named = {"height": "tall", "score": "marked", "weight": "weight"}
    return {"genotypes": small_cohort(), "samples": sheet, "predictions": small_predictions().with_columns(pl.col("trait").replace(named))}


@needs_data
@pytest.mark.parametrize("method", PRINTED)
def test_logistic_gwas__with_predictions_gives_what_regenie_printed(method: str) -> None:
    cohort, sheet = hapmap3(), hapmap3_sheet()
    data: dict[str, Cohort | pl.DataFrame] = {
        "genotypes": cohort, "samples": sheet, "predictions": printed_predictions("s1_bt", TRAITS, cohort.people)
    }  # fmt: skip
    found = run(LogisticGwas(traits=TRAITS, covariates=COVARIATES, method=None if method == "firth_approximate" else method), data, 2)[""]
    assert found.counts["audited"] > 8
    assert "audited_off" not in found.counts
    for trait in TRAITS:
        table = read_results(REGENIE / "hapmap3" / f"s2_bt_{PRINTED[method]}_{trait}.regenie.gz")
        rows = found.frame.filter(pl.col("variant_id").is_in(table["ID"].tolist()), trait=trait)
        assert rows["variant_id"].to_list() == table["ID"].tolist()
        assert rows["effect_allele"].to_list() == table["ALLELE1"].tolist()
        np.testing.assert_allclose(rows["effect_allele_frequency"], floats(table["A1FREQ"]), atol=6e-7)
        assert rows["n"].to_list() == floats(table["N"]).tolist()
        printed, logarithm = floats(table["CHISQ"]), floats(table["LOG10P"])
        off = abs(rows["neg_log_10_p_value"].to_numpy() - logarithm)
        at_the_edge = abs(logarithm - 1.30103) < 1e-3  # p of 0.05 in their digits: one may be refitted here and not there
        assert off[~at_the_edge].max() < 1e-3
        assert off.max() < 0.02
        assert np.quantile(abs(rows["statistic"].to_numpy() ** 2 / printed - 1), 0.999) < 1e-3
        for name, column in (("beta", "BETA"), ("standard_error", "SE")):
            off = abs(rows[name].to_numpy() / floats(table[column]) - 1)
            assert np.quantile(off, 0.999) < 1e-3, name
        assert set(rows["test"]) == {"score"} | ({method} if method != "score" else set())


@pytest.mark.parametrize("method", PRINTED)
def test_logistic_gwas__with_predictions_is_the_same_for_any_parts(method: str, workers: ClusterSession) -> None:
    found = same_for_any_parts(small_gwas(method=method), small_data(), workers)[""]
    assert (found.counts["people_tall"], found.counts["people_marked"]) == (38, 39)


def test_logistic_gwas__takes_methods_that_go_with_predictions_alone() -> None:
    data = small_data()
    tables: dict[str, Any] = {"genotypes": small_cohort().rows, "samples": data["samples"], "predictions": data["predictions"]}
    axes = {"calls": small_cohort().people}
    with pytest.raises(StageError, match="wald does not take predictions"):
        plan_stage(small_gwas(method="wald"), tables, axes)
    with pytest.raises(StageError, match="Firth's rows are tested by the likelihood ratio already"):
        plan_stage(small_gwas(p="lrt"), tables, axes)
    del tables["predictions"]
    with pytest.raises(StageError, match="spa needs predictions of a whole_genome_regression"):
        plan_stage(small_gwas(method="spa"), tables, axes)
