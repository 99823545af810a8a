"""Every kernel on CuPy arrays gives what it gives on NumPy arrays, and its answers stay on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from pipeline.backend.arrays import array_module, special_module, to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.kernels import (
    adjusted_tests,
    asset_paths,
    augmentation,
    black_scholes,
    block_lu,
    column_moments,
    cox_descent,
    cox_design,
    cox_firth,
    cox_null,
    cox_scan,
    distances,
    dosage_quality,
    dosages,
    factorials,
    factorization,
    frequencies,
    gaussian_mixture,
    generalized_linear,
    genetic_code,
    genotypes,
    gravity,
    hardy_weinberg,
    hardy_weinberg_x,
    heat_steps,
    homozygosity,
    isolation,
    k_means,
    kinship,
    ld_scores,
    least_squares,
    left_out,
    linear_products,
    linear_regression,
    linkage,
    linkage_pairs,
    linkage_pruning,
    logistic_firth,
    logistic_penalty,
    logistic_quick,
    logistic_score,
    logistic_terms,
    logistic_wald,
    mendel,
    mixed_model,
    moments,
    neighbors,
    nth_numbers,
    p_values,
    pairwise_ranking,
    philox,
    pooled_effects,
    position_losses,
    powers_of_two,
    predicted_binary,
    predicted_binary_design,
    predicted_scan,
    randomized_pca,
    relationship,
    ridge_design,
    ridge_predictors,
    ridge_systems,
    row_products,
    scores,
    set_scores,
    several_terms,
    sex_checks,
    spectrum,
    stacked_cox,
    stacked_logistic,
    stacked_ridge,
    standardized,
    student_copula,
    tail_risk,
    tall_svd,
    top_items,
    variant_quality,
    windows,
)
from pipeline.kernels.design import Design, missingness_groups
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.logistic_design import LogisticDesign, binary_trait
from pipeline.kernels.logistic_regression import refit
from pipeline.kernels.logistic_scan import associate_binary
from tests.example_tables import GENOTYPES, SAMPLES
from tests.gpu.conftest import library_of

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(20261121)
CALLS = GENOTYPES.arrays["calls"]
COUNTS = genotypes.call_counts(CALLS, SAMPLES)
COUNTS_X = np.concatenate([COUNTS[:, :3], COUNTS[:, [0, 2]]], axis=1)
DOSAGES = genotypes.unpack(CALLS, SAMPLES)
COVARIATES = RNG.normal(size=(SAMPLES, 3))
TRAITS = RNG.normal(size=(SAMPLES, 2)) + DOSAGES[3][:, None].clip(0)
TRAITS[7] = np.nan
DESIGN = Design.build(COVARIATES, TRAITS)
CASES_AND_CONTROLS = np.where(np.isnan(TRAITS), np.nan, TRAITS > 0.5) + 1
BINARY = LogisticDesign.build(COVARIATES, CASES_AND_CONTROLS)
SQUARES = RNG.normal(size=(6, 7, 7))
FREQUENCY = genotypes.alt_frequency(COUNTS)
VARIES = (FREQUENCY > 0) & (FREQUENCY < 1)
VARYING, FREQUENCY = CALLS[VARIES], FREQUENCY[VARIES]
VALUES = standardized.standard_values(FREQUENCY)
SUMS = relationship.grm_sums(VARYING, SAMPLES, FREQUENCY)
SHARED = relationship.shared_variants(SUMS)
RELATED = relationship.grm(SUMS, SHARED)
TAKEN_APART = np.linspace(0, 3, SAMPLES)
TURNED = np.column_stack(
    [np.ones(SAMPLES), np.sin(np.arange(SAMPLES) ** 2), np.sqrt(1 + TAKEN_APART) * np.cos(3.0 * np.arange(SAMPLES) ** 2)]
)
MIXED = np.sin(np.arange(1, 8)[:, None] * np.arange(SAMPLES) ** 2 + 1)
VECTORS = RNG.normal(size=(SAMPLES, 3))
WEIGHTS, SWAPPED = RNG.normal(size=len(CALLS)), np.arange(len(CALLS)) % 3 == 0
SHARES = np.concatenate(([np.nan], np.linspace(0, 1, len(WEIGHTS) - 1)))
ALT_DOSAGES = np.where(DOSAGES == 3, np.nan, DOSAGES * 0.9).astype(np.float32)
T = np.array([[0.0, 0.3, -0.9], [2.0, -7.5, 40.0], [400.0, -1e5, np.inf], [np.nan, 1e-9, 1.0]])
DF = np.array([[4.0], [30.0], [1000.0], [2500.0]])
P = np.concatenate([RNG.uniform(1e-12, 1, 500), [np.nan]])
BIG = RNG.multinomial(20_000, [0.3, 0.5, 0.2], 40)
ODD = np.array([[0, 0, 0], [5, 0, 0], [0, 7, 0], [1, 0, 1], [50, 3, 47], [0, 1, 999]])
RIDGE = ridge_design.RidgeDesign.build(COVARIATES, np.where(np.isnan(TRAITS), 0.5, TRAITS))
RIDGE_CALLS = CALLS[:40]
GAPS = np.where(np.arange(SAMPLES)[:, None] % 5 == [9, 2], np.nan, np.where(np.isnan(TRAITS), 0.5, TRAITS))
PREDICTED = predicted_scan.PredictedDesign.build(COVARIATES, GAPS).less(RNG.normal(size=(2, SAMPLES)))
PREDICTED_BINARY = predicted_binary_design.PredictedBinaryDesign.build(COVARIATES, np.where(np.isnan(GAPS), np.nan, GAPS > 0.5)).less(
    RNG.normal(0, 0.4, (2, SAMPLES))
)
ENDS = RNG.integers(1, 30, (SAMPLES, 2)) * np.where(RNG.random((SAMPLES, 2)) < 0.5, 1.0, -1.0)
TIMES = cox_design.CoxDesign.build(COVARIATES, np.where(np.isnan(GAPS), np.nan, ENDS)).less(np.zeros((2, SAMPLES)))
ADJUSTED = RNG.normal(size=(9, SAMPLES)) * (RNG.random((9, SAMPLES)) < RNG.uniform(0.1, 1, (9, 1)))
ODDS = RNG.normal(-1, 0.5, SAMPLES)
ILL = (RNG.random(SAMPLES) < 1 / (1 + np.exp(-ODDS))).astype(float)
SCORES = ADJUSTED @ (ILL - 1 / (1 + np.exp(-ODDS)))
TALL = np.random.default_rng(20261123).normal(size=(40, 6))
WEIGHT = abs(TALL[:, 5]) + 0.1
WAVES = spectrum.transformed(TALL, None)
SIDE_OF_TALL = tall_svd.right_side(np.linalg.qr(TALL, mode="r"), None, 4, 40, 1.0)
PREDICTORS = ridge_predictors.ridge_predictors(GenotypeBlock(RIDGE_CALLS, None, SAMPLES), RIDGE, 60)[0]
SET_COUNTS = np.where(DOSAGES == 3, -1, DOSAGES).astype(np.int8)
HOST_ONLY = {
    "solve_rows_compiled",  # as solve_rows, of NumPy arrays
    "column_blocks",  # numbers of blocks and of frequencies, and signs and directions that chance makes
    "frequencies",
    "largest_step",
    "probes",
    "random_directions",
    "condition",  # a few answers of a system
    "haseman_elston",  # a few sums over the pairs of a matrix that is on the host
    "with_others",  # of relationships that are made in tiles, which are on the host
    "right_side",  # R of a matrix, once
    "righting",
    "supported",
    "call_genotypes",  # of reads, which lie on a processor, as do CIGAR strings and piles of bases
    "expanded",
    "operations",
    "passing",
    "pile",
    "reference_lengths",
    "support_of",
    "are_equal",  # alleles are texts, and so lie on the host
    "entries",
    "has",
    "shared_ends",
    "exact",  # sums over all paths, and the few paths near a quantile
    "level_risks",
    "cauchy_combination",  # numbers of one set: a few eigenvalues and p-values
    "combination_weights",
    "independent",
    "mixture_tail",
    "mixture_weights",
    "non_negative_fit",
    "quadratic_form_logarithm",
    "cox_again",  # an audit of single variants
    "cox_offset",  # of covariates alone, once a trait
    "cox_coefficients",  # of covariates alone, once a chromosome
    "saddle_point_logarithm",
    "set_tests",
    "sign_constrained_tests",
    "variant_weights",
    "add_products",
    "joined_calls",
    "leading_axes",
    "relationship_tile",
    "start_of",
    "in_order",
    "sample_bits",
    "is_small",
    "computed_again",
    "linear_again",
    "projected_again",
    "offset_again",
    "at_maximum",
    "people_of_groups",
    "compact",  # SciPy's sparse matrices
    "is_sparse",
    "genetic_correlation",  # of a million numbers a trait, once
    "genetic_covariance",
    "heritability",
    "conditional_effects",  # of the variants of one locus
    "credible_sets",
    "joint_effects",
    "selected",
    "single_effects",
    "tiles",  # of numbers of variants
    "who_has",  # traits and covariates of a scan, once
    "between",  # of one number
    "falling_root",
    "products_of_calls",  # compiled, of few columns
    "units_of",
    "whole_numbers",
    "shared_fields",
    "null_coefficients",
    "logistic_again",
    "masks",
    "with_totals",
    "added",
    "gram_buckets",
    "gram_places",
    "historical_risk",
    "kupiec_p_value",
    "mixed_words",
    "parametric_risk",
    "stretches",
    "carried",
    "digits_of",
    "normals",
    "numbers_of",
    "product_sums",
    "regressed",
    "times",
    "uniforms",
    "axes_of",
    "binned",
    "coverage",
    "determined",
    "is_compiled",
    "jensen_shannon",
    "joined",
    "joined_spans",
    "kolmogorov_smirnov",
    "maximized",
    "moments",
    "ndcg",
    "ordered",
    "parameters",
    "pinball_loss",
    "plus_plus",
    "population_stability_index",
    "quantile_edges",
    "refit_each",
    "scaling",
    "settled",
    "started",
    "stepped",
    "stepped_by_share",
    "unscaled",
    "concordant_pairs",
    "auc",
    "auc_of_pairs",
    "pairs_in_order",
    "log_loss",
    "accuracy",
    "rmse",
    "r2",
    "fnv1a",
    "splitmix",
    "flat_calls",
    "unrelated",
    "hits",
    "items_not_taken",
    "popularity",
    "ranking_measures",
    "factored",
    "cholesky_factor",
    "cholesky_solved",
    "lasso_minimum",
    "least_squares",
    "matrix",
    "newton_direction",
    "quasi_newton_direction",
    "solved",
    "stacked",
}  # of predictions, of keys, of pairs by number and of sums over rows, which lie on the host
PLAIN = {
    "first_place",
    "no_pairs",
    "row_blocks",
    "krylov_start",
    "packed_width",
    "variant_blocks",
    "key_of",
    "unit_of",
    "first_paths",
    "share_error",
}  # numbers to numbers


class Case(NamedTuple):
    """A kernel with arguments, and the relative tolerance of its floats."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    tolerance: float = 1e-12


