"""Level 0 of whole-genome regression: what a block of variants predicts of every trait, by ridge regression at several penalties.

Mbatchou et al. 2021 (Nature Genetics 53:1097-1103), as regenie 4.1 does it. With G the block's genotypes (missing ones the mean) less what
intercept and covariates Q (orthonormal) explain, each variant over its norm / sqrt(n - k), the traits likewise, and M variants in all, the
people of a fold are predicted by (G'G + M (1 - h) / h)^-1 G'y of the people outside of it, for each share h of variance.

G itself is never made. Counts A of the rarer allele are multiplied, so that little cancels, and what is projected out is taken off the
products of a fold f: G_f'G_f = A_f A_f' - B_f B' - B B_f' + B (Q_f'Q_f) B' with B_f = A_f Q_f and B their sum. Each system is factored by
itself (Cholesky), which is a third of the work of an eigendecomposition for five penalties. On a CPU the squares of counts alone are
multiplied in float32: what a block predicts at five penalties is nearly the same, and where level 1 penalizes little, it looks at the
last digits of what they differ by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, MISSING, Array
from pipeline.kernels.ridge_design import RidgeDesign
from pipeline.kernels.ridge_systems import ridge_effects
from pipeline.kernels.standardized import decoded

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
"""Shares h of the variance that a level's predictors are taken to explain, as regenie has them."""
COLLINEAR = 1e-6
"""Of a variant's sum of squares, what covariates must leave."""
_SMALL = 2_000
"""People up to whom float64 is quick enough."""


class _Sums(NamedTuple):
    """Sums over the people of a fold: of the counts A with one another `[v, v]`, with the basis `[v, k]` and with the traits `[v, t]`."""

    squares: Array
    basis: Array
    traits: Array


class RidgeFit(NamedTuple):
    """What a block predicts of each trait at each penalty, and by what."""

    predictors: Array
    """`float32[t, h, n]`, each of mean 0 and variance 1 (of n - 1); a fold's people by the others."""
    effects: Array
    """`float32[t, f, h, v]`: of one more copy of ALT on the predictor of each fold's people, but for what is the same for all."""


def ridge_predictors(block: GenotypeBlock, design: RidgeDesign, variants: int) -> Array:
    """Predictions of each trait at each penalty, each of mean 0 and variance 1 (of n - 1): `float32[t, h, n]`.

    The block's `v` variants vary among the design's people, whose genotypes alone it holds; `variants` is M, those of all blocks.
    """
    return ridge_fit(block, design, variants).predictors


def ridge_fit(block: GenotypeBlock, design: RidgeDesign, variants: int) -> RidgeFit:
    """The same, with the effects of the block's variants."""
    xp, design = block.xp, design.beside(block.array)
    counts = BlockCounts.of(block, design)
    sums = [counts.sums(design, fold) for fold in design.folds]
    whole = _Sums(*(sum(parts[1:], start=parts[0]) for parts in zip(*sums, strict=True)))
    size = xp.diagonal(whole.squares)
    left = size - (whole.basis**2).sum(axis=1)
    norms = xp.where(left > COLLINEAR * size, xp.sqrt(abs(left) / design.freedom), xp.inf)  # without effect where nothing is left
    found = xp.empty((design.traits.shape[1], len(SHARES), block.n_samples), xp.float32)
    systems = [_projected(one, whole.basis, norms, design, fold) for one, fold in zip(sums, design.folds, strict=True)]
    del sums
    gram, right = (sum(parts[1:], start=parts[0]) for parts in zip(*systems, strict=True))
    penalties, each = [variants * (1 - share) / share for share in SHARES], list[Array]()
    for (own_gram, own_right), fold in zip(systems, design.folds, strict=True):
        effects = ridge_effects(gram - own_gram, right - own_right, penalties, single=counts.single) / norms[:, None]
        counts.predict(found, effects, whole.basis.T @ effects, design, fold)
        each.append((effects * counts.signs[:, None]).astype(xp.float32))
    return as_predictors(found, xp.stack(each).transpose(3, 0, 1, 2))


def _projected(own: _Sums, basis: Array, norms: Array, design: RidgeDesign, fold: slice) -> tuple[Array, Array]:
    """G'G `float64[v, v]` and G'y `float64[v, t]` of a fold's people, from the sums of their counts."""
    of_fold = design.basis[fold]
    cross = own.basis @ basis.T
    squares = own.squares - cross - cross.T + basis @ (of_fold.T @ of_fold) @ basis.T
    traits = own.traits - basis @ (of_fold.T @ design.traits[fold])
    return squares / norms[:, None] / norms, traits / norms[:, None]


