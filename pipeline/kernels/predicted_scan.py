"""Linear tests of every variant of a block with traits less what other chromosomes predict of them, as regenie's step 2 does them.

Mbatchou et al. 2021 (Nature Genetics 53:1097-1103). With Q (orthonormal) the intercept and covariates of everybody used, b = Q'g and
g~ = g - Q b the genotype (missing ones the mean) less what Q explains, and r the trait less Q and the prediction, over the n people who
have the trait: beta = g~'r / g~'g~, chi-square = (g~'r)^2 / (g~'g~ s^2) and s^2 = r'r / (n - k).

Where some of those used lack a trait, r is 0 there, and sums of squares are over the others: g~'g~ = g'g - 2 b'Q'g + b'S b, S = Q'Q of
these. regenie takes the identity for S where less than half of the people carry the allele, and does not centre a trait before what is
missing becomes 0. Both are done here too as long as they move little: the first while at most `_FEW` of the people lack the trait, the
second while it moves the trait by at most `_SHIFT` of its standard deviation. Beyond that S is what it is, and the trait is centred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes
from pipeline.errors import DataError
from pipeline.kernels.design import missingness_groups
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, MISSING, Array, call_counts, pack, take_samples, variant_blocks
from pipeline.kernels.linear_regression import COLLINEAR, COLLINEAR_BELOW, FINE, FLAT, MONOMORPHIC, TOO_FEW
from pipeline.kernels.ridge_predictors import RidgeDesign
from pipeline.kernels.standardized import decoded

_FEW, _SHIFT = 0.05, 0.01


@dataclass(frozen=True)
class PredictedDesign:
    """People, covariates and traits of a scan with predictions. Arrays keep the order of all `n` people of the genotypes."""

    mask: Array
    """`uint8[ceil(n / 4)]`: both bits of the calls of those used, who have all covariates and a trait, are set."""
    basis: Array
    """`float64[n, k]`: intercept and covariates, orthonormal among those used, 0 for others."""
    residuals: Array
    """`float64[n, t]`: the traits less what covariates explain, and predictions once `less` took them off; 0 for who lacks the trait."""
    scales: Array
    """`float64[t]`: the norm of these over sqrt(people - k) before predictions are taken off, which is the predictions' unit."""
    known: Array
    """`bool[n, t]`: who has the trait."""
    trait_names: tuple[str, ...]

    @property
    def used(self) -> int:
        """People with all covariates and a trait."""
        return int(self.known.any(axis=1).sum())

    @property
    def people(self) -> Array:
        """People with each trait, `int64[t]`."""
        return self.known.sum(axis=0)

    @classmethod
    def build(cls, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]] = ((), ())) -> PredictedDesign:
        """From covariates `float64[n, k - 1]` and traits `float64[n, t]`, NaN where missing; `names` of both are for errors.

        Raises DataError as `RidgeDesign.build` does, and for a trait of fewer people than columns + 2.
        """
        known = ~np.isnan(traits) & ~np.isnan(covariates).any(axis=1)[:, None]
        used = known.any(axis=1)
        ridge = RidgeDesign.build(covariates[used], np.where(known, traits, np.nan)[used], names, folds=1)
        some, k = known[used], ridge.basis.shape[1]
        people = some.sum(axis=0)
        trait_names = tuple(names[1]) or tuple(f"trait {number}" for number in range(1, traits.shape[1] + 1))
        if (few := np.flatnonzero(people < k + 2)).size:
            raise DataError(
                f"Only {people[few[0]]} people have {trait_names[few[0]]!r}, a prediction of it and all covariates; {k + 2} are needed."
            )
        means = np.where(some, traits[used], 0).sum(axis=0) / people
        missing = 1 - people / len(some)
        centres = np.where((missing == 0) | (abs(means) * missing > _SHIFT * ridge.scales), means, 0)
        left = np.where(some, traits[used] - centres, 0)
        left = (left - ridge.basis @ (ridge.basis.T @ left)) * some
        basis, residuals = np.zeros((len(traits), k)), np.zeros(traits.shape)
        basis[used], residuals[used] = ridge.basis, left
        scales = np.linalg.norm(left, axis=0) / np.sqrt(people - k)
        return cls(pack((used * MISSING).astype(np.uint8)[None, :])[0], basis, residuals, scales, known, trait_names)

    def less(self, predictions: Array) -> PredictedDesign:
        """This design with predictions `[t, n]`, in units of `scales`, taken off; what is predicted of who lacks the trait is not used."""
        return replace(self, residuals=np.where(self.known, self.residuals - self.scales * predictions.T, 0))

    def beside(self, array: Array) -> PredictedDesign:
        """This design where `array` lives: in CuPy arrays on its GPU, or as it is."""
        xp = array_module(array)
        moved = ("mask", "basis", "residuals", "scales", "known")
        return self if xp is np else replace(self, **{name: xp.asarray(getattr(self, name)) for name in moved})


@dataclass(frozen=True)
class PredictedAssociation:
    """Results of v variants and t traits, each `[v, t]`; NaN where `reason` is not 0."""

    beta: Array
    """`float64`, per copy of ALT, in units of the trait."""
    standard_error: Array
    statistic: Array
    """beta / standard_error, the signed root of chi-square with one degree of freedom."""
    n: Array
    """`int64`: people with the trait."""
    effect_allele_frequency: Array
    """`float64`: of ALT among their called alleles."""
    reason: Array
    """`uint8`: place in `REASONS` of linear_regression, 0 where all is well."""


