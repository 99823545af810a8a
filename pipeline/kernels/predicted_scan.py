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

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes
from pipeline.errors import DataError
from pipeline.kernels.design import people_of_groups
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, take_samples, variant_blocks
from pipeline.kernels.linear_regression import COLLINEAR, COLLINEAR_BELOW, FINE, FLAT, MONOMORPHIC, TOO_FEW
from pipeline.kernels.mean_genotypes import MeanGenotypes
from pipeline.kernels.ridge_design import RidgeDesign
from pipeline.kernels.whole_columns import Columns

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
    groups: tuple[tuple[int, ...], ...]
    """Traits that the same people lack."""
    masks: Array
    """`uint8[g, ceil(n / 4)]`, a row a group: both bits of the calls of those who have these traits are set."""
    absent: tuple[Array, ...]
    """`int64`, a group each: the places of those used who lack these traits."""

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
        groups, masks = people_of_groups(known, used)
        absent = tuple(np.flatnonzero(used & ~known[:, group[0]]) for group in groups)
        return cls(masks[0], basis, residuals, scales, known, trait_names, groups, masks[1:], absent)

    def less(self, predictions: Array) -> PredictedDesign:
        """This design with predictions `[t, n]`, in units of `scales`, taken off; what is predicted of who lacks the trait is not used."""
        return replace(self, residuals=np.where(self.known, self.residuals - self.scales * predictions.T, 0))

    def beside(self, array: Array) -> PredictedDesign:
        """This design where `array` lives: in CuPy arrays on its GPU, or as it is."""
        xp = array_module(array)
        if xp is np:
            return self
        moved = {name: xp.asarray(getattr(self, name)) for name in ("mask", "basis", "residuals", "scales", "known", "masks")}
        return replace(self, **moved, absent=tuple(map(xp.asarray, self.absent)))


@dataclass(frozen=True)
class PredictedAssociation:
    """Results of v variants and t traits, each `[v, t]`; NaN where `reason` is not 0."""

    beta: Array
    """`float64`, per copy of ALT, in units of the trait."""
    standard_error: Array
    statistic: Array
    """beta / standard_error, the signed root of chi-square with one degree of freedom."""
    n: Array
    """`int64`: people with the trait and a genotype; who has none counts with the mean, but not here, as in regenie."""
    effect_allele_frequency: Array
    """`float64`: of ALT among their called alleles."""
    reason: Array
    """`uint8`: place in `REASONS` of linear_regression, 0 where all is well."""


def associate_predicted(block: GenotypeBlock, design: PredictedDesign) -> PredictedAssociation:
    """Associations of every variant of a block with every trait of the design. Raises ValueError where their numbers of people differ."""
    if len(design.basis) != block.n_samples:
        raise ValueError(f"The design is of {len(design.basis)} people, the genotypes are of {block.n_samples}.")
    xp, design = block.xp, design.beside(block.array)
    if block.compiled and 4 * sum(map(len, design.absent)) <= block.n_samples:
        return _some(block, design, None)
    columns = xp.concatenate([design.basis, design.residuals], axis=1)
    rows = [*variant_blocks(len(block), 24 * block.n_samples, block_bytes(block.array, BLOCK_BYTES))] or [slice(0)]
    found = [_some(block.part(some), design, columns) for some in rows]
    names = [field.name for field in fields(PredictedAssociation)]
    return PredictedAssociation(**{name: xp.concatenate([getattr(one, name) for one in found]) for name in names})


def student_t(found: PredictedAssociation, freedom: Array) -> PredictedAssociation:
    """The same estimates with the residual of each regression in the place of the trait's: t with `freedom: int64[t]`, n - k - 1."""
    xp, square = array_module(found.statistic), found.statistic**2
    statistic = found.statistic * xp.sqrt(freedom / xp.maximum(freedom + 1 - square, 1e-12 * freedom))
    return replace(found, statistic=statistic, standard_error=found.beta / statistic)


def _some(block: GenotypeBlock, design: PredictedDesign, columns: Array | None) -> PredictedAssociation:
    """The results of a few variants; their genotypes are decoded and multiplied with basis and residuals, or looked up without these."""
    xp, k = block.xp, design.basis.shape[1]
    coded = MeanGenotypes.of(block, design.mask, design.known.any(axis=1))
    dense = None if columns is None else coded.dense()
    if dense is None:  # in one pass: each fills its tables, and looks up
        (both,) = coded.products(Columns(np.concatenate([design.basis, design.residuals], axis=1)))
    else:
        both = dense @ columns
    explained, product = xp.split(both, [k], axis=1)
    crossed = product - explained @ (design.basis.T @ design.residuals)  # predictions are not free of covariates
    squares = _squares(coded, explained, dense, design)
    frequency, n, reason = xp.empty(crossed.shape), xp.empty(crossed.shape, xp.int64), xp.zeros(crossed.shape, xp.uint8)
    for group, mask in zip(design.groups, design.masks, strict=True):
        copies, called = block.alleles(mask)
        frequency[:, group] = (copies / 2 / xp.where(called > 0, called, xp.nan))[:, None]
        n[:, group] = called[:, None]
    deviation = xp.sqrt((design.residuals**2).sum(axis=0) / (design.people - k))
    reason[:, deviation <= 0] = FLAT
    reason[squares <= COLLINEAR_BELOW * coded.spread[:, None]] = COLLINEAR
    reason[~coded.varies] = MONOMORPHIC
    reason[coded.called == 0] = TOO_FEW
    fine = reason == FINE
    squares = xp.where(fine, squares, 1.0)
    error = xp.where(fine, deviation / xp.sqrt(squares), xp.nan)
    beta = xp.where(fine, crossed / squares, xp.nan)
    return PredictedAssociation(beta, error, beta / error, n, frequency, reason)


def _squares(coded: MeanGenotypes, explained: Array, dense: Array | None, design: PredictedDesign) -> Array:
    """g~'g~ over those who have each trait, `float64[v, t]`."""
    block, xp, absent = coded.block, coded.block.xp, design.absent
    whole = coded.squares - (explained**2).sum(axis=1)
    found = xp.repeat(whole[:, None], design.known.shape[1], axis=1)
    if dense is not None and any(map(len, absent)):
        left = dense - explained @ design.basis.T
        left *= left
        found = left @ design.known.astype(xp.float64)
    for group, people in zip(design.groups, absent, strict=True):
        if len(people) == 0:
            continue
        basis = design.basis[people]
        if dense is None:
            some = GenotypeBlock(take_samples(block.calls, block.n_samples, people), None, len(people), block.codes)
            found[:, group] = (whole - ((coded.dense(some) - explained @ basis.T) ** 2).sum(axis=1))[:, None]
        if len(people) <= _FEW * design.used:
            theirs = ((explained @ (basis.T @ basis)) * explained).sum(axis=1)
            found[:, group] += xp.where(coded.carriers < 0.5 * design.used, theirs, 0)[:, None]
    return found
