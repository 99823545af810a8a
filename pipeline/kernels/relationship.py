"""Genomic relationship matrix from packed calls or dosages, as sums that blocks of variants add up to, and its principal components.

As PLINK and GCTA do (Yang et al. 2011, Am J Hum Genet 88:76-82): calls less 2f over sqrt(2f(1 - f)), 0 where missing, and each pair's sum
divided by the number of variants that both have.

On a processor whole blocks of variants of more than 2,000 samples are multiplied in float32 and added in float64. What float32 rounds
differs from variant to variant and averages out: eigenvalues were within 3e-8 (relative) of those of float64 for 50,000 variants of 2,500
samples, within 2e-7 for 6,000 of 41, and where the blocks begin, so the number of parts, changes them by less than that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, checked_linalg
from pipeline.backend.memory import block_bytes
from pipeline.errors import DataError
from pipeline.kernels.dosages import missing_mask
from pipeline.kernels.genotypes import BLOCK_BYTES, MISSING, Array, variant_blocks
from pipeline.kernels.standardized import decoded, single_rows, standard_values

_BLOCK, _BLOCKS = 1024, 4
"""Variants of a block that is multiplied in float32, and blocks of one product."""
_FEW = 11
"""A variant that less than one in so many miss is scattered pair by pair; a matrix product takes as long for one that more miss."""
_SMALL = 1_000
"""Samples up to which all eigenvalues are found, and of a larger matrix the leading ones by Lanczos' method."""
_SEED = 20_110_107


class GrmSums(NamedTuple):
    """Sums over variants, of which the upper triangles count; those of two sets of variants add up."""

    products: Array
    """`float64[n, n]`: of standardized calls."""
    both_missing: Array
    """`int32[n, n]`: variants that both samples have not; on the diagonal those that one has not."""
    variants: int
    """How many variants."""

    def plus(self, other: GrmSums) -> GrmSums:
        """The sums over both sets of variants."""
        return GrmSums(self.products + other.products, self.both_missing + other.both_missing, self.variants + other.variants)


def _nothing() -> None:
    """What is asked where nobody is to be asked."""


def grm_sums(
    packed: Array, n_samples: int, frequency: Array, earlier: GrmSums | None = None, ask: Callable[[], None] = _nothing
) -> GrmSums:
    """The sums over a block of variants that vary, of ALT frequency `float64[v]`, added to those of `earlier` ones (left as they are).

    `ask` is called before every product, and may raise where nobody wants the sums any more.
    """
    xp = array_module(packed)
    shape = n_samples, n_samples
    products = xp.zeros(shape) if earlier is None else earlier.products.copy()
    both = xp.zeros(shape, xp.int32) if earlier is None else earlier.both_missing.copy()
    values = standard_values(frequency)
    whole = single_rows(packed, n_samples, _BLOCK)
    if whole:
        _add_in_single(products, packed[:whole], n_samples, values[:whole].astype(np.float32), ask)
    _add_in_double(products, packed[whole:], n_samples, values[whole:], ask)
    _add_missing(both, missing_mask(packed), n_samples)
    return GrmSums(products, both, len(packed) + (0 if earlier is None else earlier.variants))


def _add_in_double(products: Array, packed: Array, n_samples: int, values: Array, ask: Callable[[], None]) -> None:
    """Adds the products of calls, in place; what it decoded is gone when it returns."""
    for rows in variant_blocks(len(packed), 8 * n_samples, block_bytes(packed, BLOCK_BYTES)):
        ask()
        standard = decoded(packed[rows], n_samples, values[rows])
        products += standard.T @ standard


def _add_in_single(products: Array, packed: Array, n_samples: int, values: Array, ask: Callable[[], None]) -> None:
    """Adds the products of whole blocks, in place, to the upper triangle."""
    from pipeline.kernels.compiled.standardize import add_triangle

    several = np.empty((n_samples, n_samples), np.float32)
    for rows in variant_blocks(len(packed), 1, _BLOCK * _BLOCKS):
        ask()
        standard = decoded(packed[rows], n_samples, values[rows])
        # A product of a matrix and its own transpose: NumPy has half of it computed (SYRK), without the interpreter's lock.
        np.matmul(standard.T, standard, out=several)
        add_triangle(products, several)