def built(covariates: Any, traits: Any) -> Design:
    return Design.build(covariates, traits)


def ran_on(speeds: Any, places: Any, pull: Any) -> Any:
    return gravity.run_on(gravity.set_out(0, speeds, places, pull, 0.1, 0.01), 3, pull, 0.1, 0.01)


def associated(calls: Any, missing: Any) -> Any:
    return linear_regression.associate(GenotypeBlock(calls, None, SAMPLES, (1.0, 1.0)), DESIGN, missing)


def associated_terms(calls: Any, logistic: bool) -> Any:
    used, age = ~np.isnan(TRAITS).any(axis=1), np.where(np.isnan(TRAITS).any(axis=1), 0.0, COVARIATES[:, 0])
    traits = np.where(used[:, None], np.nan_to_num(TRAITS) > 0.5, 0.0) if logistic else DESIGN.residuals
    basis, with_each = DESIGN.values()[:-1, : DESIGN.columns], age[:, None]
    design = several_terms.TermsDesign(SAMPLES, DESIGN.mask, basis, traits, with_each, not logistic, logistic, DESIGN.trait_names)
    return several_terms.associate_terms(GenotypeBlock(calls, None, SAMPLES), design)


def associated_dosages(dosages: Any, missing: Any) -> Any:
    return linear_regression.associate_plain(GenotypeBlock(None, dosages, SAMPLES), DESIGN.beside(dosages), missing)


def sexes_told(calls: Any) -> Any:
    sex = (np.arange(SAMPLES) % 3).astype(np.int8)
    return sex_checks.sex_sums(calls, calls[:5], variant_quality.People(SAMPLES, np.arange(SAMPLES) % 4 > 0, sex))


def products_added(rows: Any, columns: Any) -> Any:
    found = array_module(rows).ones((len(rows), columns.shape[1]))
    row_products.add_products(rows, columns, found, rows.mean(axis=0))
    return found


def root_of_cubes(cubes: Any, farthest: Any) -> Any:
    def step(at: Any) -> tuple[Any, Any]:
        moved = (cubes - at**3) / (3 * at**2)
        return moved, abs(moved)

    return adjusted_tests.guarded_newton(step, cubes, farthest)


def products(calls: Any) -> Any:
    block = GenotypeBlock(calls, None, SAMPLES)
    return linear_products.block_products(block, DESIGN.beside(calls), complete_case=True, regular_above=1e-9)


def sexed(calls: Any, midp: bool) -> Any:
    people = variant_quality.People(SAMPLES, None, (np.arange(SAMPLES) % 3).astype(np.int8))
    rows = {"x": np.arange(5, 11), "y": np.array([2, 3]), "mt": np.array([40])}
    return variant_quality.variant_quality(calls, people, rows, midp=midp)


def imputed(given: Any, midp: bool) -> Any:
    people = variant_quality.People(SAMPLES, np.arange(SAMPLES) % 7 > 0, (np.arange(SAMPLES) % 3).astype(np.int8))
    rows = {"x": np.arange(5, 11), "y": np.array([2, 3]), "mt": np.array([40])}
    return dosage_quality.dosage_quality(given, people, rows, midp=midp)


def founders_frequencies(given: Any) -> Any:
    people = variant_quality.People(SAMPLES, np.arange(SAMPLES) % 7 > 0, (np.arange(SAMPLES) % 3).astype(np.int8))
    return frequencies.frequencies(given, people, {"x": np.arange(5, 11), "y": np.array([2, 3])})


def associated_binary(calls: Any, method: Any) -> Any:
    return associate_binary(GenotypeBlock(calls, None, SAMPLES), BINARY, 1, method, 0.5)


def score_tested(calls: Any) -> Any:
    return logistic_score.score_test(GenotypeBlock(calls, None, SAMPLES), BINARY.beside(calls), 0)


def score_tested_dosages(dosages: Any) -> Any:
    return logistic_score.score_test_plain(GenotypeBlock(None, dosages, SAMPLES), BINARY.beside(dosages), 0)


def refitted(dosages: Any, method: Any) -> Any:
    return refit(dosages.astype(float)[:, BINARY.beside(dosages).people], BINARY.beside(dosages).null(0), method)


def centred(dosages: Any) -> tuple[Any, Any, Any, Any]:
    """Signed genotypes, a mask, the null model, and points somewhere."""
    null = BINARY.beside(dosages).null(0)
    genotypes = dosages.astype(float)[:, BINARY.beside(dosages).people]
    return genotypes * null.signs, genotypes * 0 + 1, null, dosages[:, :5] * 0.1


def newton_terms(dosages: Any) -> Any:
    return logistic_terms.likelihood_terms(*centred(dosages))


def squares(dosages: Any) -> Any:
    signed, mask, null, _ = centred(dosages)
    return logistic_terms.weighted_squares(mask, signed, signed[:, 0], null)


def value_of(dosages: Any) -> Any:
    return logistic_penalty.penalized_value(*centred(dosages))


def penalized(dosages: Any) -> Any:
    return logistic_penalty.penalized_terms(*centred(dosages))


def curved(dosages: Any) -> Any:
    signed, mask, null, points = centred(dosages)
    terms = logistic_penalty.penalized_terms(signed, mask, null, points)
    return logistic_penalty.curvature(signed, null, terms, array_module(dosages).arange(len(dosages)))


def started(dosages: Any) -> Any:
    signed, _, null, _ = centred(dosages)
    return logistic_wald.score_start(signed, null.start)


