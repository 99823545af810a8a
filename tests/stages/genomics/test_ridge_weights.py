"""Weights of whole_genome_regression: those of plain cross-validation, and what they predict of people whom the model never saw."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import pack
from pipeline.kernels.left_out import left_out_fit
from pipeline.kernels.ridge_design import RidgeDesign
from pipeline.kernels.ridge_predictors import SHARES
from pipeline.stages.genomics.polygenic_score import PolygenicScore
from pipeline.stages.genomics.whole_genome_regression import WholeGenomeRegression
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from tests import example_tables as examples
from tests.kernels.test_ridge_predictors import PEOPLE, SIZES, cohort, cross_validated, projected
from tests.stages.genomics.cohorts import Cohort, run, same_for_any_parts
from tests.stages.genomics.test_whole_genome_regression import LIMITS, SCANNED, TWO_TRAITS

Numbers = NDArray[np.float64]
EXAMPLES = [StageExample(WholeGenomeRegression(**TWO_TRAITS, weights=True), SCANNED, examples.AXES, {**LIMITS, "weight": 1e-5})]


@cache
def study() -> tuple[Cohort, pl.DataFrame, tuple[Numbers, Numbers, Numbers]]:
    """The cohort of the kernels' tests as tables: a chromosome a block."""
    calls, covariates, traits = cohort()
    chromosomes = np.repeat(np.arange(1, len(SIZES) + 1), SIZES).astype(str)
    frame = pl.DataFrame({"chromosome": chromosomes, "base_pair_location": 1 + np.arange(len(calls))})
    frame = frame.with_columns(variant_id=pl.format("v{}", "base_pair_location"), ref=pl.lit("A"), alt=pl.lit("G"))
    people = pl.DataFrame({"sample_id": [f"s{at}" for at in range(PEOPLE)]})
    sheet = people.with_columns(
        *(pl.Series(f"c{at}", column) for at, column in enumerate(covariates.T)),
        *(pl.Series(f"t{at}", column, nan_to_null=True) for at, column in enumerate(traits.T)),
    )
    return Cohort(Part(frame, {"calls": pack(calls)}), people), sheet, (np.where(calls == 3, np.nan, calls), covariates, traits)


def plain_weights(genotypes: Numbers, covariates: Numbers, trait: Numbers) -> Numbers:
    """Level 0 and level 1 by cross-validation, block by block; the folds' effects of a copy of ALT, averaged."""
    basis = np.column_stack([np.ones(PEOPLE), covariates])
    scaled = projected(trait[None], basis)[0]
    filled = np.where(np.isnan(genotypes), np.nanmean(genotypes, axis=1, keepdims=True), genotypes)
    left = filled - np.linalg.lstsq(basis, filled.T, rcond=None)[0].T @ basis.T
    unit = np.sqrt(PEOPLE - basis.shape[1]) / np.linalg.norm(left, axis=1)
    predictors, effects = list[Numbers](), list[Numbers]()
    for block, one in zip(np.split(projected(genotypes, basis), np.cumsum(SIZES)[:-1]), np.split(unit, np.cumsum(SIZES)[:-1]), strict=True):
        for share in SHARES:
            found, by_fold = cross_validated(block, scaled, len(genotypes) * (1 - share) / share)
            spread = found.std(ddof=1)
            predictors.append((found - found.mean()) / spread)
            effects.append(np.array(by_fold) * one / spread)
    rows = np.array(predictors)
    tried = [cross_validated(rows, scaled, len(rows) * (1 - share) / share) for share in SHARES]
    stacked = np.array(min(tried, key=lambda one: float(((one[0] - scaled) ** 2).mean()))[1])
    blocks = np.split(np.arange(len(rows)), len(SIZES))
    return np.concatenate([sum(stacked[:, [place]] * effects[place] for place in some).mean(axis=0) for some in blocks])