def as_predictors(found: Array, effects: Array) -> RidgeFit:
    """Predictions `[t, h, n]` as level 1 takes them, and what they come of by `effects: [t, f, h, v]` on these."""
    xp, spread = array_module(found), spreads(found)
    return RidgeFit(standardized(found), effects / xp.where(spread > 0, spread, 1).astype(xp.float32)[:, None, :, None])


def spreads(found: Array) -> Array:
    """Standard deviations (of n - 1) of predictions `[t, h, n]`, `float64[t, h]`."""
    xp = array_module(found)
    return xp.stack([xp.std(trait.astype(xp.float64), axis=1, ddof=min(1, found.shape[2] - 1)) for trait in found])


def standardized(found: Array) -> Array:
    """Each prediction less its mean, over its standard deviation; one that is the same for everyone is 0."""
    xp = array_module(found)
    for trait, spread in zip(found, spreads(found), strict=True):
        values = trait.astype(xp.float64)
        values -= values.mean(axis=1, keepdims=True)
        trait[:] = values / xp.where(spread > 0, spread, 1)[:, None]
    return found


@dataclass(frozen=True)
class BlockCounts:
    """A block's counts of the rarer allele, or of ALT, decoded some people at a time."""

    block: GenotypeBlock
    values: Array
    """`[v, 4]`: what no, one and two copies of ALT and a missing call count; dosages lie on the line through the first two."""
    single: bool
    """Whether they are multiplied in float32."""

    @classmethod
    def of(cls, block: GenotypeBlock, design: RidgeDesign) -> BlockCounts:
        """With the mean where a genotype is missing; of ALT for times to an event, whose basis makes a difference of it."""
        xp = block.xp
        everyone = xp.full(-(-block.n_samples // 4), 255, xp.uint8)
        copies, called = block.alleles(everyone)
        mean = copies / called
        flipped = (mean > 1) & (design.times is None)
        values = xp.empty((len(block), 4))
        values[:, :3] = xp.where(flipped[:, None], 2 - xp.arange(3), xp.arange(3))
        values[:, MISSING] = xp.where(flipped, 2 - mean, mean)
        single = xp is np and block.n_samples > _SMALL
        return cls(block, values.astype(xp.float32) if single else values, single)

    @property
    def signs(self) -> Array:
        """`[v]`: 1 where copies of ALT are counted, -1 where those of REF are."""
        return self.values[:, 1] - self.values[:, 0]

    def chunks(self, people: slice) -> Iterator[tuple[slice, Array]]:
        """Slices of neighbouring people and their counts, `[v, people of the slice]`."""
        width = self.values.dtype.itemsize * max(1, len(self.block))
        step = max(4, block_bytes(self.block.array, BLOCK_BYTES) // width // 4 * 4)
        for low in range(people.start, people.stop, step):
            some = slice(low, min(low + step, people.stop))
            yield some, self._decoded(some)

    def _decoded(self, people: slice) -> Array:
        block, xp = self.block, self.block.xp
        if block.dosages is None:
            first = people.start // 4
            calls = xp.ascontiguousarray(block.calls[:, first : -(-people.stop // 4)])
            return decoded(calls, people.stop - 4 * first, self.values)[:, people.start - 4 * first :]
        dosages = block.dosages[:, people].astype(self.values.dtype)
        return xp.where(xp.isnan(dosages), self.values[:, MISSING:], self.values[:, :1] + self.signs[:, None] * dosages)

    def sums(self, design: RidgeDesign, fold: slice) -> _Sums:
        """The sums of a fold: squares of some thousand people in `values`' type, exact for calls; the others in float64."""
        xp, k = self.block.xp, design.basis.shape[1]
        total = _Sums(*(xp.zeros((len(self.block), width)) for width in (len(self.block), k, design.traits.shape[1])))
        columns = xp.concatenate([design.basis[fold], design.traits[fold]], axis=1)
        for people, counts in self.chunks(fold):
            # A product of a matrix and its own transpose: NumPy has half of it computed (SYRK).
            total.squares[:] += counts @ counts.T
            product = counts.astype(xp.float64, copy=False) @ columns[people.start - fold.start : people.stop - fold.start]
            total.basis[:] += product[:, :k]
            total.traits[:] += product[:, k:]
        return total

    def predict(self, found: Array, effects: Array, basis: Array, design: RidgeDesign, fold: slice) -> None:
        """Write the predictions of a fold's people: effects `[h, v, t]` of counts less those `[h, k, t]` of the basis."""
        xp = self.block.xp
        effects, basis = (xp.concatenate(list(some), axis=1) for some in (effects, basis))  # [v, h * t], [k, h * t]
        shares, traits = found.shape[1], found.shape[0]
        for people, counts in self.chunks(fold):
            product = effects.T @ counts.astype(xp.float64, copy=False) - basis.T @ design.basis[people].T
            found[:, :, people] = product.reshape(shares, traits, -1).swapaxes(0, 1)