def highest(dosages: Any, fit: Any) -> Any:
    signed, mask, null, _ = centred(dosages)
    return fit(signed, mask, null)


def ratio(dosages: Any) -> Any:
    signed, mask, null, _ = centred(dosages)
    found, none = (logistic_firth.firth(signed, mask, null, free=free) for free in (True, False))
    return logistic_firth.likelihood_ratio(signed, mask, null, found, none)


def landed(signed: Any) -> Any:
    return logistic_terms.land_plain(signed, signed + 1, (signed, signed * 0 + 1, signed - 1), (signed[:, 0], signed[:, 1]))


def reached(dosages: Any) -> Any:
    signed, mask, null, points = centred(dosages)
    return logistic_terms.land((signed, mask, signed / 9), null, points, points / 3)


def penalty(missed: Any, weights: Any, signed: Any, leverages: Any, cross: Any, own: Any) -> Any:
    return logistic_penalty.penalize_plain(missed, weights, signed, (leverages, cross, own))


def tabled(like: Any) -> Any:
    return factorials.log_factorials(40, like)


def column_sums(values: Any) -> Any:
    return there(values, column_moments.column_moments(values))


def summed_losses(design: Any, target: Any, coefficients: Any, family: Any) -> Any:
    found = generalized_linear.loss_sums(design, target, abs(target) + 0.5, coefficients, family)
    return there(design, [found.gradient, found.hessian]), found.loss, found.weight, found.pearson


def gram_of(columns: Any) -> Any:
    return there(columns, [least_squares.gram_sums(columns)])


def triangle_of(columns: Any) -> Any:
    found = least_squares.triangle(columns)
    return there(columns, [found.T @ found])


def there(like: Any, sums: Any) -> Any:
    """Sums over rows, which are the host's, where the data lies."""
    return [array_module(like).asarray(array) for array in arrays_of(sums)]


def after_panel(rows: Any) -> block_lu.Block:
    return block_lu.updated(block_lu.factored(block_lu.Block((), rows[:, :3])), block_lu.Block((), rows[:, 3:]))


def hwe(counts: Any, midp: bool) -> Any:
    return hardy_weinberg.hwe_exact(counts[:, 0], counts[:, 1], counts[:, 2], midp)


def ridge_blocks(genotypes: Any) -> Any:
    calls, dosages = (genotypes, None) if genotypes.dtype == np.uint8 else (None, genotypes)
    return ridge_predictors.ridge_predictors(GenotypeBlock(calls, dosages, SAMPLES), RIDGE, 60)


def ridge_effects_of(calls: Any) -> Any:
    found = ridge_predictors.ridge_fit(GenotypeBlock(calls, None, SAMPLES), RIDGE, 60)
    return found.effects


def with_predictions(genotypes: Any) -> Any:
    calls, dosages = (genotypes, None) if genotypes.dtype == np.uint8 else (None, genotypes)
    return predicted_scan.associate_predicted(GenotypeBlock(calls, dosages, SAMPLES), PREDICTED)


def counted_set(genotypes: Any) -> Any:
    calls, dosages = (genotypes, None) if genotypes.dtype == np.uint8 else (None, genotypes)
    return set_scores.alt_counts(GenotypeBlock(calls, dosages, SAMPLES))


def totals_of(counts: Any) -> Any:
    return there(counts, set_scores.alt_totals(counts, array_module(counts).arange(SAMPLES) % 3 > 0))


def burdens_of(counts: Any, burden: Any) -> Any:
    return set_scores.burden_masks(counts, np.arange(len(CALLS)) % 3 > np.arange(2)[:, None], burden)


def scores_of(rows: Any) -> Any:
    return there(rows, set_scores.set_scores(rows, PREDICTED))


def binary_scores_of(rows: Any) -> Any:
    return there(rows, set_scores.binary_set_scores(rows, PREDICTED_BINARY))


def weighted_of(rows: Any) -> Any:
    return set_scores.weighted_burdens(rows, np.arange(1.0, 1 + 2 * len(rows)).reshape(2, -1), PREDICTED_BINARY)


def products_of(rows: Any) -> Any:
    return there(rows, set_scores.joint_products(rows, PREDICTED, (1,)))


def with_t(calls: Any) -> Any:
    return predicted_scan.student_t(with_predictions(calls), array_module(calls).asarray(PREDICTED.people - 5))


def binary_with_predictions(genotypes: Any, method: Any) -> Any:
    calls, dosages = (genotypes, None) if genotypes.dtype == np.uint8 else (None, genotypes)
    return predicted_binary.associate_predicted_binary(GenotypeBlock(calls, dosages, SAMPLES), PREDICTED_BINARY, method, 0.6)


def times_to_event(genotypes: Any, method: Any) -> Any:
    calls, dosages = (genotypes, None) if genotypes.dtype == np.uint8 else (None, genotypes)
    return cox_scan.associate_times(GenotypeBlock(calls, dosages, SAMPLES), TIMES, method, 0.6)


def likelihood_ratio_of_times(adjusted: Any, log_hazard: Any, start: Any) -> Any:
    xp, risk = array_module(adjusted), cox_null.RiskOrder.of(ENDS[:, 0])
    return cox_firth.cox_likelihood_ratio(
        adjusted, log_hazard, cox_null.RiskOrder(*(xp.asarray(places) for places in (risk.order, risk.last, risk.event))), start
    )


def left_out_blocks(genotypes: Any) -> Any:
    return left_out.left_out_predictors(GenotypeBlock(genotypes, None, SAMPLES), RIDGE, 60)


def stacked(predictors: Any, binary: bool, folds: Any = None) -> Any:
    """What lies on the host, given back where the predictors are."""
    xp, places = array_module(predictors), [0, 0, 0, 1, 1]
    if binary:
        found = stacked_logistic.stacked_logistic(predictors, places, (TRAITS[:, 0] > 0.5) * 1.0, np.zeros(SAMPLES), folds)
    else:
        found = stacked_ridge.stacked_ridge(predictors, places, RIDGE.traits[:, 0], RIDGE.folds)
    return xp.asarray(found.mean_squared_error), xp.asarray(found.r_squared), found.best, xp.asarray(found.predictions)


def stacked_times(predictors: Any) -> Any:
    """What lies on the host, given back where the predictors are."""
    xp = array_module(predictors)
    found = stacked_cox.stacked_cox(predictors, [0, 0, 0, 1, 1], ENDS[:, 0], np.zeros(SAMPLES), RIDGE.folds)
    return xp.asarray(found.penalties), xp.asarray(found.deviance), found.best, xp.asarray(found.predictions)


def descended(predictors: Any) -> Any:
    """As `stacked_times` gives it back."""
    xp = array_module(predictors)
    fold = cox_descent.CoxFold.of(predictors, ENDS[:, 0], xp.zeros(SAMPLES), np.arange(SAMPLES))
    return xp.asarray(cox_descent.descended(fold, 0.1, np.zeros(len(predictors)), 1e-4))


def summed(calls: Any, frequency: Any) -> Any:
    sums = relationship.grm_sums(calls, SAMPLES, frequency)
    xp = array_module(calls)
    return xp.triu(sums.products), xp.triu(sums.both_missing), sums.variants


def near(calls: Any, least: float) -> Any:
    """Pairs, counts and kinship among all people in one tile, and in two: of the last 16, and of them with the first 32."""
    xp = array_module(calls)
    whole = kinship.near(kinship.sample_bits(calls, SAMPLES), None, least)
    last, first = (
        kinship.joined([kinship.sample_bits(xp.ascontiguousarray(calls[rows, people]), count) for rows in (slice(0, 9), slice(9, None))])
        for people, count in ((slice(8, None), SAMPLES - 32), (slice(None, 8), 32))
    )
    tiles = [whole, kinship.near(last, None, least), kinship.near(last, first, least)]
    return [xp.asarray(column) for tile in tiles for column in tile]


def inherited(values: Any, columns: Any) -> Any:
    return array_module(values).asarray(mixed_model.heritability(values, columns))


def shared(products: Any, both: Any) -> Any:
    return relationship.shared_variants(relationship.GrmSums(products, both, len(VARYING)))


def related(products: Any, both: Any, counts: Any) -> Any:
    return relationship.grm(relationship.GrmSums(products, both, len(VARYING)), counts)


