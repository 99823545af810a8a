"""mixed_model_gwas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import optimize, stats

from pipeline.errors import DataError, RunError, StageError
from pipeline.formats.plink import PlinkInput
from pipeline.kernels.mixed_model import Rotated, best_log_ratio, heritability, mixed_association, profile
from pipeline.stages.genomics.mixed_model_gwas import MixedModelGwas
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables
from tests import example_tables as examples
from tests.formats.reading import read
from tests.stages.genomics.cohorts import Cohort, Found, run, same_for_any_parts, small_cohort, small_sheet, with_calls
from tests.stages.genomics.inbred import lines_sheet, write_lines

SCANNED: Tables = {"genotypes": examples.GENOTYPES, "samples": examples.SHEET}
EXAMPLES = [
    StageExample(MixedModelGwas(traits=("ldl",), covariates=("age",), method="emmax"), SCANNED, examples.AXES, examples.SCAN),
]
GEMMA = {  # of the small cohort: p_wald, p_lrt and p_score, as GEMMA 0.98.5 -lmm 4 printed them
    "rs0": (0.8511432, 0.8418614, 0.8430556),
    "rs1": (0.9722854, 0.9705356, 0.9707457),
    "rs2": (0.3359606, 0.3063387, 0.3165493),
    "rs4": (0.3486499, 0.3190591, 0.3289280),
    "rs5": (0.7759022, 0.7621619, 0.7640876),
}


def gwas(**given: Any) -> MixedModelGwas:
    return MixedModelGwas.model_validate({"traits": ("height",), "covariates": ("age", "sex"), **given})


def small(sheet: pl.DataFrame | None = None, cohort: Cohort | None = None, **given: Any) -> dict[str, Found]:
    return run(gwas(**given), {"genotypes": cohort or small_cohort(), "samples": small_sheet() if sheet is None else sheet})


def families(people: int = 60) -> tuple[Any, Any, Any]:
    """Relationships of families of five, columns (intercept, a covariate, a trait that is inherited), and genotypes of 12 variants."""
    rng = np.random.default_rng(3)
    shared = rng.normal(size=(300, people // 5)).repeat(5, axis=1) + rng.normal(size=(300, people))
    genotypes = shared[:12] + 0.3 * rng.normal(size=(12, people))
    relationships = shared.T @ shared / 600
    trait = np.linalg.cholesky(relationships) @ rng.normal(size=people) + rng.normal(size=people)
    return relationships, np.column_stack([np.ones(people), rng.normal(size=people), trait]), genotypes


def dense(relationships: Any, columns: Any, genotype: Any, *, restricted: bool) -> tuple[float, float, float]:
    """Beta, its standard error and the likelihood, by inverses of whole covariances and a search of the ratio by values alone."""
    n, design, trait = len(columns), columns[:, :-1], columns[:, -1]
    if genotype is not None:
        design = np.column_stack([design, genotype])
    freedom = n - design.shape[1] if restricted else n

    def fit(log_ratio: float) -> tuple[float, Any, Any, float]:
        covariance = np.exp(log_ratio) * relationships + np.eye(n)
        inverse = np.linalg.inv(covariance)
        information = design.T @ inverse @ design
        beta = np.linalg.solve(information, design.T @ inverse @ trait)
        left = trait - design @ beta
        square = float(left @ inverse @ left)
        likelihood = freedom * np.log(square) + np.linalg.slogdet(covariance)[1]
        if restricted:
            likelihood += np.linalg.slogdet(information)[1]
        return -likelihood / 2, beta, np.linalg.inv(information), square

    best = optimize.minimize_scalar(lambda at: -fit(at)[0], bounds=(-8, 8), method="bounded", options={"xatol": 1e-10}).x
    likelihood, beta, spread, square = fit(best)
    return beta[-1], np.sqrt(spread[-1, -1] * square / (n - design.shape[1])), likelihood


@pytest.mark.parametrize("method", ["wald", "likelihood_ratio"])
def test_mixed_association__is_that_of_whole_covariances(method: str) -> None:
    relationships, columns, genotypes = families()
    apart, restricted = Rotated.of(relationships), method == "wald"
    turned, rotated = apart.vectors.T @ columns, genotypes @ apart.vectors
    null = best_log_ratio(apart.values, turned, None, restricted=restricted)
    assert abs(null[0]) < 5  # neither end of the range
    found = mixed_association(apart.values, turned, rotated, method, null)
    for place, genotype in enumerate(genotypes):
        beta, error, likelihood = dense(relationships, columns, genotype, restricted=restricted)
        statistic = beta / error
        if not restricted:
            above = likelihood - dense(relationships, columns, None, restricted=False)[2]
            statistic = np.sign(beta) * np.sqrt(2 * above)
        expected = [beta, error, statistic]
        np.testing.assert_allclose([found.beta[place], found.standard_error[place], found.statistic[place]], expected, rtol=2e-6)


@pytest.mark.parametrize("seed", range(10))
def test_best_log_ratio__of_centred_relationships_is_that_of_the_greatest_likelihood(seed: int) -> None:
    """Without restriction the likelihood then grows for ever with the ratio: the last place looked at may be above all but the top."""
    rng, people = np.random.default_rng(seed), 100
    shared = rng.normal(size=(300, people // 5)).repeat(5, axis=1) + rng.normal(size=(300, people))
    shared -= shared.mean(axis=1, keepdims=True)
    apart = Rotated.of(shared.T @ shared / 600)
    genotypes = (shared[:12] + 0.3 * rng.normal(size=(12, people))) @ apart.vectors
    trait = shared[20:].T @ rng.normal(size=280) / np.sqrt(140) + rng.normal(size=people)
    columns = apart.vectors.T @ np.column_stack([np.ones(people), rng.normal(size=people), trait])
    places = np.log(10) * np.linspace(-5, 5, 1_001)[:, None]
    for some in (None, genotypes):
        found = profile(best_log_ratio(apart.values, columns, some, restricted=False), apart.values, columns, some, restricted=False)
        most = np.max([profile(place, apart.values, columns, some, restricted=False).likelihood for place in places], axis=0)
        assert (found.likelihood >= most - 1e-9).all()


def test_mixed_association__by_emmax_is_generalized_least_squares_with_the_covariance_of_no_variant() -> None:
    from statsmodels.api import GLS

    relationships, columns, genotypes = families()
    apart = Rotated.of(relationships)
    turned = apart.vectors.T @ columns
    null = best_log_ratio(apart.values, turned, None, restricted=True)
    found = mixed_association(apart.values, turned, genotypes @ apart.vectors, "emmax", null)
    scaled = relationships / (relationships.diagonal().mean() - relationships.mean())
    covariance = np.exp(null[0]) * scaled + np.eye(len(columns))
    for place, genotype in enumerate(genotypes):
        fit = GLS(columns[:, -1], np.column_stack([columns[:, :-1], genotype]), sigma=covariance).fit()
        expected = [fit.params[-1], fit.bse[-1], fit.tvalues[-1]]
        np.testing.assert_allclose([values[place] for values in found], expected, rtol=1e-8)


def test_heritability__and_its_error_are_those_of_the_likelihood() -> None:
    relationships, columns, _ = families()
    apart = Rotated.of(relationships)
    share, error, residual = heritability(apart.values, apart.vectors.T @ columns)
    assert 0.1 < share < 0.95
    assert 0.01 < error < 0.5
    slower = heritability(apart.values, apart.vectors.T @ np.column_stack([columns[:, :-1], 3 * columns[:, -1]]))
    np.testing.assert_allclose(slower, [share, error, 9 * residual], rtol=1e-6)


@pytest.mark.parametrize(("place", "method"), [(0, "wald"), (1, "likelihood_ratio"), (2, "score")])
def test_mixed_model_gwas__is_gemmas(place: int, method: str) -> None:
    found = small(method=method)[""].frame
    rows = {row["variant_id"]: row for row in found.iter_rows(named=True)}
    for name, printed in GEMMA.items():
        assert rows[name]["p_value"] == pytest.approx(printed[place], rel=5e-6)
        assert (rows[name]["test"], rows[name]["n"]) == (method, 39)
    assert set(found.filter(pl.col("chromosome") == "MT")["p_value"]) == {None}


@pytest.mark.parametrize("method", ["wald", "emmax"])
def test_mixed_model_gwas__is_the_same_in_any_parts_and_processes(method: str, workers: ClusterSession) -> None:
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": small_cohort(), "samples": small_sheet()}
    found = same_for_any_parts(gwas(traits=("height", "score"), method=method), data, workers)
    assert found["variances"].frame["trait"].to_list() == ["height", "score"]
    assert found[""].counts.items() >= {"people_height": 39, "people_score": 40}.items()


def test_mixed_model_gwas__takes_relationships_from_markers() -> None:
    cohort = small_cohort()
    few = Cohort(Part(cohort.rows.frame[:20], {"calls": cohort.rows.arrays["calls"][:20]}), cohort.people)
    stage, samples = gwas(traits=("score",)), small_sheet()
    own = run(stage, {"genotypes": few, "samples": samples})
    other = run(stage, {"genotypes": few, "samples": samples, "markers": cohort})
    assert own["variances"].frame["heritability"][0] != other["variances"].frame["heritability"][0]
    strangers = Cohort(cohort.rows, cohort.people.with_columns(pl.col("sample_id") + "x"))
    with pytest.raises((DataError, RunError), match="not the same in the same order"):
        run(stage, {"genotypes": few, "samples": samples, "markers": strangers})


def test_mixed_model_gwas__says_why_there_is_no_result() -> None:
    cohort = small_cohort()
    found = small(small_sheet(), cohort, method="emmax")[""].frame
    assert found.filter(variant_id="rs59")["reason"].to_list() == ["nobody is called"]
    assert found.filter(variant_id="rs57")["reason"].to_list() == ["no variation among the used people"]
    copies = cohort.people.with_columns(copies=pl.Series(cohort.codes[0].astype(float)), height=pl.Series(np.sin(np.arange(41))))
    explained = small(copies.filter(pl.col("copies") < 3), cohort, covariates=("copies",))[""].frame
    assert explained["reason"][0] == "collinear with the covariates"
    alike = with_calls(cohort, np.zeros_like(cohort.codes))
    with pytest.raises((DataError, RunError), match="no autosomal variant varies among these people"):
        small(cohort=alike)


def test_mixed_model_gwas__keeps_the_rows_of_small_p_values() -> None:
    every, kept = (small(method="emmax", max_p=most)[""].frame for most in (1.0, 0.2))
    assert kept.height == every.filter(pl.col("p_value") <= 0.2).height > 0
    strongest = every.sort("p_value", nulls_last=True).row(0, named=True)
    freedom = 39 - 4
    assert strongest["p_value"] == pytest.approx(2 * stats.t.sf(abs(strongest["statistic"]), freedom), rel=1e-9)


def test_mixed_model_gwas__of_inbred_lines_is_that_of_their_calls_with_an_effect_of_a_line(tmp_path: Path) -> None:
    path, found = write_lines(tmp_path), {}
    for chromosomes in (-10, 22):
        reader = PlinkInput.model_validate({"path": path, "chromosomes": chromosomes})
        lines = Cohort(read(reader), reader.axes()["calls"])
        found[chromosomes] = run(gwas(covariates=("age",)), {"genotypes": lines, "samples": lines_sheet()}, 2)
    line, person = (found[key][""].frame for key in (-10, 22))
    assert line["p_value"].null_count() == 0
    np.testing.assert_allclose(line["p_value"], person["p_value"], rtol=1e-6)
    np.testing.assert_allclose(line["beta"], 2 * person["beta"], rtol=1e-6)
    assert_frame_equal(found[-10]["variances"].frame, found[22]["variances"].frame, rel_tol=1e-6)


def test_mixed_model_gwas__refuses_what_it_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StageError, match=r"sex changes nothing\. Leave it out"):
        small(sex="sex")
    monkeypatch.setattr("pipeline.stages.genomics.mixed_model_gwas.MOST_PEOPLE", 40)
    with pytest.raises((DataError, RunError), match=r"the whole matrix is held for 40 people at most, and these are 41\. Use whole_genome"):
        small()
