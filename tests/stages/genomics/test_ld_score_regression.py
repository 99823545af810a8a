"""ld_score_regression: traits meet LD scores and one another by variant and alleles, and the numbers are ldsc's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.genomics.ld_score_regression import LdScoreRegression
from pipeline.tables.part import added_counts
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests.kernels.test_ld_score_regression import CORRELATION, HELD, ONE_STEP, TWO_STEPS, M, two_traits
from tests.stages.genomics.cohorts import run


@cache
def tables() -> dict[str, pl.DataFrame]:
    """Two scans as one table, alleles the other way round in some rows; LD scores in the order of the genome on two chromosomes."""
    z, n, ld = two_traits()
    place = np.arange(4000)
    variants = pl.DataFrame(
        {
            "chromosome": np.where(place < 2500, "2", "10"),
            "base_pair_location": np.where(place < 2500, place, place - 2500) + 1,
            "variant_id": [f"rs{number}" for number in place],
        }
    )
    scores = variants.with_columns(ld_score=pl.Series(ld), minor_allele_frequency=pl.Series(np.where(place % 2 == 0, 0.3, 0.04)))
    scans = []
    for number, (trait, turned) in enumerate((("ldl", place % 3 == 0), ("height", place % 5 == 0))):
        sign = np.where(turned, -1.0, 1.0)
        scans.append(
            variants.with_columns(
                effect_allele=pl.Series(np.where(turned, "A", "G")),
                other_allele=pl.Series(np.where(turned, "G", "A")),
                beta=pl.Series(sign * z[number] * 0.02),
                standard_error=pl.lit(0.02),
                n=pl.Series(n[number]).cast(pl.Int64),
                trait=pl.lit(trait),
            )
        )
    return {"associations": pl.concat(scans), "ld_scores": scores}


def some(rows: int) -> dict[str, pl.DataFrame]:
    return {
        "associations": pl.concat([frame[:rows] for frame in tables()["associations"].partition_by("trait")]),
        "ld_scores": tables()["ld_scores"][:rows],
    }


FLOATS = (
    "mean_n",
    "mean_chi_square",
    "lambda",
    "heritability",
    "heritability_se",
    "intercept",
    "intercept_se",
    "ratio",
    "ratio_se",
)
PAIRS = ("genetic_covariance", "genetic_covariance_se", "genetic_correlation", "genetic_correlation_se", "p_value")
EXAMPLES = [
    StageExample(LdScoreRegression(blocks=5, variants=15_000), some(400), tolerances=dict.fromkeys((*FLOATS, "ratio_se", *PAIRS), 1e-8))
]


def row(stage: LdScoreRegression, trait: str = "ldl", name: str = "") -> dict[str, Any]:
    found = run_stage(stage, tables())[name]
    return (found if name else found.filter(trait=trait)).row(0, named=True)


def test_ld_score_regression__is_ldsc() -> None:
    names = ("heritability", "heritability_se", "intercept", "intercept_se")
    two, one = row(LdScoreRegression(variants=int(M))), row(LdScoreRegression(variants=int(M), two_step=None))
    assert [two[name] for name in names] == pytest.approx(TWO_STEPS, rel=1e-9)
    assert [one[name] for name in names] == pytest.approx(ONE_STEP, rel=1e-9)
    assert two["ratio"] == pytest.approx((TWO_STEPS[2] - 1) / (two["mean_chi_square"] - 1), rel=1e-9)
    assert two["ratio_se"] == pytest.approx(TWO_STEPS[3] / (two["mean_chi_square"] - 1), rel=1e-9)
    assert (two["variants"], two["mean_n"]) == (4000, two_traits()[1][0].mean())
    held = row(LdScoreRegression(variants=int(M), confounded=False))
    assert (held["intercept"], held["intercept_se"], held["ratio"]) == (1, None, None)
    assert held["heritability"] > HELD[0]


def test_ld_score_regression__turns_effects_round_for_correlations() -> None:
    found = row(LdScoreRegression(variants=int(M)), name="correlations")
    names = (*PAIRS[2:4], *PAIRS[:2], "intercept", "intercept_se")
    assert [found[name] for name in names] == pytest.approx(CORRELATION, rel=1e-9)
    assert (found["trait_1"], found["trait_2"], found["variants"]) == ("height", "ldl", 4000)
    assert found["p_value"] == pytest.approx(9e-21, rel=0.05)


def test_ld_score_regression__counts_common_variants_and_is_the_same_for_any_parts(workers: ClusterSession) -> None:
    stage = LdScoreRegression(blocks=50)
    assert row(stage)["heritability"] == pytest.approx(row(LdScoreRegression(blocks=50, variants=2000))["heritability"], rel=1e-12)
    assert_same_for_any_parts(stage, some(600), ["trait"], session=workers)


def test_ld_score_regression__counts_rows_that_are_left_out() -> None:
    rows, scores = tables()["associations"], tables()["ld_scores"]
    known = rows.with_columns(beta=pl.when(pl.col("variant_id") != "rs7").then("beta"))
    session = Counting()
    torn = {"associations": pl.concat([known, known[9:10]]), "ld_scores": pl.concat([scores[2:], scores[-1:]])}
    found = run(LdScoreRegression(blocks=50), torn, session=session)[""]
    assert session.counts == {"tested:without_effect": 2, "tested:unmatched": 2 * 3}
    assert found.counts["twice"] == 2
    assert found.frame.sort("trait")["variants"].to_list() == [3996, 3995]


class Counting(Session):
    """Keeps what parts counted."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def measure(self, name: str | None, stage: str, parts: Sequence[Any]) -> None:
        self.counts = added_counts([self.counts, *(part.counts for part in parts)])


def test_ld_score_regression__refuses_what_it_cannot_tell() -> None:
    with pytest.raises(DataError, match=r"trait 'height' has 100 variants with an LD score, and 200 blocks"):
        run_stage(LdScoreRegression(), some(100))
    strange = {**tables(), "ld_scores": tables()["ld_scores"].with_columns(variant_id=pl.lit("x") + pl.col("variant_id"))}
    with pytest.raises(DataError, match="no association has an LD score"):
        run_stage(LdScoreRegression(), strange)
    flat = {**tables(), "ld_scores": tables()["ld_scores"].with_columns(ld_score=pl.lit(0.0))}
    with pytest.raises(DataError, match="the regression of trait 'height' has no solution: LD scores of its 4000 variants are 0 to 0"):
        run_stage(LdScoreRegression(), flat)
    with pytest.raises(StageError, match="no minor_allele_frequency to count common variants by"):
        plan_stage(LdScoreRegression(), {**tables(), "ld_scores": tables()["ld_scores"].drop("minor_allele_frequency")})
