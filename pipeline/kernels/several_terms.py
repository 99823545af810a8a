"""Regression of traits on several columns of each variant: its alleles, their deviation from dominance, and products with covariates.

For each variant the covariates and its columns are fitted together to the samples that are called (complete cases), by least squares or by
Newton's method of maximum likelihood. Terms are tested by Wald's t or z, all of them jointly by Wald's F or chi-square.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.backend.arrays import array_module, checked_linalg
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import MISSING, Array, unpack, variant_blocks
from pipeline.kernels.p_values import chi_square_p_values, f_test_p_values, t_test_p_values, z_test_p_values

FINE, TOO_FEW, MONOMORPHIC, COLLINEAR, ENDLESS = range(5)
REASONS = (
    "",
    "too few called samples",
    "no variation among the called samples",
    "the variant's columns are collinear with one another or the covariates",
    "no finite maximum of the likelihood",
)
"""Why a variant has no result, by its code in `Terms.reason`."""
COLLINEAR_BELOW, STEPS, CONVERGED, FAR = 1e-9, 40, 1e-9, 30.0
"""Least eigenvalue of the columns' correlations; Newton's steps, their end in units of log odds, and log odds that stand for no maximum."""
BLOCK_BYTES = 32 << 20


@dataclass(frozen=True)
class TermsDesign:
    """What all variants share; arrays have the order of all `n_samples` of the genotypes, rows of samples left out are 0."""

    n_samples: int
    mask: Array
    """`uint8[ceil(n_samples / 4)]`: both bits of the used samples' calls are set."""
    basis: Array
    """`float64[n_samples, k]`: intercept and covariates, orthonormal."""
    traits: Array
    """`float64[n_samples, t]`: residuals of quantitative traits, cases (1) of binary ones."""
    with_each: Array
    """`float64[n_samples, e]`: covariates that the variant's columns are multiplied with."""
    genotypic: bool
    """Whether a variant has a column of its heterozygotes beside its alleles."""
    logistic: bool
    trait_names: tuple[str, ...]

    @property
    def used(self) -> int:
        """Samples with all values."""
        return int((unpack(self.mask[None, :], self.n_samples)[0] == MISSING).sum())

    @property
    def terms(self) -> int:
        """Columns of a variant."""
        return (1 + self.genotypic) * (1 + int(self.with_each.shape[1]))

    def beside(self, array: Array) -> TermsDesign:
        """This design where `array` lives."""
        xp = array_module(array)
        return replace(self, **{name: xp.asarray(getattr(self, name)) for name in ("mask", "basis", "traits", "with_each")})


@dataclass(frozen=True)
class Terms:
    """Results of v variants, t traits, m terms and their joint test, the last (its beta and error NaN); NaN where `reason` is not 0."""

    beta: Array
    """`float64[v, t, m + 1]`."""
    standard_error: Array
    statistic: Array
    """t or z; of the joint test F with m and n - k - m degrees of freedom, or chi-square with m."""
    p_value: Array
    neg_log_10_p_value: Array
    n: Array
    """`int64[v]`: samples in the regression."""
    effect_allele_frequency: Array
    """`float64[v]`: of ALT among them."""
    reason: Array
    """`uint8[v, t]`: place in `REASONS`."""


def associate_terms(block: GenotypeBlock, design: TermsDesign) -> Terms:
    """All terms of every variant of a block with every trait of the design."""
    design, xp = design.beside(block.array), block.xp
    shape = len(block), len(design.trait_names), design.terms + 1
    found = {name: xp.full(shape, xp.nan) for name in ("beta", "standard_error", "statistic", "p_value", "neg_log_10_p_value")}
    n, reason = xp.zeros(shape[0], xp.int64), xp.zeros(shape[:2], xp.uint8)
    people = unpack(design.mask[None, :], design.n_samples)[0] == MISSING
    width = 8 * block.n_samples * (design.basis.shape[1] + 3 * design.terms + 4)
    for rows in variant_blocks(shape[0], width, BLOCK_BYTES):
        coded = block.coded(rows)
        called = ~xp.isnan(coded) & people
        columns = _columns(xp.where(called, coded, 0.0), called, design)
        n[rows], mean = called.sum(axis=1), xp.where(called, coded, 0.0).sum(axis=1) / xp.maximum(called.sum(axis=1), 1)
        flat = (xp.where(called, abs(coded - mean[:, None]), 0.0) <= COLLINEAR_BELOW).all(axis=1)
        inverse, collinear = _inverse(columns, columns)
        of_all = xp.where(collinear, xp.uint8(COLLINEAR), xp.uint8(FINE))
        of_all = xp.where(flat, xp.uint8(MONOMORPHIC), of_all)
        of_all = xp.where(n[rows] <= columns.shape[2], xp.uint8(TOO_FEW), of_all)
        for trait in range(shape[1]):
            values = design.traits[:, trait]
            fit = _logistic(columns, values, called) if design.logistic else _linear(columns, inverse, values, called)
            reason[rows, trait] = xp.where((of_all == FINE) & fit.endless, xp.uint8(ENDLESS), of_all)
            for name, array in _tested(fit, design.terms, reason[rows, trait] == FINE, logistic=design.logistic):
                found[name][rows, trait] = array
    copies, alleles = block.alleles(design.mask)
    frequency = xp.where(alleles > 0, copies / xp.maximum(2 * alleles, 1), xp.nan)
    return Terms(**found, n=n, effect_allele_frequency=frequency, reason=reason)


