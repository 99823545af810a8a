"""logistic_gwas with the predictions of a whole-genome regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.genomics.logistic_gwas import LogisticGwas
from pipeline.tables.part import Part
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


FIRTH = {
    # regenie 4.1.2 --firth --pThresh 0.05, without --approx: BETA, SE, CHISQ, LOG10P of the rarest and the strongest that are refitted
    ("y_bin", "rs28603308"): (0.914879, 0.487427, 3.7259, 1.27104),
    ("y_bin", "rs708478"): (1.00621, 0.503984, 4.24005, 1.40361),
    ("y_bin", "rs17009337"): (-1.65784, 0.783122, 5.85769, 1.80941),
    ("y_bin", "rs2190748"): (0.872178, 0.127987, 49.7294, 11.7533),
    ("y_bin", "rs3129882"): (0.769726, 0.122639, 41.8835, 10.0138),
    ("y_bin", "rs710870"): (-0.755238, 0.125916, 38.1558, 9.18498),
    ("y_rare", "rs7155738"): (1.89809, 0.837757, 3.88832, 1.31316),
    ("y_rare", "rs970657"): (1.47084, 0.705578, 3.55931, 1.22759),
    ("y_rare", "rs17597092"): (1.75678, 0.583306, 7.50992, 2.21211),
    ("y_rare", "rs6875273"): (1.4784, 0.283335, 30.012, 7.36715),
    ("y_rare", "rs710870"): (-1.21017, 0.282781, 20.039, 5.11987),
    ("y_rare", "rs10132763"): (-1.13908, 0.265372, 19.8308, 5.07259),
}


@needs_data
def test_logistic_gwas__by_full_firth_gives_what_regenie_printed() -> None:
    whole = hapmap3()
    rows = whole.rows.frame["variant_id"].is_in({variant for _, variant in FIRTH}).arg_true().to_numpy()
    cohort = Cohort(Part(whole.rows.frame[rows], {"calls": whole.rows.arrays["calls"][rows]}), whole.people)
    data: dict[str, Cohort | pl.DataFrame] = {
        "genotypes": cohort, "samples": hapmap3_sheet(), "predictions": printed_predictions("s1_bt", TRAITS, cohort.people)
    }  # fmt: skip
    found = run(LogisticGwas(traits=TRAITS, covariates=COVARIATES, method="firth"), data)[""]
    assert found.counts["audited"] > 2
    assert "audited_off" not in found.counts
    for (trait, variant), (beta, error, chi_square, logarithm) in FIRTH.items():
        row = found.frame.row(by_predicate=(pl.col("trait") == trait) & (pl.col("variant_id") == variant), named=True)
        assert row["test"] == "firth_lrt"
        assert [row["beta"], row["standard_error"]] == pytest.approx([beta, error], rel=2e-4)
        assert [row["statistic"] ** 2, row["neg_log_10_p_value"]] == pytest.approx([chi_square, logarithm], rel=1e-5)


@pytest.mark.parametrize("method", [*PRINTED, "firth", "wald"])
def test_logistic_gwas__with_predictions_is_the_same_for_any_parts(method: str, workers: ClusterSession) -> None:
    found = same_for_any_parts(small_gwas(method=method), small_data(), workers)[""]
    assert (found.counts["people_tall"], found.counts["people_marked"]) == (38, 39)


def test_logistic_gwas__takes_methods_that_go_with_predictions_alone() -> None:
    data = small_data()
    tables: dict[str, Any] = {"genotypes": small_cohort().rows, "samples": data["samples"], "predictions": data["predictions"]}
    axes = {"calls": small_cohort().people}
    with pytest.raises(StageError, match="firth_fallback does not take predictions"):
        plan_stage(small_gwas(method="firth_fallback"), tables, axes)
    with pytest.raises(StageError, match="Firth's rows are tested by the likelihood ratio already"):
        plan_stage(small_gwas(p="lrt"), tables, axes)
    del tables["predictions"]
    with pytest.raises(StageError, match="spa needs predictions of a whole_genome_regression"):
        plan_stage(small_gwas(method="spa"), tables, axes)
