"""Tests of every variant of a block with binary traits, given what other chromosomes predict of them, as regenie's step 2 does them.

Mbatchou et al. 2021 (Nature Genetics 53:1097-1103). A trait's log odds without a variant are o = prediction + Q c, by maximum likelihood,
p its probabilities and w = p (1 - p). With Z the intercept and covariates made orthonormal under w, g the genotypes (missing ones the mean
of those used) and b = Z w g, U = g'(y - p) and V = g'wg - b'b: beta = U / V, and z = U / sqrt(V).

Whoever `screen` finds notable is tested again by the genotype less what the covariates explain of it, a = g - Z'b: by Firth's likelihood
ratio about the log odds of Firth's own fit of the covariates, where of a rare allele (fewer than 50 copies) who carries none is left out;
or by the saddle point of U, where people without the allele count as normal; either only where not more than half carry it. Or the trait is
regressed on covariates and genotype with the prediction as offset: by Firth's likelihood ratio, the genotype in the penalty of both
likelihoods (firth), or by maximum likelihood (wald).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes
from pipeline.kernels.adjusted_tests import adjusted_likelihood_ratio, saddle_point
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, variant_blocks
from pipeline.kernels.logistic_null import NullModel
from pipeline.kernels.logistic_regression import FIRTH_APPROXIMATE, FIRTH_LRT, SCORE, SPA, WALD, refit_each
from pipeline.kernels.logistic_scan import LogisticAssociation
from pipeline.kernels.logistic_score import COLLINEAR, COLLINEAR_BELOW, FINE, MONOMORPHIC, NO_SADDLE, SEPARATED, TOO_FEW, UNCONVERGED
from pipeline.kernels.mean_genotypes import MeanGenotypes
from pipeline.kernels.p_values import scan_p_values, z_of_neg_log_10_p
from pipeline.kernels.predicted_binary_design import PredictedBinary
from pipeline.kernels.whole_columns import Columns

PredictedMethod = Literal["firth_approximate", "firth", "spa", "wald", "score"]
AGAIN = {
    "firth_approximate": (FIRTH_APPROXIMATE, UNCONVERGED),
    "firth": (FIRTH_LRT, UNCONVERGED),
    "spa": (SPA, NO_SADDLE),
    "wald": (WALD, SEPARATED),
}
"""By method the test that a row carries, and the reason where it gives nothing."""
RARE = 50
"""Copies of an allele below which Firth's method looks at who carries it alone, as regenie does."""


@dataclass(frozen=True)
class _Scored:
    """Of all variants and one trait: U, V, what the covariates explain `[v, k]`, and what is said of each."""

    score: Array
    information: Array
    explained: Array
    reason: Array


def associate_predicted_binary(
    block: GenotypeBlock,
    models: PredictedBinary,
    method: PredictedMethod,
    screen: float,
    *,
    in_set: bool = False,
    summed: Array | None = None,
) -> list[LogisticAssociation]:
    """Associations of every variant of a block with each trait: a variant whose score test has p <= `screen` gets `method`.

    firth_approximate looks at carriers alone where an allele has fewer copies than `RARE`, and spa where not more than half carry it; of
    variants `in_set`, as regenie tests those of a set, firth_approximate never does and spa always. Where rows are sums of counts,
    `summed: int64[v]` says of how many variants, and spa is of everybody. `test` is a place in `TESTS` of logistic_regression. Raises
    ValueError where the numbers of people differ.
    """
    models, xp = models.beside(block.array), block.xp
    design = models.design
    if len(design.basis) != block.n_samples:
        raise ValueError(f"The design is of {len(design.basis)} people, the genotypes are of {block.n_samples}.")
    genotypes = MeanGenotypes.of(block, design.mask, design.known.any(axis=1))
    chances = models.probabilities()
    weights = chances * (1 - chances)
    k = design.basis.shape[1]
    columns = xp.concatenate([models.whitened * weights[:, None], (design.cases.T - chances)[:, None]], axis=1)
    products, squares = genotypes.products(Columns(columns.reshape(-1, block.n_samples).T), Columns(weights.T, power=2))
    products = products.reshape(len(block), -1, k + 1)
    alleles = _alleles(block, models)
    summed = None if summed is None else xp.asarray(summed)
    found = []
    for trait in range(len(design.trait_names)):
        explained = products[:, trait, :k]
        information = squares[:, trait] - (explained**2).sum(axis=1)
        reason = xp.full(len(block), FINE, xp.uint8)
        reason[information <= COLLINEAR_BELOW * squares[:, trait]] = COLLINEAR
        reason[~genotypes.varies] = MONOMORPHIC
        reason[alleles[trait][1] == 0] = TOO_FEW
        scored = _Scored(products[:, trait, k], xp.where(reason == FINE, information, xp.nan), explained, reason)
        found.append(_tested(genotypes, models, (trait, scored), (*alleles[trait], summed), (method, screen, in_set)))
    return found


def _alleles(block: GenotypeBlock, models: PredictedBinary) -> dict[int, tuple[Array, Array]]:
    """By trait the copies of ALT among those who have it, and how many of them are called, of every variant."""
    of_groups = [block.alleles(mask) for mask in models.design.masks]
    return {trait: alleles for group, alleles in zip(models.design.groups, of_groups, strict=True) for trait in group}


