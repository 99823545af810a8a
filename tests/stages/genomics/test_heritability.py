"""heritability, beside GEMMA 0.98.5 on HapMap 3, least squares over all pairs, and each person left out in turn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from pipeline.errors import DataError, RunError
from pipeline.kernels.haseman_elston import haseman_elston
from pipeline.stages.genomics.heritability import Heritability
from pipeline.stages.genomics.mixed_model_gwas import MixedModelGwas
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables
from tests import example_tables as examples
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import hapmap3, hapmap3_sheet, run, same_for_any_parts, small_cohort, small_sheet

SCANNED: Tables = {"genotypes": examples.GENOTYPES, "samples": examples.SHEET}
NUMBERS = dict.fromkeys(("heritability", "standard_error", "genetic_variance", "residual_variance"), 1e-5)
EXAMPLES = [StageExample(Heritability(traits=("ldl",), covariates=("age",), method="haseman_elston"), SCANNED, examples.AXES, NUMBERS)]


@needs_data
def test_hapmap3__has_gemmas_share_and_error() -> None:
    """gemma -lmm, covariates age and sex01, relationships of plink2 --autosome --nonfounders --make-rel square: pve and se(pve)."""
    stage = Heritability(traits=("y_lin", "y_bin"), covariates=("age", "sex01"), prevalence=None)
    found = run(stage, {"genotypes": hapmap3(), "samples": hapmap3_sheet()}, 2)[""].frame
    assert found.row(0)[:3] == ("y_lin", "reml", 937)
    assert found["heritability"][0] == pytest.approx(0.631829, abs=5e-6)
    assert found["standard_error"][0] == pytest.approx(0.114432, abs=5e-6)
    assert found["trait"].to_list() == ["y_lin", "y_bin"]
    assert found["liability_heritability"].null_count() == 2


def test_reml__is_that_of_the_mixed_model_in_any_parts(workers: ClusterSession) -> None:
    data: Any = {"genotypes": small_cohort(), "samples": small_sheet()}
    found = same_for_any_parts(Heritability(traits=("score", "height"), covariates=("age",)), data, workers)[""]
    other = run(MixedModelGwas(traits=("score", "height"), covariates=("age",)), data)["variances"].frame
    assert found.frame.select(other.columns).rows() == other.rows()
    assert found.counts == {"people_score": 40, "people_height": 39}


def related(people: int = 30) -> tuple[Any, Any]:
    random = np.random.default_rng(6)
    shared = random.normal(size=(200, people // 5)).repeat(5, axis=1) + random.normal(size=(200, people))
    relationships = shared.T @ shared / 400
    trait = np.linalg.cholesky(relationships) @ random.normal(size=people) + random.normal(size=people)
    return relationships, (trait - trait.mean()) / trait.std(ddof=1)


def test_haseman_elston__is_least_squares_over_all_pairs_and_the_jackknife_over_people() -> None:
    relationships, trait = related()

    def slope(keep: Any) -> float:
        some, own = relationships[np.ix_(keep, keep)], trait[keep]
        pairs = np.triu_indices(len(own), 1)
        return float(stats.linregress(some[pairs], np.outer(own, own)[pairs]).slope)

    everyone = np.arange(len(trait))
    without = np.array([slope(np.delete(everyone, person)) for person in everyone])
    found = haseman_elston(relationships, trait)
    assert found.slope == pytest.approx(slope(everyone), rel=1e-10)
    n = len(trait)
    assert found.standard_error == pytest.approx(math.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()), rel=1e-9)
    assert np.isnan(haseman_elston(np.ones((5, 5)), trait[:5]).slope)


def test_liability__is_of_cases_above_a_threshold() -> None:
    """With as many cases in the sample as in the population it is h2 K (1 - K) / z^2 (Dempster & Lerner 1950, Genetics 35:212-236)."""
    sheet = small_sheet().drop_nulls("score")
    cases = sheet.with_columns(ill=(pl.col("score") > pl.col("score").median()).cast(pl.Int8)).filter(pl.col("sample_id") != "x1")
    there = cases.join(small_cohort().people, on="sample_id")
    share = float(there["ill"].to_numpy().mean())
    stage = Heritability(traits=("ill",), method="haseman_elston", prevalence=share)
    found = run(stage, {"genotypes": small_cohort(), "samples": cases})[""].frame.row(0, named=True)
    factor = share * (1 - share) / stats.norm.pdf(stats.norm.ppf(share)) ** 2
    assert found["liability_heritability"] == pytest.approx(factor * found["heritability"], rel=1e-9)
    assert found["liability_standard_error"] == pytest.approx(factor * found["standard_error"], rel=1e-9)
    with pytest.raises((DataError, RunError), match="trait 'score' has 40 values, and prevalence is of traits of two"):
        run(Heritability(traits=("score",), prevalence=0.1), {"genotypes": small_cohort(), "samples": small_sheet()})


def test_many_people__are_worked_in_tiles_that_are_not_kept(workers: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups of traits, of whom different people miss some: the tiles' sums are those of the whole matrix."""
    data: Any = {"genotypes": small_cohort(), "samples": small_sheet()}
    stage = Heritability(traits=("score", "height"), covariates=("age",), method="haseman_elston")
    whole = run(stage, data)[""]
    monkeypatch.setattr("pipeline.stages.genomics.heritability.WHOLE", 0)
    monkeypatch.setattr("pipeline.stages.genomics._tiles._LEAST", 12)
    tiled = same_for_any_parts(stage, data, workers)[""]
    assert tiled.frame.select(pl.exclude(pl.Float64)).rows() == whole.frame.select(pl.exclude(pl.Float64)).rows()
    for name in NUMBERS:
        np.testing.assert_allclose(tiled.frame[name], whole.frame[name], rtol=1e-9)
    assert tiled.counts == whole.counts


def test_too_many_people__are_refused_with_the_method_that_takes_more(monkeypatch: pytest.MonkeyPatch) -> None:
    data: Any = {"genotypes": small_cohort(), "samples": small_sheet()}
    monkeypatch.setattr("pipeline.stages.genomics.heritability.MOST_PEOPLE", 40)
    with pytest.raises((DataError, RunError), match=r"for 40 people at most, and these are 41\. On a CPU method: haseman_elston has room"):
        run(Heritability(traits=("score",)), data)
    assert run(Heritability(traits=("score",), method="haseman_elston"), data)[""].frame.height == 1
    monkeypatch.setattr("pipeline.stages.genomics.heritability.MOST_IN_TILES", 40)
    with pytest.raises((DataError, RunError), match=r"for 40 people at most, and these are 41\. Take a sample"):
        run(Heritability(traits=("score",), method="haseman_elston"), data)