def _add_missing(both: Array, packed: Array, n_samples: int) -> None:
    """Adds, in place, the variants that both of a pair have not."""
    xp = array_module(packed)
    if xp is np:
        from pipeline.kernels.compiled.standardize import add_missing_pairs

        missing = np.bitwise_count(packed & packed >> 1 & 0x55).sum(axis=1, dtype=np.int64)
        many = missing * _FEW > n_samples
        add_missing_pairs(packed[~many] if many.any() else packed, both)
        packed = packed[many]
    values = xp.zeros((len(packed), 4), xp.float32)
    values[:, MISSING] = 1
    # Sums of 0 and 1 are exact in float32 below 2^24, which no block reaches.
    for rows in variant_blocks(len(packed), 4 * n_samples, block_bytes(packed, BLOCK_BYTES)):
        indicator = decoded(packed[rows], n_samples, values[rows])
        both += (indicator.T @ indicator).astype(xp.int32)


def shared_variants(sums: GrmSums) -> Array:
    """The number of variants that both of each pair of samples have, `int64[n, n]`."""
    xp = array_module(sums.products)
    both = xp.triu(sums.both_missing).astype(xp.int64)
    alone = both.diagonal().copy()
    return sums.variants - alone[:, None] - alone[None, :] + both + xp.triu(both, 1).T


def grm(sums: GrmSums, shared: Array) -> Array:
    """Relationships `float64[n, n]`: sums over `shared_variants`. Raises DataError where two samples have no variant in common."""
    xp = array_module(shared)
    if not bool((shared > 0).all()):
        first, second = (int(place[0]) for place in xp.nonzero(shared <= 0))
        raise DataError(
            f"Samples {first} and {second} (from 0) share no called variant that varies, so their relationship is unknown. "
            "Remove samples with a low call rate first, or use more variants."
        )
    relationships = xp.triu(sums.products)
    relationships += xp.triu(relationships, 1).T
    relationships /= shared
    return relationships


def principal_components(relationships: Array, components: int) -> tuple[Array, Array]:
    """The largest eigenvalues `float64[k]`, descending, and their unit eigenvectors `float64[n, k]`, to the last digits of a double.

    The component of largest magnitude of a vector is positive. Raises DataError for more components than samples and for values that are
    not finite.
    """
    xp = array_module(relationships)
    n = len(relationships)
    if not 1 <= components <= n:
        raise DataError(f"{components} principal components were asked of {n} samples: ask for 1 to {n}.")
    if not bool(xp.isfinite(relationships).all()):
        raise DataError("The relationship matrix has values that are not finite; remove samples and variants with no calls first.")
    if xp is not np:
        with checked_linalg(xp):
            values, vectors = xp.linalg.eigh(relationships)
    elif n > max(_SMALL, 8 * components):
        values, vectors = _leading(relationships, components)
    else:
        values, vectors = _all(relationships, components)
    need_finite(values)
    return values[-components:][::-1], signed(vectors[:, -components:][:, ::-1])


def need_finite(values: Array) -> None:
    """Raise DataError where a factorization failed: NumPy's raise themselves, CuPy's give what is not finite."""
    if not bool(array_module(values).isfinite(values).all()):
        raise DataError("The axes could not be found: an eigenvalue is not finite. Use variants and people with higher call rates.")


def _all(relationships: Array, components: int) -> tuple[Array, Array]:
    """By reduction to tridiagonal form, ascending."""
    from scipy.linalg import eigh

    n = len(relationships)
    values, vectors = eigh(relationships, subset_by_index=(n - components, n - 1))
    return values, vectors


def _leading(relationships: Array, components: int) -> tuple[Array, Array]:
    """By Lanczos' method (ARPACK, to the precision of a double), ascending; by `_all` where it does not converge."""
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    n = len(relationships)
    try:
        values, vectors = eigsh(relationships, components, which="LA", v0=start_of(n), ncv=min(n, max(40, 3 * components)))
    except ArpackNoConvergence:
        return _all(relationships, components)
    order = np.argsort(values)
    return values[order], vectors[:, order]


def start_of(n: int) -> Array:
    """Where Lanczos' method starts, `float64[n]`; ones would not do: the rows of the matrix add up to nearly nothing."""
    return np.random.default_rng(_SEED).standard_normal(n)


def signed(vectors: Array) -> Array:
    """The columns of `float64[n, k]`, each with the sign that makes its component of largest magnitude positive."""
    xp = array_module(vectors)
    largest = vectors[xp.argmax(abs(vectors), axis=0), xp.arange(vectors.shape[1])]
    return vectors * xp.where(largest < 0, -1.0, 1.0)


def residuals(products: Array, vectors: Array, values: Array) -> Array:
    """|Gv - value v| / value, `float64[k]`, of eigenpairs and their `products`, Gv; a value near 0 counts as 1e-6 of the first."""
    xp = array_module(products)
    size = xp.maximum(values, 1e-6 * values[0])
    return xp.linalg.norm(products - vectors * values, axis=0) / xp.where(size > 0, size, 1)