def stepped(product: Any) -> Any:
    return randomized_pca.krylov_step(randomized_pca.krylov_start(SAMPLES, 3, 1), product).products


def ritz(calls: Any, frequency: Any) -> Any:
    state = randomized_pca.krylov_start(SAMPLES, 2, 1)
    for _ in range(10):
        product = randomized_pca.relationship_product(calls, SAMPLES, frequency, state.bases[-1])
        state = randomized_pca.krylov_step(state, product)
    return randomized_pca.ritz_pairs(state, 2)[:2]


def pruned(calls: Any, rule: linkage_pruning.PruneRule) -> Any:
    haploid = np.arange(SAMPLES) % 3 == 0
    found = linkage_pruning.prune(calls, np.arange(len(calls)) * 10, linkage.Samples(SAMPLES, haploid), rule)
    return array_module(calls).asarray(found.removed)


def linked(calls: Any, haplotypes: bool) -> Any:
    ends = np.minimum(np.arange(len(calls)) + 9, len(calls))
    found = linkage_pairs.linked(calls, ends, SAMPLES, 0.01, haplotypes=haplotypes)
    return [array_module(calls).asarray(values) for values in found]


def homozygous(calls: Any) -> Any:
    rule = homozygosity.WindowRule(8, 3, 2, 0.3, "piece")
    found = homozygosity.homozygous_pieces(calls, SAMPLES, rule, slice(7, len(calls) - 7), np.arange(len(calls) - 14) % 9 > 0)
    return array_module(calls).asarray(np.stack(found))


def ld_score_sums(calls: Any) -> Any:
    return ld_scores.ld_score_sums(calls, np.minimum(np.arange(len(calls)) + 9, len(calls))[:-5], SAMPLES)


def haploid_calls(calls: Any) -> Any:
    return linkage.without_haploid_heterozygotes(calls, linkage.Samples(SAMPLES, np.arange(SAMPLES) % 3 == 0))


TAKEN = np.sort(np.array([RNG.choice(40, 5, replace=False) for _ in range(12)]), axis=1).ravel()
SIDE = RNG.normal(size=(40, 4))


def taken_rows(columns: Any) -> factorization.Rows:
    return factorization.Rows(np.arange(0, 61, 5), columns, array_module(columns).ones(60))


def solved_rows(columns: Any, other: Any) -> Any:
    return factorization.solve_rows(taken_rows(columns), [other[:9], other[9:]], other.T @ other, 0.1, 2.0)


def ranked(items: Any, who: Any, taken: Any) -> Any:
    users, items = items[:12].copy(), items.copy()
    return pairwise_ranking.ranking_step(users, items, (who, taken, (taken + 1) % 40), 0.1, 0.01), users, items


def listed(items: Any, columns: Any) -> Any:
    found = top_items.top_items(items[:12], items, taken_rows(columns), items[:, 0] < 2, 6)
    return [array_module(items).asarray(array) for array in found]


FOREST = isolation.Forest(
    np.array([0, 1, 0, 0, 0, 2, 0, 0], np.int32),
    np.array([0.1, -0.3, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0]),
    np.array([1, 3, 2, 3, 4, 6, 6, 7], np.int32),
    np.array([2, 4, 2, 3, 4, 7, 6, 7], np.int32),
    np.array([0.0, 0.0, 1.5, 2.0, 2.7, 0.0, 1.2, 3.1]),
    np.array([0, 5], np.int32),
    np.array(2),
    np.array(4.5),
)
LINEAR = np.column_stack([np.ones(SAMPLES), COVARIATES]), np.arange(SAMPLES) % 3.0
WITH_GAPS = np.where(RNG.random((SAMPLES, 3)) < 0.2, np.nan, COVARIATES)

POINTS = RNG.normal(size=(5, 4))
MIXTURE = gaussian_mixture.maximized(POINTS, gaussian_mixture.nearest_sums(SIDE, POINTS, "full"), "full", 0.1)


def beside(rows: Any, value: Any) -> list[Any]:
    """What a kernel brings to the host, back beside its rows."""
    found = [piece for one in arrays_of(value) for piece in arrays_of(one)]
    return [array_module(rows).asarray(piece) if isinstance(piece, np.ndarray) else piece for piece in found]


def scaling_of(rows: Any) -> moments.Scaling:
    found = moments.span(rows)
    return moments.scaling(moments.moments(found, moments.moment_sums(rows, found)), centre=True, own="each")


PATHS = np.arange(7, 2_007, dtype=np.uint64)
HESTON = asset_paths.Asset(50.0, 0.02, 0.3, asset_paths.Heston(2.0, 0.1, 0.5, -0.6))
MARKET = asset_paths.Market(
    (asset_paths.Asset(100.0, 0.05, 0.2), HESTON), np.linalg.cholesky([[1.0, 0.4], [0.4, 1.0]]), 0.1, 3, None, (5, 1)
)
STUDENT = asset_paths.Market((MARKET.assets[0],) * 2, MARKET.loadings, 0.1, 1, 5, (5, 1))
CALL = black_scholes.Option(1.0, 102.0, 0.4, 0.25, 0.03, 0.01)
BOOK = position_losses.Book(MARKET, (position_losses.Position(0, -3.0, 8.0, CALL), position_losses.Position(1, 5.0, 50.0)))
PRICES, TRIANGLE = np.geomspace(60.0, 170.0, 40), np.tril(np.arange(1.0, 17).reshape(4, 4))
LOSSES = position_losses.position_losses(PATHS, BOOK, 2.0**-30)


def words_of(paths: Any) -> Any:
    return philox.philox4x32((paths, paths >> np.uint64(3), paths * 0, paths + np.uint64(1)), (7, 1 << 31))


def one_step(steps: Any, logs: Any, variances: Any) -> Any:
    logs, variances = logs.copy(), variances.copy()
    steps(logs, variances, logs[::-1] - 4.0, variances[::-1] + 0.3, HESTON.terms(0.02))
    return logs, variances


def values_of(paths: Any) -> Any:
    return [values for _, values in position_losses.position_values(paths, BOOK)]


def blocks_of(like: Any) -> Any:
    return [next(iter(position_losses.path_blocks(5, 900, BOOK, like)))]


def tails_of(losses: Any, paths: Any) -> Any:
    cuts = tail_risk.Cuts.of(LOSSES.sum(axis=0)[:1_000], (0.8, 0.95), len(PATHS))
    sums = tail_risk.tail_sums(losses, paths, cuts)
    return sums, tail_risk.added([sums, sums])


