"""LU factorization with partial pivoting of a matrix that lies in blocks of whole columns: panel by panel, as LAPACK's dgetrf does it.

A panel is a block of columns that is factored, with row exchanges among all rows that are left, as exact partial pivoting wants; blocks to
its right, right-hand sides among them, are then updated each by itself (Golub & Van Loan 2013, Matrix Computations, 3.4.7). A panel is
factored on the host, as its pivots follow one another, and blocks are updated where they lie. All of it is in the precision of the blocks.

How far a solution may be off is told by the condition of the matrix in the Frobenius norm: the mean square of A^-1 z over vectors z of
random signs is that of A^-1 (Kenney & Laub 1994, SIAM J Sci Comput 15:36-61), so probes ride along as right-hand sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.distances import row_blocks

Array = Any
PROBES = 20
"""Random vectors for a condition number: its standard error is a sixth at most."""
SEED = 20261123


class Block(NamedTuple):
    """Whole columns under way: `above`, finished rows of U `float[b, c]` of every panel before, and `left: float[rows left, c]`.

    They are float32 or float64, and so is what comes of them.
    """

    above: tuple[Array, ...]
    left: Array


class Panel(NamedTuple):
    """A factored block of columns: `lower: float[rows left, b]` below its diagonal, its inverse on top, and `upper: float[b, b]`.

    `above` are finished rows of U; `order: int[rows left]` says which row that was left is where now. `zero` is the column of the first
    pivot that is 0, or -1.
    """

    above: tuple[Array, ...]
    upper: Array
    inverse: Array
    lower: Array
    order: Array
    zero: int


def column_blocks(columns: int) -> list[slice]:
    """All columns in blocks of the same size, which depends on their number alone: some 12, of 64 to 1,024 columns."""
    size = min(max(-(-columns // 12), 64), 1_024)
    return [slice(start, min(start + size, columns)) for start in range(0, columns, size)]


def factored(block: Block) -> Panel:
    """Factor what is left of a block of columns; a pivot of 0 is told and stays."""
    from scipy.linalg import get_lapack_funcs, solve_triangular

    xp, width, host = array_module(block.left), block.left.shape[1], to_host(block.left)
    found, pivots, _ = get_lapack_funcs("getrf", [host])(host)
    order = np.arange(len(found))
    for place, other in enumerate(pivots):
        order[[place, other]] = order[[other, place]]
    top = found[:width]
    zeros = np.flatnonzero(np.diag(top) == 0)
    inverse = solve_triangular(top, np.eye(width, dtype=host.dtype), lower=True, unit_diagonal=True, check_finite=False)
    upper, inverse, lower = (xp.asarray(np.ascontiguousarray(each)) for each in (np.triu(top), inverse, found[width:]))
    zero = sum(len(rows) for rows in block.above) + int(zeros[0]) if len(zeros) else -1
    return Panel(block.above, upper, inverse, lower, xp.asarray(order), zero)


def updated(panel: Panel, block: Block, threads: int = 1) -> Block:
    """A block to the right of a panel after it: rows exchanged, its own of U finished, the rest less L times these.

    Rows are exchanged and lessened some at a time, on a host on so many threads: they come from memory once, and the result is the same for
    any number. (BLAS by NumPy: SciPy's holds the interpreter's lock.) Where pivots grow beyond the precision there are infinities.
    """
    width, xp = len(panel.upper), array_module(block.left)
    with np.errstate(over="ignore", invalid="ignore"):
        done = panel.inverse @ block.left[panel.order[:width]]
    rest = panel.order[width:]
    left = xp.empty((len(rest), done.shape[1]), done.dtype)

    def lessen(some: slice) -> None:
        """Some rows of what is left."""
        with np.errstate(over="ignore", invalid="ignore"):
            xp.matmul(panel.lower[some], done, out=left[some])
            xp.subtract(block.left[rest[some]], left[some], out=left[some])

    pieces = row_blocks(left, 2 * left.shape[1])
    if threads == 1:
        for some in pieces:
            lessen(some)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lessen, pieces))
    return Block((*block.above, done), left)


def substituted(panel: Panel, sides: Sequence[Array]) -> tuple[Array, ...]:
    """Finished right-hand sides `float[b, q]` of every panel, once the unknowns of this one stand in place of its own.

    Unknowns of panels after it stand there already. The panel has no pivot of 0.
    """
    from scipy.linalg import solve_triangular

    at, xp = len(panel.above), array_module(panel.upper)
    found = xp.asarray(solve_triangular(to_host(panel.upper), to_host(sides[at]), check_finite=False))
    before = (side - rows @ found for side, rows in zip(sides, panel.above, strict=False))  # those of panels before
    return (*before, found, *sides[at + 1 :])


def probes(rows: int) -> Array:
    """Random signs `float64[rows, 20]`, the same for the same number of rows."""
    return np.random.Generator(np.random.Philox(SEED)).integers(0, 2, (rows, PROBES)) * 2.0 - 1.0


def condition(squares: float, answers: Array) -> float:
    """|A| |A^-1| in the Frobenius norm, of the sum of squares of A and of A^-1 z `float64[n, probes]`.

    It lies between the condition of the 2-norm and n times that.
    """
    largest = float(abs(answers).max(initial=0.0))
    if not np.isfinite(largest) or largest == 0:
        return float("inf")
    inverse = float(((answers / largest) ** 2).sum()) / answers.shape[1]
    return float(np.sqrt(squares) * np.sqrt(inverse) * largest)