def test_weights__are_those_of_plain_cross_validation(workers: ClusterSession) -> None:
    genotypes, sheet, (calls, covariates, traits) = study()
    stage = WholeGenomeRegression(traits=("t0", "t1", "t2"), covariates=("c0", "c1"), block_size=max(SIZES), weights=True)
    found = same_for_any_parts(stage, {"genotypes": genotypes, "samples": sheet}, workers)["weights"].frame
    assert found.columns == ["trait", "chromosome", "base_pair_location", "variant_id", "effect_allele", "other_allele", "weight"]
    assert found["effect_allele"].unique().to_list() == ["G"]
    for place in range(3):
        own = found.filter(trait=f"t{place}")
        assert own["variant_id"].to_list() == genotypes.rows.frame["variant_id"].to_list()
        expected = plain_weights(calls, covariates, traits[:, place])
        np.testing.assert_allclose(own["weight"], expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("kind", "left_out"), [("quantitative", 100), ("binary", 100), ("binary", 5_000), ("time_to_event", 100)])
def test_weights__predict_people_whom_the_model_never_saw(kind: str, left_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.genomics._ridge_levels.LEFT_OUT", left_out)
    random = np.random.default_rng(6)
    calls = random.binomial(2, random.uniform(0.1, 0.9, (200, 1)), (200, 700)).astype(np.uint8)
    truth = random.normal(size=200) @ (calls - calls.mean(axis=1, keepdims=True))
    liability = truth / truth.std() + random.normal(0, 0.5, 700)
    frame = pl.DataFrame(
        {"chromosome": ["1"] * 120 + ["2"] * 80, "base_pair_location": range(200)}, schema_overrides={"base_pair_location": pl.Int64}
    )
    frame = frame.with_columns(variant_id=pl.format("v{}", pl.int_range(200)), ref=pl.lit("A"), alt=pl.lit("G"))
    people = pl.DataFrame({"sample_id": [f"s{at}" for at in range(700)], "sex": pl.Series([1, 2] * 350, dtype=pl.Int8)})
    whole = Cohort(Part(frame, {"calls": pack(calls)}), people)
    values = {"y": liability if kind == "quantitative" else (liability > 0.4) * 1.0, "time": np.exp(-liability), "event": 1.0}
    sheet = people.with_columns(**{name: pl.lit(value) if isinstance(value, float) else pl.Series(value) for name, value in values.items()})
    traits = {"death": {"time": "time", "event": "event"}} if kind == "time_to_event" else ["y"]
    stage = WholeGenomeRegression.model_validate({"traits": traits, "kind": kind, "block_size": 40, "weights": True})
    weights = run(stage, {"genotypes": whole, "samples": sheet.head(500)}, 3)["weights"].frame
    scores = run(PolygenicScore(), {"genotypes": whole, "weights": weights})[""].frame["score_sum"].to_numpy()
    assert np.corrcoef(scores[500:], truth[500:])[0, 1] > 0.7


def test_effects__where_each_person_is_left_out_are_those_of_the_fit_to_all() -> None:
    _, _, (genotypes, covariates, traits) = study()
    cases = (traits[:, 0] > np.median(traits[:, 0])).astype(np.float64)
    design = RidgeDesign.build_binary(covariates, cases[:, None])
    some = genotypes[: SIZES[0]]
    found = left_out_fit(GenotypeBlock(pack(np.where(np.isnan(some), 3, some).astype(np.uint8)), None, PEOPLE), design, len(genotypes))
    basis = np.column_stack([np.ones(PEOPLE), covariates])
    rows, scaled = projected(some, basis), projected(np.asarray(cases[None], np.float64), basis)[0]
    filled = np.where(np.isnan(some), np.nanmean(some, axis=1, keepdims=True), some)
    left = filled - np.linalg.lstsq(basis, filled.T, rcond=None)[0].T @ basis.T
    for place, share in enumerate(SHARES):
        ridge = rows @ rows.T + len(genotypes) * (1 - share) / share * np.eye(len(rows))
        effects = np.linalg.solve(ridge, rows @ scaled)
        fit, hat = rows.T @ effects, np.einsum("vn,vn->n", rows, np.linalg.solve(ridge, rows))
        spread = ((fit - hat * scaled) / (1 - hat)).std(ddof=1)
        expected = effects * np.sqrt(PEOPLE - basis.shape[1]) / np.linalg.norm(left, axis=1) / spread
        np.testing.assert_allclose(found.effects[0, 0, place], expected, atol=1e-5 * np.abs(expected).max())