LOW, HIGH = np.sort(np.arange(80).reshape(2, 40) * 7 % 41, axis=0)  # windows over SIDE's rows
RANKS = np.arange(40) * 3 % 40
GROUPS = np.repeat([0, 7, 30], [7, 23, 10]), np.repeat([7, 30, 40], [7, 23, 10])
BASES = np.random.default_rng(5).integers(0, 5, (40, 3)).astype(np.uint8)
SEEN = np.random.default_rng(7).uniform(1, 2, (6, 5, 7, 3)).astype(np.float32)
CASES = {
    "philox4x32": Case(words_of, (PATHS,), 0),
    "uniforms_of": Case(philox.uniforms_of, (PATHS, range(3, 5), 1, (5, 9)), 0),
    "uniforms_plain": Case(philox.uniforms_plain, (PATHS, range(3, 5), 1, (5, 9)), 0),
    "normals_of": Case(philox.normals_of, (PATHS, 3, 2, 1, (5, 9)), 1e-11),
    "box_muller": Case(philox.box_muller, (philox.uniforms_of(PATHS, range(2), 0, (5, 9)),)),
    "chi_square": Case(student_copula.chi_square, (PATHS, 5, (5, 9))),
    "normal_of_student": Case(student_copula.normal_of_student, (SIDE * 4, 5)),
    "option_values": Case(black_scholes.option_values, (np.log(PRICES), PRICES, CALL), 1e-10),
    "option_values_plain": Case(black_scholes.option_values_plain, (np.log(PRICES), PRICES, CALL), 1e-10),
    "log_prices": Case(asset_paths.log_prices, (PATHS, MARKET), 1e-11),
    "correlated": Case(asset_paths.correlated, (PATHS, 2, MARKET), 1e-11),
    "correlated by a t copula": Case(asset_paths.correlated, (PATHS, 0, STUDENT), 1e-10),
    "tied": Case(lambda side: asset_paths.tied(side, TRIANGLE), (SIDE.T.copy(),)),
    "step_variance": Case(lambda *values: one_step(asset_paths.step_variance, *values), (np.log(PRICES), PRICES / 100 - 0.7)),
    "step_variance_plain": Case(lambda *values: one_step(asset_paths.step_variance_plain, *values), (np.log(PRICES), PRICES / 100 - 0.7)),
    "path_blocks": Case(blocks_of, (PRICES,), 0),
    "position_values": Case(values_of, (PATHS,), 1e-10),
    "greatest_loss": Case(position_losses.greatest_loss, (PATHS, BOOK), 1e-10),
    "position_losses": Case(position_losses.position_losses, (PATHS, BOOK, 2.0**-10), 0),
    "tail_sums": Case(tails_of, (LOSSES, PATHS), 0),
    "split": Case(tail_risk.split, (LOSSES,), 0),
    "coarse_losses": Case(tail_risk.coarse_losses, (LOSSES, 7), 0),
    "heat_steps fixed": Case(lambda strip, rows: heat_steps.heat_steps(strip, None, rows, (0.2, 0.1), 3, "fixed"), (TALL, TALL[:3])),
    "heat_steps periodic": Case(lambda strip, rows: heat_steps.heat_steps(strip, rows, rows, (0.2, 0.1), 3, "periodic"), (TALL, TALL[:3])),
    "accelerations": Case(lambda places, pull: gravity.accelerations(7, 20, places, pull, 0.1), (TALL[:, :3], WEIGHT)),
    "potentials": Case(lambda places, pull: gravity.potentials(7, 20, places, pull, 0.0), (TALL[:, :3], WEIGHT)),
    "set_out": Case(lambda speeds, places, pull: gravity.set_out(3, speeds, places, pull, 0.1, 0.01), (TALL[:9, 3:], TALL[:, :3], WEIGHT)),
    "moved_on": Case(
        lambda speeds, places, pull: gravity.moved_on(3, speeds, places, pull, 0.1, 0.01), (TALL[:9, 3:], TALL[:, :3], WEIGHT)
    ),
    "run_on": Case(ran_on, (TALL[:, 3:], TALL[:, :3], WEIGHT)),
    "is_middle": Case(powers_of_two.is_middle, (np.array([500, -500]),)),
    "exponents": Case(powers_of_two.exponents, (TALL * 1e300,), 0),
    "divided": Case(powers_of_two.divided, (TALL, np.arange(40)[:, None], np.arange(6) * 100 - 300), 0),
    "divided far": Case(powers_of_two.divided, (TALL, np.full((40, 1), 900), np.arange(6) - 900), 0),
    "factored": Case(lambda block: block_lu.factored(block_lu.Block((), block))[1:6], (TALL,)),
    "updated": Case(lambda rows: after_panel(rows).left, (TALL,)),
    "substituted": Case(
        lambda rows, sides: block_lu.substituted(block_lu.factored(after_panel(rows)), [sides[:3], sides[3:]])[0], (TALL, TALL[:6]), 1e-9
    ),
    "hann": Case(lambda like: spectrum.hann(len(like), like), (TALL,)),
    "transformed": Case(spectrum.transformed, (TALL, spectrum.hann(len(TALL), TALL))),
    "amplitudes": Case(lambda found, window: spectrum.amplitudes(found, len(window), window), (WAVES, TALL[:, 0] ** 2)),
    "densities": Case(lambda found, window: spectrum.densities(found, len(window), 0.5, window), (WAVES, TALL[:, 0])),
    "orthonormal": Case(lambda vectors: abs(tall_svd.orthonormal(vectors)), (TALL,)),
    "turned": Case(tall_svd.turned, (TALL, TALL[:6, :2])),
    "left_vectors": Case(lambda rows: tall_svd.left_vectors(rows, SIDE_OF_TALL), (TALL,)),
    "moved_images": Case(augmentation.moved_images, (SEEN, BASES[:6, 0] > 2, BASES[:6, 1] * 25.0, BASES[:6, 1:] - 1.5), 1e-6),
    "base_codes": Case(genetic_code.base_codes, (np.frombuffer(b"ACGTacgtN-", np.uint8),), 0),
    "complement": Case(genetic_code.complement, (BASES[:, 0],), 0),
    "translated": Case(genetic_code.translated, (BASES, BASES[:, 0] > 2), 0),
    "first_from": Case(lambda times, starts, ends: windows.first_from(times, starts, ends, times - 5), (np.arange(40) // 3, *GROUPS)),
    "window_sums": Case(lambda side, *ends: windows.window_sums(side[:, 0], *ends), (SIDE, LOW, HIGH)),
    "window_least": Case(windows.window_least, (RANKS, LOW, HIGH)),
    "window_squares": Case(lambda side, *ends: windows.window_squares(side[:, 0], *ends), (SIDE, LOW, HIGH), 1e-9),
    "window_totals": Case(windows.window_totals, (np.arange(40) * 10**17 - 2 * 10**18, LOW, HIGH)),
    "window_picks": Case(lambda ranks, low, high: windows.window_picks(ranks, low, high, (high - low) // 2), (RANKS, LOW, HIGH)),
    "products": Case(distances.products, (SIDE, POINTS), 1e-9),
    "lengths": Case(distances.lengths, (SIDE,)),
    "squares": Case(distances.squares, (SIDE, POINTS)),
    "projected": Case(distances.projected, (SIDE, POINTS.T.copy())),
    "nearest": Case(lambda rows, points: distances.nearest(distances.squares(rows, points), rows, points), (SIDE, POINTS)),
    "several_near": Case(distances.several_near, (np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([1.0, 0.0]), np.array([1e-9, 1e-9]))),
    "assigned": Case(distances.assigned, (SIDE, POINTS), 1e-10),
    "span": Case(lambda rows: beside(rows, moments.span(rows)), (WITH_GAPS,)),
    "moment_sums": Case(lambda rows: beside(rows, moments.moment_sums(rows, moments.span(rows))), (WITH_GAPS,), 1e-10),
    "scaled": Case(lambda rows: moments.scaled(rows, scaling_of(rows)), (WITH_GAPS,), 1e-10),
    "lloyd_sums": Case(lambda rows, points: beside(rows, k_means.lloyd_sums(rows, np.arange(40.0), points)), (SIDE, POINTS), 1e-9),
    "log_densities": Case(lambda rows: gaussian_mixture.log_densities(rows, MIXTURE, "full"), (SIDE,), 1e-10),
    "log_densities of rows alone": Case(lambda rows: gaussian_mixture.log_densities(rows, MIXTURE, "full", alone=True), (SIDE,), 1e-10),
    "posteriors": Case(lambda rows: gaussian_mixture.posteriors(gaussian_mixture.log_densities(rows, MIXTURE, "full")), (SIDE,), 1e-9),
    "mixture_sums": Case(lambda rows: beside(rows, gaussian_mixture.mixture_sums(rows, MIXTURE, "full")), (SIDE,), 1e-9),
    "nearest_sums": Case(lambda rows, points: beside(rows, gaussian_mixture.nearest_sums(rows, points, "tied")), (SIDE, POINTS), 1e-9),
    "nearest_pairs": Case(lambda rows, points: neighbors.nearest_pairs(rows, points, 2), (SIDE, POINTS), 1e-10),
    "first_pairs": Case(lambda rows, points: neighbors.first_pairs(neighbors.nearest_pairs(rows, points, 5), 3), (SIDE, POINTS), 1e-10),
    "joined_pairs": Case(
        lambda rows, points: neighbors.joined_pairs([neighbors.nearest_pairs(rows, points, 2)] * 2), (SIDE, POINTS), 1e-10
    ),
    "unit_rows": Case(neighbors.unit_rows, (SIDE,)),
    "gather": Case(lambda blocks, places: factorization.gather([blocks[:9], blocks[9:]], places), (SIDE, TAKEN)),
    "solve_rows": Case(solved_rows, (TAKEN, SIDE), 1e-9),
    "cholesky_solve": Case(factorization.cholesky_solve, (SQUARES @ SQUARES.transpose(0, 2, 1) + np.eye(7), SQUARES[:, 0]), 1e-9),
    "ranking_step": Case(ranked, (SIDE, np.repeat(np.arange(12), 5), TAKEN), 1e-10),
    "nth_greatest": Case(lambda found: nth_numbers.nth_greatest(found, 3), (SIDE,)),
    "nth_least": Case(lambda found: nth_numbers.nth_least(found, 3), (SIDE,)),
    "pair_scores": Case(top_items.pair_scores, (SIDE, SIDE[::-1].copy())),
    "top_items": Case(listed, (SIDE, TAKEN), 1e-10),
    "column_moments": Case(column_sums, (WITH_GAPS,)),
    "column_moments of nothing": Case(column_sums, (WITH_GAPS[:0],)),
    "loss_sums": Case(summed_losses, (*LINEAR, RNG.normal(size=(4, 1)), "normal")),
    "loss_sums of a binomial": Case(summed_losses, (LINEAR[0], LINEAR[1] % 2, RNG.normal(size=(4, 1)), "binomial"), 1e-10),
    "loss_sums of a poisson": Case(summed_losses, (*LINEAR, RNG.normal(size=(4, 1)), "poisson"), 1e-10),
    "loss_sums of a gamma": Case(summed_losses, (LINEAR[0], LINEAR[1] + 1, RNG.normal(size=(4, 1)), "gamma"), 1e-10),
    "loss_sums of classes": Case(summed_losses, (*LINEAR, RNG.normal(size=(4, 3)), "multinomial"), 1e-10),
    "loss_sums of a base class": Case(summed_losses, (*LINEAR, RNG.normal(size=(4, 2)), "base_class"), 1e-10),
    "mean_of": Case(generalized_linear.mean_of, (COVARIATES[:, :1], "binomial")),
    "mean_of classes": Case(generalized_linear.mean_of, (COVARIATES, "multinomial")),
    "mean_of counts": Case(generalized_linear.mean_of, (COVARIATES[:, :1], "poisson")),
    "with_base": Case(generalized_linear.with_base, (COVARIATES, "base_class")),
    "gram_sums": Case(gram_of, (COVARIATES,)),
    "triangle": Case(triangle_of, (COVARIATES,), 1e-10),
    "triangle of nothing": Case(triangle_of, (COVARIATES[:0],)),
    "paired_calls": Case(linkage.paired_calls, (CALLS, SAMPLES, 3)),
    "haplotype_r_squared": Case(linkage.haplotype_r_squared, (CALLS, SAMPLES, 3), 1e-9),
    "haplotype_linkage": Case(linkage.haplotype_linkage, (linkage.paired_calls(CALLS, SAMPLES, 3).astype(float),), 1e-9),
    "correlations": Case(linkage_pairs.correlations, (CALLS[:9], CALLS, SAMPLES)),
    "correlations of complete calls": Case(linkage_pairs.correlations, (CALLS[:9] & 0x55, CALLS & 0x55, SAMPLES)),
    "call_tables": Case(linkage_pairs.call_tables, (CALLS[:9], CALLS, SAMPLES)),
    "linked": Case(linked, (CALLS, False)),
    "linked haplotypes": Case(linked, (CALLS, True), 1e-9),
    "ld_matrix": Case(ld_scores.ld_matrix, (CALLS, SAMPLES), 1e-10),
    "ld_score_sums": Case(ld_score_sums, (CALLS,), 1e-10),
    "without_haploid_heterozygotes": Case(haploid_calls, (CALLS,)),
    "prune": Case(pruned, (CALLS, linkage_pruning.PruneRule(10, 3, 0.02, by_position=False))),
    "prune by position": Case(pruned, (CALLS, linkage_pruning.PruneRule(150, 1, 0.02, by_position=True))),
    "prune dosages": Case(pruned, (ALT_DOSAGES, linkage_pruning.PruneRule(10, 3, 0.02, by_position=False))),
    "pack": Case(genotypes.pack, (DOSAGES,)),
    "pack nothing": Case(genotypes.pack, (DOSAGES[:0],)),
    "unpack": Case(genotypes.unpack, (CALLS, SAMPLES)),
    "unpack floats": Case(genotypes.unpack, (CALLS, SAMPLES, np.float32, float("nan"))),
    "call_counts": Case(genotypes.call_counts, (CALLS, SAMPLES)),
    "call_counts of nothing": Case(genotypes.call_counts, (CALLS[:0], SAMPLES)),
    "sample_counts": Case(genotypes.sample_counts, (np.tile(CALLS, (9, 1)), SAMPLES)),
    "take_samples": Case(genotypes.take_samples, (CALLS, SAMPLES, np.array([5, 0, 5, 41]))),
    "call_counts among some": Case(genotypes.call_counts, (CALLS, SAMPLES, np.arange(SAMPLES) % 3 == 1)),
    "missing_sums": Case(genotypes.missing_sums, (CALLS, SAMPLES, RNG.normal(size=len(CALLS)))),
    "missing_calls": Case(genotypes.missing_calls, (CALLS, SAMPLES)),
    "alt_frequency": Case(genotypes.alt_frequency, (COUNTS,)),
    "share": Case(genotypes.share, (COUNTS[:, 0], COUNTS.sum(axis=1))),
    "log_factorials": Case(tabled, (COUNTS,)),
    "hwe_exact": Case(hwe, (COUNTS, False), 1e-9),
    "hwe_exact of many people": Case(hwe, (BIG, False), 1e-9),
    "hwe_exact of odd counts": Case(hwe, (ODD, False), 1e-9),
    "hwe_exact mid-p": Case(hwe, (COUNTS, True), 1e-9),
    "hwe_exact of nothing": Case(hwe, (COUNTS[:0], False)),
    "hwe_by_logarithms": Case(hardy_weinberg.hwe_by_logarithms, (COUNTS[:, :3],), 1e-9),
    "checked_counts": Case(hardy_weinberg.checked_counts, (COUNTS[:, 0], COUNTS[:, 1])),
    "hwe_x_exact": Case(hardy_weinberg_x.hwe_x_exact, (COUNTS_X, False), 1e-9),
    "hwe_x_exact mid-p": Case(hardy_weinberg_x.hwe_x_exact, (COUNTS_X, True), 1e-9),
    "hwe_x_exact of nothing": Case(hardy_weinberg_x.hwe_x_exact, (COUNTS_X[:0], False)),
    "hwe_x_by_logarithms": Case(hardy_weinberg_x.hwe_x_by_logarithms, (COUNTS_X,), 1e-9),
    "variant_quality": Case(sexed, (CALLS, False), 1e-9),
    "variant_quality mid-p": Case(sexed, (CALLS, True), 1e-9),
    "frequencies": Case(founders_frequencies, (CALLS,)),
    "frequencies of dosages": Case(founders_frequencies, (ALT_DOSAGES,), 1e-9),
    "dosage_quality": Case(imputed, (ALT_DOSAGES, False), 1e-9),
    "are_dosages": Case(dosages.are_dosages, (ALT_DOSAGES,)),
    "call_codes": Case(dosages.call_codes, (ALT_DOSAGES,), 0),
    "hard_calls": Case(dosages.hard_calls, (ALT_DOSAGES,), 0),
    "missing_mask": Case(dosages.missing_mask, (ALT_DOSAGES,), 0),
    "dosage_sums": Case(dosages.dosage_sums, (ALT_DOSAGES, np.arange(SAMPLES) % 3 > 0), 1e-10),
    "alt_frequencies": Case(dosages.alt_frequencies, (ALT_DOSAGES, SAMPLES), 1e-10),
    "alt_frequencies of calls": Case(dosages.alt_frequencies, (CALLS, SAMPLES)),
    "genotypes_of": Case(dosages.genotypes_of, (ALT_DOSAGES, SAMPLES, np.array([5, 0, 5, 41])), 0),
    "near": Case(near, (CALLS, -0.1)),
    "near of all": Case(near, (CALLS, -9.0)),
    "kinship": Case(kinship.kinship, (near(CALLS, -9.0)[2],)),
    "Design": Case(built, (COVARIATES, TRAITS), 1e-10),
    "missingness_groups": Case(missingness_groups, (TRAITS,)),
    "associate": Case(associated, (CALLS, "complete_case"), 1e-9),
    "associate with means": Case(associated, (CALLS, "mean"), 1e-9),
    "associate_terms": Case(associated_terms, (CALLS, False), 1e-8),
    "associate_terms of cases": Case(associated_terms, (CALLS, True), 1e-6),
    "associate with nothing": Case(associated, (CALLS[:0], "complete_case")),
    "associate_plain of dosages": Case(
        associated_dosages, (np.where(DOSAGES == 3, np.nan, DOSAGES * 0.9).astype(np.float32), "mean"), 1e-9
    ),
    "LogisticDesign": Case(LogisticDesign.build, (COVARIATES, CASES_AND_CONTROLS), 1e-9),
    "isolation_scores": Case(isolation.isolation_scores, (COVARIATES.astype(np.float32), FOREST)),
    "isolation_scores_plain": Case(isolation.isolation_scores_plain, (COVARIATES.astype(np.float32), FOREST)),
    "binary_trait": Case(binary_trait, ("ill", CASES_AND_CONTROLS[:, 0])),
    "associate_binary": Case(associated_binary, (CALLS, "firth_fallback"), 1e-7),
    "associate_binary by Wald": Case(associated_binary, (CALLS, "wald"), 1e-7),
    "associate_binary with nothing": Case(associated_binary, (CALLS[:0], "firth")),
    "score_test": Case(score_tested, (CALLS,), 1e-9),
    "score_test_plain of dosages": Case(score_tested_dosages, (np.where(DOSAGES == 3, np.nan, DOSAGES * 0.9).astype(np.float32),), 1e-9),
    "refit": Case(refitted, (DOSAGES, "firth_fallback"), 1e-7),
    "likelihood_terms": Case(newton_terms, (DOSAGES,), 1e-9),
    "weighted_squares": Case(squares, (DOSAGES,), 1e-9),
    "penalized_value": Case(value_of, (DOSAGES[:20],), 1e-7),
    "penalized_terms": Case(penalized, (DOSAGES[:20],), 1e-7),
    "curvature": Case(curved, (DOSAGES[:20],), 1e-7),
    "log_likelihood": Case(logistic_penalty.log_likelihood, (SQUARES[0] ** 2, SQUARES[1] ** 2)),
    "log_likelihood_plain": Case(logistic_penalty.log_likelihood_plain, (SQUARES[0] ** 2, SQUARES[1] ** 2)),
    "score_start": Case(started, (DOSAGES,), 1e-9),
    "wald": Case(highest, (DOSAGES[:20], logistic_wald.wald), 1e-7),
    "likelihood_ratio": Case(ratio, (DOSAGES[:20],), 1e-6),
    "firth": Case(highest, (DOSAGES[:20], logistic_firth.firth), 1e-7),
    "quick_wald_plain": Case(highest, (DOSAGES[:20], logistic_quick.quick_wald_plain), 1e-7),
    "quick_firth_plain": Case(highest, (DOSAGES[:20], logistic_quick.quick_firth_plain), 1e-7),
    "invert": Case(logistic_terms.invert, (SQUARES @ SQUARES.transpose(0, 2, 1),), 1e-7),
    "quick_wald": Case(highest, (DOSAGES[:20], logistic_quick.quick_wald), 1e-7),
    "quick_firth": Case(highest, (DOSAGES[:20], logistic_quick.quick_firth), 1e-7),
    "centre": Case(logistic_terms.centre, (np.where(DOSAGES == 3, np.nan, DOSAGES.astype(float)),)),
    "centre_plain": Case(logistic_terms.centre_plain, (np.where(DOSAGES == 3, np.nan, DOSAGES.astype(float)),)),
    "land": Case(reached, (DOSAGES,), 1e-9),
    "land_plain": Case(landed, (SQUARES[0],), 1e-9),
    "squares_plain": Case(logistic_terms.squares_plain, (SQUARES[0][:, :6], SQUARES[1][:, :3], SQUARES[2][:, 0])),
    "traces_plain": Case(logistic_penalty.traces_plain, (SQUARES.reshape(6, 49)[:, :35], SQUARES[:, :4, :4])),
    "pairs_plain": Case(logistic_penalty.pairs_plain, (SQUARES,)),
    "terms_plain": Case(logistic_terms.terms_plain, (*SQUARES[:3], SQUARES[3, 0])),
    "penalize_plain": Case(penalty, (*SQUARES[:5], SQUARES[5, 0])),
    "solve": Case(logistic_terms.solve, (SQUARES @ SQUARES.transpose(0, 2, 1), SQUARES), 1e-7),
    "solve_plain": Case(logistic_terms.solve_plain, (SQUARES @ SQUARES.transpose(0, 2, 1), SQUARES), 1e-7),
    "z_test_p_values": Case(p_values.z_test_p_values, (T,), 1e-9),
    "scan_p_values": Case(p_values.scan_p_values, (T,), 1e-9),
    "block_products": Case(products, (CALLS,), 1e-9),
    "significant": Case(p_values.significant, (T[:, :2], DF[:, 0].astype(int), 0.5), 1e-9),
    "f_test_p_values": Case(p_values.f_test_p_values, (T**2, 3, DF), 1e-9),
    "chi_square_p_values": Case(p_values.chi_square_p_values, (T**2, 3), 1e-9),
    "t_test_p_values": Case(p_values.t_test_p_values, (T, DF), 1e-9),
    "genomic_inflation": Case(p_values.genomic_inflation, (P,), 1e-9),
    "alt_counts": Case(counted_set, (CALLS,), 0.0),
    "alt_counts of dosages": Case(counted_set, (ALT_DOSAGES,), 0.0),
    "alt_totals": Case(totals_of, (SET_COUNTS,), 0.0),
    "burden_masks": Case(burdens_of, (SET_COUNTS, "comphet"), 0.0),
    "set_scores": Case(scores_of, (SET_COUNTS,), 1e-9),
    "weighted_burdens": Case(weighted_of, (SET_COUNTS,), 1e-6),
    "binary_set_scores": Case(binary_scores_of, (SET_COUNTS,), 1e-9),
    "joint_products": Case(products_of, (SET_COUNTS,), 1e-9),
    "associate_predicted": Case(with_predictions, (CALLS,), 1e-9),
    "associate_predicted of dosages": Case(with_predictions, (ALT_DOSAGES,), 1e-9),
    "associate_predicted_binary": Case(binary_with_predictions, (CALLS, "firth_approximate"), 1e-6),
    "associate_predicted_binary by spa": Case(binary_with_predictions, (CALLS, "spa"), 1e-6),
    "associate_predicted_binary by firth": Case(binary_with_predictions, (CALLS, "firth"), 1e-6),
    "associate_predicted_binary by wald": Case(binary_with_predictions, (CALLS, "wald"), 1e-6),
    "associate_predicted_binary of dosages": Case(binary_with_predictions, (ALT_DOSAGES, "firth_approximate"), 1e-6),
    "associate_times": Case(times_to_event, (CALLS, "firth_approximate"), 1e-6),
    "associate_times of dosages": Case(times_to_event, (ALT_DOSAGES, "score"), 1e-6),
    "cox_likelihood_ratio": Case(likelihood_ratio_of_times, (ADJUSTED, ODDS, np.zeros(9)), 1e-6),
    "adjusted_likelihood_ratio": Case(adjusted_tests.adjusted_likelihood_ratio, (ADJUSTED, ILL, ODDS, np.zeros(9)), 1e-6),
    "adjusted_likelihood_ratio_plain": Case(adjusted_tests.adjusted_likelihood_ratio_plain, (ADJUSTED, ILL, ODDS, np.zeros(9)), 1e-6),
    "other_allele": Case(lambda calls: dosages.other_allele(calls, SAMPLES, np.arange(0, len(calls), 3)), (CALLS,)),
    "homozygous_pieces": Case(homozygous, (CALLS,)),
    "mendel_sums": Case(lambda calls: mendel.mendel_sums(calls, np.arange(9).reshape(3, 3), np.arange(3)), (CALLS,)),
    "sex_sums": Case(sexes_told, (CALLS,)),
    "add_products": Case(products_added, (ADJUSTED, ADJUSTED.T[:, :3].copy())),
    "add_products of many": Case(products_added, (np.tile(ADJUSTED, 40), np.tile(ADJUSTED.T, (40, 1)).copy())),
    "longest_steps": Case(adjusted_tests.longest_steps, (ADJUSTED,)),
    "guarded_newton": Case(root_of_cubes, (np.abs(ODDS) + 1, np.full(len(ODDS), 0.5)), 1e-6),
    "saddle_point": Case(adjusted_tests.saddle_point, (ADJUSTED, ODDS, SCORES, ADJUSTED > 1), 1e-6),
    "saddle_point_plain": Case(adjusted_tests.saddle_point_plain, (ADJUSTED, ODDS, SCORES, ADJUSTED > 1), 1e-6),
    "z_of_neg_log_10_p": Case(p_values.z_of_neg_log_10_p, (P[:-1],), 1e-9),
    "significant_z": Case(p_values.significant_z, (T, 0.5), 1e-9),
    "student_t": Case(with_t, (CALLS,), 1e-9),
    "left_out_fit": Case(lambda calls: left_out.left_out_fit(GenotypeBlock(calls, None, SAMPLES), RIDGE, 60).effects, (RIDGE_CALLS,), 1e-5),
    "as_predictors": Case(
        lambda values: ridge_predictors.as_predictors(values[None].copy(), values[None, None]).effects, (PREDICTORS,), 1e-5
    ),
    "ridge_fit": Case(ridge_effects_of, (RIDGE_CALLS,), 1e-5),
    "spreads": Case(lambda values: ridge_predictors.spreads(values[None]), (PREDICTORS,), 1e-5),
    "ridge_predictors": Case(ridge_blocks, (RIDGE_CALLS,), 1e-5),
    "ridge_predictors of dosages": Case(ridge_blocks, (ALT_DOSAGES[:40],), 1e-5),
    "ridge_effects": Case(ridge_systems.ridge_effects, (RELATED, VECTORS, (0.1, 2.0)), 1e-9),
    "left_out_predictors": Case(left_out_blocks, (RIDGE_CALLS,), 1e-5),
    "stacked_ridge": Case(stacked, (PREDICTORS, False), 1e-5),
    "stacked_logistic": Case(stacked, (PREDICTORS, True), 1e-5),
    "stacked_logistic in folds": Case(stacked, (PREDICTORS, True, RIDGE.folds), 1e-5),
    "stacked_cox": Case(stacked_times, (PREDICTORS,), 1e-5),
    "descended": Case(descended, (PREDICTORS,), 1e-6),
    "pooled_effects": Case(pooled_effects.pooled_effects, (TRAITS, abs(COVARIATES[:, :1]) + 0.1), 1e-9),
    "chunks_of": Case(stacked_ridge.chunks_of, (PREDICTORS, slice(0, SAMPLES))),
    "squared_correlations": Case(stacked_ridge.squared_correlations, (PREDICTORS.astype(float), RIDGE.traits[:, 1]), 1e-9),
    "standardized": Case(lambda values: ridge_predictors.standardized(values[None].copy()), (PREDICTORS,), 1e-5),
    "grm_sums": Case(summed, (VARYING, FREQUENCY)),
    "grm_sums of dosages": Case(summed, (ALT_DOSAGES[VARIES], FREQUENCY), 1e-6),
    "grm_sums with most missing": Case(summed, (VARYING | np.uint8(0b11), FREQUENCY)),
    "shared_variants": Case(shared, SUMS[:2]),
    "grm": Case(related, (*SUMS[:2], SHARED)),
    "need_finite": Case(relationship.need_finite, (VECTORS,)),
    "signed": Case(relationship.signed, (VECTORS,)),
    "residuals": Case(relationship.residuals, (RELATED @ VECTORS, VECTORS, np.array([3.0, 1.0, 0.0]))),
    "relationship_product": Case(randomized_pca.relationship_product, (VARYING, SAMPLES, FREQUENCY, VECTORS), 1e-10),
    "krylov_step": Case(stepped, (RELATED @ RNG.normal(size=(SAMPLES, 9)),)),
    "ritz_pairs": Case(ritz, (VARYING, FREQUENCY), 1e-8),
    "standard_values": Case(standardized.standard_values, (FREQUENCY,)),
    "decoded": Case(standardized.decoded, (VARYING, SAMPLES, VALUES)),
    "decoded dosages": Case(standardized.decoded, (ALT_DOSAGES[VARIES], SAMPLES, VALUES)),
    "decoded_plainly": Case(standardized.decoded_plainly, (VARYING, SAMPLES, VALUES)),
    "value_sums": Case(standardized.value_sums, (VARYING, SAMPLES, VALUES), 1e-10),
    "value_sums of dosages": Case(standardized.value_sums, (ALT_DOSAGES[VARIES], SAMPLES, VALUES), 1e-10),
    "sample_products": Case(standardized.sample_products, (VARYING, SAMPLES, VALUES, RNG.normal(size=(len(VARYING), 2))), 1e-10),
    "variant_products": Case(standardized.variant_products, (VARYING, SAMPLES, VALUES, VECTORS), 1e-10),
    "single_rows": Case(standardized.single_rows, (VARYING, SAMPLES, 4)),
    "call_scores": Case(scores.call_scores, (CALLS, SAMPLES, WEIGHTS, SWAPPED, True), 1e-10),
    "call_scores without imputing": Case(scores.call_scores, (CALLS, SAMPLES, WEIGHTS, SWAPPED, False), 1e-10),
    "call_scores by frequencies": Case(scores.call_scores, (CALLS, SAMPLES, WEIGHTS, SWAPPED, True, SHARES), 1e-10),
    "dosage_scores": Case(scores.dosage_scores, (ALT_DOSAGES, WEIGHTS, SWAPPED, True), 1e-10),
    "dosage_scores without imputing": Case(scores.dosage_scores, (ALT_DOSAGES, WEIGHTS, SWAPPED, False), 1e-10),
    "dosage_scores by frequencies": Case(scores.dosage_scores, (ALT_DOSAGES, WEIGHTS, SWAPPED, True, SHARES), 1e-10),
    "profile": Case(partial(mixed_model.profile, restricted=True), (np.array([0.3]), TAKEN_APART, TURNED, MIXED), 1e-9),
    "best_log_ratio": Case(partial(mixed_model.best_log_ratio, restricted=True), (TAKEN_APART, TURNED, MIXED), 1e-6),
    "mixed_association": Case(mixed_model.mixed_association, (TAKEN_APART, TURNED, MIXED, "wald", np.zeros(1)), 1e-6),
    "mixed_association at one ratio": Case(mixed_model.mixed_association, (TAKEN_APART, TURNED, MIXED, "score", np.zeros(1)), 1e-9),
    "heritability": Case(inherited, (TAKEN_APART, TURNED), 1e-5),
    "principal_components": Case(relationship.principal_components, (RELATED, 2), 1e-8),
}


def arrays_of(value: Any) -> Iterator[Any]:
    """Arrays and numbers of an answer, whatever it is made of."""
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, tuple | list):
        for piece in value:
            yield from arrays_of(piece)
    else:
        yield value


@pytest.mark.parametrize("name", CASES)
def test_a_kernel__gives_what_it_gives_on_the_cpu(name: str, device: Backend, library: str) -> None:
    function, arguments, tolerance = CASES[name]
    expected = list(arrays_of(function(*arguments)))
    moved = [to_device(argument, device) if isinstance(argument, np.ndarray) else argument for argument in arguments]
    found = list(arrays_of(function(*moved)))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        if not isinstance(theirs, np.ndarray):
            assert ours == pytest.approx(theirs, rel=tolerance, nan_ok=True) if isinstance(theirs, float) else ours == theirs
            continue
        assert library_of(ours) == library
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(to_host(ours), theirs, rtol=tolerance if theirs.dtype.kind == "f" else 0, atol=1e-14)


def test_calls_that_cannot_be__are_refused_there_too(device: Backend) -> None:
    with pytest.raises(ValueError, match="A call is 0, 1, 2 ALT alleles, or 3 or -1 where it is missing; found 4"):
        genotypes.pack(to_device(np.array([[0, 4]], np.int8), device))
    with pytest.raises(DataError, match="share no called variant that varies"):
        related(to_device(SUMS[0], device), to_device(SUMS[1], device), to_device(SHARED * 0, device))


def test_the_library__is_that_of_the_data(device: Backend, library: str) -> None:
    host, there = np.ones(3), to_device(np.ones(3), device)
    assert array_module(host) is np
    assert array_module(host, there).__name__ == library
    assert special_module(there).__name__ == ("cupyx.scipy.special" if library == "cupy" else "scipy.special")
    assert isinstance(to_host(there), np.ndarray)