def associate_predicted(block: GenotypeBlock, design: PredictedDesign) -> PredictedAssociation:
    """Associations of every variant of a block with every trait of the design. Raises ValueError where their numbers of people differ."""
    if len(design.basis) != block.n_samples:
        raise ValueError(f"The design is of {len(design.basis)} people, the genotypes are of {block.n_samples}.")
    xp, design = block.xp, design.beside(block.array)
    columns = xp.concatenate([design.basis, design.residuals], axis=1)
    groups = missingness_groups(xp.where(design.known, 0.0, xp.nan))
    size = block_bytes(block.array, BLOCK_BYTES)
    found = [_some(block.part(rows), design, columns, groups) for rows in variant_blocks(len(block), 16 * block.n_samples, size)]
    if not found:
        return _some(block, design, columns, groups)
    names = [field.name for field in fields(PredictedAssociation)]
    return PredictedAssociation(**{name: xp.concatenate([getattr(one, name) for one in found]) for name in names})


@dataclass(frozen=True)
class _Coded:
    """What the genotypes of a block count."""

    dense: Array
    """`float64[v, n]`: the mean of those used where missing, anything for those who are not used."""
    squares: Array
    """`float64[v]`: sum of squares of those used."""
    spread: Array
    """`float64[v]`: the same about the mean."""
    carriers: Array
    """`int64[v]`: of those used, who has a count above 0."""


def _some(block: GenotypeBlock, design: PredictedDesign, columns: Array, groups: Sequence[tuple[int, ...]]) -> PredictedAssociation:
    """The results of a few variants."""
    xp, k = block.xp, design.basis.shape[1]
    coded, used = _coded(block, design), design.known.any(axis=1)
    product = coded.dense @ columns
    explained = product[:, :k]
    crossed = product[:, k:] - explained @ (design.basis.T @ design.residuals)  # predictions are not free of covariates
    copies, called = block.alleles(design.mask)
    shape = crossed.shape
    squares, frequency, reason = xp.empty(shape), xp.empty(shape), xp.zeros(shape, xp.uint8)
    whole = coded.squares - (explained**2).sum(axis=1)
    for group in groups:
        absent = xp.flatnonzero(used & ~design.known[:, group[0]])
        own, alt, alleles = whole, copies, called
        if len(absent):
            own = _without(coded, explained, design, absent)
            left_out = _of_people(block, absent)
            less = left_out.alleles(xp.full(-(-len(absent) // 4), 255, xp.uint8))
            alt, alleles = copies - less[0], called - less[1]
        squares[:, group] = own[:, None]
        frequency[:, group] = (alt / 2 / xp.where(alleles > 0, alleles, xp.nan))[:, None]
    deviation = xp.sqrt((design.residuals**2).sum(axis=0) / (design.people - k))
    reason[:, deviation <= 0] = FLAT
    reason[squares <= COLLINEAR_BELOW * coded.spread[:, None]] = COLLINEAR
    reason[coded.spread <= 1e-12 * coded.squares] = MONOMORPHIC
    reason[called == 0] = TOO_FEW
    fine = reason == FINE
    squares = xp.where(fine, squares, 1.0)
    error = xp.where(fine, deviation / xp.sqrt(squares), xp.nan)
    beta = xp.where(fine, crossed / squares, xp.nan)
    return PredictedAssociation(beta, error, beta / error, xp.broadcast_to(design.people, shape), frequency, reason)


def _coded(block: GenotypeBlock, design: PredictedDesign) -> _Coded:
    """What a few variants count among those used."""
    xp, n, one, two = block.xp, design.used, *block.codes
    if block.dosages is None:
        counts = call_counts(block.calls & design.mask, block.n_samples)
        called = counts[:, :3].sum(axis=1) - (block.n_samples - n)
        total = one * counts[:, 1] + two * counts[:, 2]
        mean, missing = total / xp.maximum(called, 1), counts[:, MISSING]
        values = xp.stack([xp.zeros(len(block)), xp.full(len(block), one), xp.full(len(block), two), mean], axis=1)
        dense = decoded(block.calls, block.n_samples, values)
        squares = one**2 * counts[:, 1] + two**2 * counts[:, 2]
        carriers = (one > 0) * counts[:, 1] + (two > 0) * counts[:, 2] + (mean > 0) * missing
        return _Coded(dense, squares + missing * mean**2, squares - total * mean, carriers)
    known = design.known.any(axis=1)
    dense = block.coded(slice(None))
    there = known & ~xp.isnan(dense)
    total = xp.where(there, dense, 0).sum(axis=1)
    mean = total / xp.maximum(there.sum(axis=1), 1)
    dense = xp.where(xp.isnan(dense), mean[:, None], dense)
    of_used = xp.where(known, dense, 0)
    spread = (xp.where(known, dense - mean[:, None], 0) ** 2).sum(axis=1)
    return _Coded(dense, (of_used**2).sum(axis=1), spread, (of_used > 0).sum(axis=1))


def _without(coded: _Coded, explained: Array, design: PredictedDesign, absent: Array) -> Array:
    """g~'g~ `float64[v]` over those used but the `absent`."""
    xp = array_module(coded.dense)
    genotypes, basis = coded.dense[:, absent], design.basis[absent]
    own = explained - genotypes @ basis
    squares = coded.squares - (genotypes**2).sum(axis=1) - 2 * (explained * own).sum(axis=1) + (explained**2).sum(axis=1)
    exact = squares - ((explained @ basis.T) ** 2).sum(axis=1)
    if len(absent) > _FEW * design.used:
        return exact
    return xp.where(coded.carriers < 0.5 * design.used, squares, exact)


def _of_people(block: GenotypeBlock, people: Any) -> GenotypeBlock:
    """The genotypes of some people."""
    if block.dosages is None:
        return GenotypeBlock(take_samples(block.calls, block.n_samples, people), None, len(people), block.codes)
    return GenotypeBlock(None, block.dosages[:, people], len(people), block.codes)