@dataclass(frozen=True)
class _Fit:
    """Effects `[v, k]` of all columns, their covariances `[v, k, k]`, degrees of freedom `[v]` that are left, and which have no maximum."""

    effects: Array
    covariances: Array
    freedom: Array
    endless: Array


def _columns(coded: Array, called: Array, design: TermsDesign) -> Array:
    """`[v, n, k + m]`: covariates, then the variant's columns, 0 where it is not called."""
    xp = array_module(coded)
    own = [coded, *([xp.minimum(coded, 2.0 - coded)] if design.genotypic else [])]
    columns = [one * by for by in (called, *(design.with_each[:, e] for e in range(design.with_each.shape[1]))) for one in own]
    return xp.concatenate([called[:, :, None] * design.basis, xp.stack(columns, axis=2)], axis=2)


def _inverse(columns: Array, weighted: Array) -> tuple[Array, Array]:
    """Inverses `[v, k, k]` of columns' products with weighted ones, and where there is none (`bool[v]`, an identity stands there)."""
    xp = array_module(columns)
    products = columns.transpose(0, 2, 1) @ weighted
    scale = xp.sqrt(xp.maximum(xp.diagonal(products, axis1=1, axis2=2), 0.0))
    units = xp.where(scale > 0, scale, 1.0)
    alike = products / units[:, :, None] / units[:, None, :]
    with checked_linalg(xp):
        singular = xp.linalg.eigvalsh(alike)[:, 0] <= COLLINEAR_BELOW
        alike = xp.where(singular[:, None, None], xp.eye(columns.shape[2]), alike)
        inverse = xp.linalg.inv(alike)
    return inverse / units[:, :, None] / units[:, None, :], singular


def _linear(columns: Array, inverse: Array, values: Array, called: Array) -> _Fit:
    """Least squares."""
    xp = array_module(columns)
    effects = (inverse @ (columns.transpose(0, 2, 1) @ values)[:, :, None])[:, :, 0]
    left = xp.where(called, values - (columns @ effects[:, :, None])[:, :, 0], 0.0)
    freedom = called.sum(axis=1) - columns.shape[2]
    variance = (left**2).sum(axis=1) / xp.maximum(freedom, 1)
    return _Fit(effects, inverse * variance[:, None, None], freedom, xp.zeros(len(freedom), bool))


def _logistic(columns: Array, cases: Array, called: Array) -> _Fit:
    """Maximum likelihood by Newton's method, all variants at once; without one log odds grow past `FAR`, or steps do not end."""
    xp = array_module(columns)
    effects, moving = xp.zeros((len(columns), columns.shape[2])), xp.ones(len(columns), bool)
    covariances = xp.broadcast_to(xp.eye(columns.shape[2]), (len(columns), columns.shape[2], columns.shape[2]))
    far = xp.zeros(len(columns), bool)
    for _ in range(STEPS):
        odds = xp.clip((columns @ effects[:, :, None])[:, :, 0], -FAR, FAR)
        chance = 1.0 / (1.0 + xp.exp(-odds))
        covariances, singular = _inverse(columns, columns * (called * chance * (1.0 - chance))[:, :, None])
        left = xp.where(called, cases - chance, 0.0)
        step = (covariances @ (columns.transpose(0, 2, 1) @ left[:, :, None]))[:, :, 0]
        step = xp.where((moving & ~singular)[:, None], step, 0.0)
        effects = effects + step
        odds = (columns @ effects[:, :, None])[:, :, 0]
        far = far | singular | (abs(odds).max(axis=1) >= FAR)
        moving = moving & ~far & (abs((columns @ step[:, :, None])[:, :, 0]).max(axis=1) > CONVERGED)
        if not bool(moving.any()):
            break
    return _Fit(effects, covariances, called.sum(axis=1) - columns.shape[2], far | moving)


def _tested(fit: _Fit, terms: int, fine: Array, *, logistic: bool) -> Iterator[tuple[str, Array]]:
    """Every number of `Terms`, `[v, m + 1]`, NaN where a variant is not fine."""
    xp = array_module(fit.effects)
    beta, covariance = fit.effects[:, -terms:], fit.covariances[:, -terms:, -terms:]
    safe = xp.where(fine[:, None, None], covariance, xp.eye(terms))
    error = xp.sqrt(xp.diagonal(safe, axis1=1, axis2=2))
    with checked_linalg(xp):
        joint = (beta * xp.linalg.solve(safe, beta[:, :, None])[:, :, 0]).sum(axis=1)
    freedom = xp.maximum(fit.freedom, 1)
    statistic = beta / error
    if logistic:
        own, whole = z_test_p_values(statistic), chi_square_p_values(joint, terms)
    else:
        joint = joint / terms
        own, whole = t_test_p_values(statistic, freedom[:, None]), f_test_p_values(joint, terms, freedom)
    none = xp.full(len(joint), xp.nan)
    numbers = {"beta": (beta, none), "standard_error": (error, none), "statistic": (statistic, joint)}
    numbers |= {name: (one, all_) for name, one, all_ in zip(("p_value", "neg_log_10_p_value"), own, whole, strict=True)}
    for name, (each, last) in numbers.items():
        yield name, xp.where(fine[:, None], xp.concatenate([each, last[:, None]], axis=1), xp.nan)
