"""Relationships of some people with others, a tile of the matrix at a time, and the axes of a matrix that is only ever multiplied.

The numbers are those of `relationship`: blocks of variants are multiplied in float32 and added in float64, what is left over in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.kernels.dosages import missing_mask
from pipeline.kernels.genotypes import variant_blocks
from pipeline.kernels.kinship import sample_bits
from pipeline.kernels.relationship import need_finite, signed, start_of
from pipeline.kernels.standardized import decoded, standard_values

Floats = NDArray[np.float64]
NEAR = 1e-10
"""How far |Gv - value v| / value may be from 0: eigenvalues are exact to a double's last digits well before, by its square."""
_BLOCK = 1024
"""Variants of a product in float32."""


class Calls(NamedTuple):
    """The packed calls, or dosages, of some people for variants that vary, and the ALT frequency of these among all."""

    packed: NDArray[np.uint8] | NDArray[np.float32]
    frequency: Floats
    people: int


class Tile(NamedTuple):
    """Relationships `float64[later, earlier]`, the variants that both are called for, and of each with how many it shares none."""

    relationships: Floats
    shared: NDArray[np.int32]
    apart: tuple[NDArray[np.int64], NDArray[np.int64]]


def joined_calls(blocks: Sequence[Calls]) -> Calls:
    """The calls of several blocks of variants of the same people, one after another."""
    packed, frequency = (np.concatenate([block[column] for block in blocks]) for column in (0, 1))
    return Calls(packed, frequency, blocks[0].people)


def relationship_tile(later: Calls, earlier: Calls | None, ask: Callable[[], None]) -> Tile:
    """The relationships of later people with earlier ones, or (None) among themselves; 0 for two who share no variant.

    `ask` is called before every product, and may raise where nobody wants the tile any more.
    """
    other = later if earlier is None else earlier
    products = np.zeros((later.people, other.people))
    values = standard_values(later.frequency)
    whole = len(values) - len(values) % _BLOCK
    for some, numbers in ((slice(0, whole), values[:whole].astype(np.float32)), (slice(whole, None), values[whole:])):
        packed, beside = later.packed[some], other.packed[some]
        for rows in variant_blocks(len(numbers), 1, _BLOCK):
            ask()
            ours = decoded(packed[rows], later.people, numbers[rows])
            theirs = ours if earlier is None else decoded(beside[rows], other.people, numbers[rows])
            products += ours.T @ theirs
    shared = _shared(later, earlier)
    products /= np.maximum(shared, 1)
    return Tile(products, shared, ((shared == 0).sum(axis=1), (shared == 0).sum(axis=0)))


def _shared(later: Calls, earlier: Calls | None) -> NDArray[np.int32]:
    """Variants that both of a pair are called for, `int32[later, earlier]`."""
    from pipeline.kernels.compiled.called import count_called

    ours = _called(later)
    theirs = ours if earlier is None else _called(earlier)
    counts = np.empty((len(ours), len(theirs)), np.int32)
    count_called(ours, theirs, counts)
    return counts[: later.people, : (later if earlier is None else earlier).people]


def _called(calls: Calls) -> NDArray[np.uint64]:
    planes = sample_bits(missing_mask(calls.packed), calls.people).planes
    called: NDArray[np.uint64] = ~(planes[:, 0] & planes[:, 1])
    return called


def add_products(tile: Floats, places: tuple[slice, slice], vectors: Floats, sums: Floats) -> None:
    """Add what some rows of the matrix, and (but on its diagonal) their mirror image, give with `vectors: float64[n, k]` to `sums`.

    `places` are the rows and columns of `tile`; a tile on the diagonal holds both of its triangles.
    """
    rows, columns = places
    sums[rows] += tile @ vectors[columns]
    if rows.start >= columns.stop:
        sums[columns] += tile.T @ vectors[rows]


def leading_axes(product: Callable[[Floats], Floats], n: int, components: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues `float64[k]`, descending, and unit eigenvectors `float64[n, k]`, of a matrix [n, n] that `product` applies.

    By Lanczos' method (ARPACK) until |Gv - value v| is 1e-10 of the value; it is asked for some hundred products with one vector.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    def applied(vector: Any) -> Floats:
        """The product with one vector."""
        return product(vector.reshape(n, 1))[:, 0]

    operator = LinearOperator((n, n), matvec=applied, dtype=np.float64)
    try:
        values, vectors = eigsh(operator, components, which="LA", v0=start_of(n), ncv=min(n, max(40, 3 * components)), tol=NEAR)
    except ArpackNoConvergence as error:
        raise DataError(f"The {components} axes could not be told apart in {error}. Ask for fewer, or use method: randomized.") from error
    need_finite(values)
    order = np.argsort(values)[::-1]
    return values[order], signed(vectors[:, order])