def _tested(
    genotypes: MeanGenotypes,
    models: PredictedBinary,
    of: tuple[int, _Scored],
    alleles: tuple[Array, Array, Array | None],
    how: tuple[PredictedMethod, float, bool],
) -> LogisticAssociation:
    """The results of one trait."""
    (trait, scored), (copies, called, summed), (method, screen, in_set) = of, alleles, how
    block, xp, known = genotypes.block, genotypes.block.xp, models.known[:, trait]
    beta, error = scored.score / scored.information, scored.information**-0.5
    statistic, reason = beta / error, scored.reason
    p_value, neg_log_10 = scan_p_values(statistic)
    test = xp.full(len(block), SCORE, xp.uint8)
    notable = xp.nonzero((reason == FINE) & (p_value <= screen))[0] if method != "score" and screen > 0 else xp.empty(0, xp.int64)
    used = models.design.known.any(axis=1)
    for some in variant_blocks(len(notable), 24 * block.n_samples, block_bytes(block.array, BLOCK_BYTES)):
        rows = notable[some]
        values, whole = genotypes.dense(rows=rows), called[rows] if summed is None else called[rows] * summed[rows]
        if method in ("firth", "wald"):
            found = _by_regression(values[:, known], models.nulls[trait], method)
        elif method == "spa":
            normal = _lacking(values, copies[rows] > whole, block, used, always=in_set) if summed is None else xp.zeros(values.shape, bool)
            adjusted = _adjusted(values, scored.explained[rows], models, trait)
            found = _by_saddle_point(adjusted, models.log_odds[trait], (scored.score[rows], normal), error[rows])
        else:
            adjusted = _adjusted(values, scored.explained[rows], models, trait)
            rare = xp.nonzero(xp.minimum(copies[rows], 2 * whole - copies[rows]) < (0 if in_set else RARE))[0]
            if len(rare):
                counts = values[rare] if summed is None else values[rare] / summed[rows][rare, None]
                adjusted[rare] *= ~_lacking(counts, (copies[rows] > whole)[rare], block, used)
            found = _by_ratio(adjusted, models, trait, beta[rows])
        beta[rows], error[rows], statistic[rows], p_value[rows], neg_log_10[rows] = found
        test[rows], failure = AGAIN[method]
        reason[rows] = xp.where(xp.isnan(found[0]), xp.uint8(failure), xp.uint8(FINE))
    frequency = copies / 2 / xp.where(called > 0, called, xp.nan)
    return LogisticAssociation(beta, error, statistic, p_value, neg_log_10, called.astype(xp.int64), frequency, test, reason)


def _adjusted(values: Array, explained: Array, models: PredictedBinary, trait: int) -> Array:
    """Genotypes `[v, n]` less what the covariates explain; 0 for who lacks the trait."""
    adjusted = values - explained @ models.whitened[trait]
    adjusted *= models.known[:, trait]
    return adjusted


def _lacking(values: Array, common: Array, block: GenotypeBlock, used: Array, *, always: bool = False) -> Array:
    """Who lacks the allele that few carry, `bool[v, n]`: nobody where more of those `used: bool[n]` carry it than half of all n.

    It is ALT, or REF of variants whose ALT is `common`; of dominant and recessive codings what they count, as in regenie.
    """
    lacking = values <= 0
    if block.is_linear:
        lacking = array_module(values).where(common[:, None], values >= block.codes[1], lacking)
    return lacking if always else lacking & (2 * (~lacking & used).sum(axis=1) <= block.n_samples)[:, None]


def _by_ratio(adjusted: Array, models: PredictedBinary, trait: int, start: Array) -> tuple[Array, ...]:
    """beta, standard error, statistic, p-value and -log10 of it, by Firth's likelihood ratio."""
    found = adjusted_likelihood_ratio(adjusted, models.design.cases[:, trait].copy(), models.centres[trait], start)
    xp = array_module(adjusted)
    statistic = xp.sign(found.beta) * xp.sqrt(found.chi_square)
    return found.beta, found.standard_error, statistic, *scan_p_values(statistic)


def _by_regression(values: Array, null: NullModel, method: Literal["firth", "wald"]) -> tuple[Array, ...]:
    """The same by a regression with all coefficients free, of genotypes `float64[v, n]` of the null model's people."""
    fit = refit_each(lambda rows: values[rows], len(values), null, (method, "lrt" if method == "firth" else "wald"))
    return fit.beta, fit.standard_error, fit.statistic, *scan_p_values(fit.statistic)


def _by_saddle_point(adjusted: Array, log_odds: Array, score: tuple[Array, Array], error: Array) -> tuple[Array, ...]:
    """The same by the saddle point; beta is the statistic times the score test's standard error."""
    (own, normal), xp = score, array_module(adjusted)
    tails = saddle_point(adjusted, log_odds, own, normal)
    (above, log_above), (below, log_below) = scan_p_values(tails.above), scan_p_values(tails.below)
    least, most = xp.minimum(log_above, log_below), xp.maximum(log_above, log_below)
    neg_log_10 = least - xp.log10((1 + 10 ** (least - most)) / 2)
    statistic = xp.sign(own) * z_of_neg_log_10_p(neg_log_10)
    return statistic * error, xp.where(xp.isnan(statistic), xp.nan, error), statistic, (above + below) / 2, neg_log_10
