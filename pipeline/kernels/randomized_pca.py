"""Principal components of many samples without their relationship matrix, by a randomized block Krylov method.

Musco & Musco 2015 (Advances in Neural Information Processing Systems 28), after Halko, Martinsson & Tropp 2011 (SIAM Review 53:217-288).
With Z the standardized calls of m variants, missing ones 0 (their mean), G = Z'Z / m is only ever multiplied with a few vectors: from a
random start, each pass over the calls adds G times the newest vectors to a growing orthonormal basis, and the answer is the best that the
basis holds (Rayleigh-Ritz). An eigenvalue so found is never too large; one well apart from the next is exact to rounding after ten passes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, checked_linalg
from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, variant_blocks
from pipeline.kernels.relationship import need_finite, residuals, signed
from pipeline.kernels.standardized import decoded, single_rows, standard_values

EXTRA = 6
"""Vectors beyond the components asked for: sixteen for ten of them, a width that processors multiply well."""
_BLOCK = 256
"""Variants of a product: their standardized calls stay in a processor's second-level cache."""
_NOTHING_NEW = 1e-10
"""A vector of which the basis leaves less than this share is in it already."""


class Krylov(NamedTuple):
    """An orthonormal basis in blocks `float64[n, width]`, and G times each block but the newest."""

    bases: tuple[Array, ...]
    products: tuple[Array, ...]


class RitzPairs(NamedTuple):
    """Approximate eigenvalues `float64[k]`, descending, unit vectors `float64[n, k]`, and their residuals `float64[k]`."""

    values: Array
    vectors: Array
    residuals: Array


def krylov_start(n_samples: int, components: int, seed: int) -> Krylov:
    """A random orthonormal start, `float64[n, min(n, components + 6)]` in the host's memory."""
    start = np.random.default_rng(seed).standard_normal((n_samples, min(n_samples, components + EXTRA)))
    return Krylov((np.linalg.qr(start)[0],), ())


def relationship_product(packed: Array, n_samples: int, frequency: Array, vectors: Array) -> Array:
    """Z'ZV, `float64[n, k]`, of a block of variants that vary, of ALT frequency `float64[v]`, and of `vectors: float64[n, k]`."""
    xp = array_module(packed)
    vectors = xp.asarray(vectors)
    product = xp.zeros((n_samples, vectors.shape[1]))
    values = standard_values(frequency)
    whole = single_rows(packed, n_samples, _BLOCK)
    block = _BLOCK if xp is np else max(1, block_bytes(packed, BLOCK_BYTES) // (8 * n_samples))
    for some, dtype in ((slice(0, whole), np.float32), (slice(whole, len(packed)), np.float64)):
        calls, numbers, given = packed[some], values[some].astype(dtype), vectors.astype(dtype)
        for rows in variant_blocks(len(calls), 1, block):
            standard = decoded(calls[rows], n_samples, numbers[rows])
            product += standard.T @ (standard @ given)
    return product


def krylov_step(state: Krylov, product: Array) -> Krylov:
    """The state with G times its newest block, `float64[n, width]`, and what that adds to the basis: the next block, maybe empty."""
    xp = array_module(product)
    bases = tuple(xp.asarray(block) for block in state.bases)
    basis = xp.concatenate(bases, axis=1)
    size = xp.linalg.norm(product, axis=0)
    new = product / xp.where(size > 0, size, 1)
    for _ in range(2):
        new = new - basis @ (basis.T @ new)
    with checked_linalg(xp):
        left, singular, _ = xp.linalg.svd(new, full_matrices=False)
    need_finite(singular)
    room = max(0, len(basis) - basis.shape[1])
    new = left[:, :room][:, singular[:room] > _NOTHING_NEW]
    new = new - basis @ (basis.T @ new)
    with checked_linalg(xp):
        return Krylov((*bases, xp.linalg.qr(new)[0]), (*state.products, product))


def ritz_pairs(state: Krylov, components: int) -> RitzPairs:
    """The best approximations that the basis holds, once every block but the newest has its product."""
    xp = array_module(state.products[0])
    basis = xp.concatenate(state.bases[: len(state.products)], axis=1)
    product = xp.concatenate(state.products, axis=1)
    small = basis.T @ product
    with checked_linalg(xp):
        values, mixed = xp.linalg.eigh((small + small.T) / 2)
    need_finite(values)
    values, mixed = values[::-1][:components], mixed[:, ::-1][:, :components]
    vectors = basis @ mixed
    return RitzPairs(values, signed(vectors), residuals(product @ mixed, vectors, values))
