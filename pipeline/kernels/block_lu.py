"""LU factorization with partial pivoting of a matrix that lies in blocks of whole columns: panel by panel, as LAPACK's dgetrf does it.

A panel is a block of columns that is factored, with row exchanges among all rows that are left, as exact partial pivoting wants; blocks to
its right, right-hand sides among them, are then updated each by itself (Golub & Van Loan 2013, Matrix Computations, 3.4.7). A panel is
factored on the host, as its pivots follow one another, and blocks are updated where they lie.

How far a solution may be off is told by the condition of the matrix in the Frobenius norm: the mean square of A^-1 z over vectors z of
random signs is that of A^-1 (Kenney & Laub 1994, SIAM J Sci Comput 15:36-61), so probes ride along as right-hand sides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, to_host

Array = Any
PROBES = 20
"""Random vectors for a condition number: its standard error is a sixth at most."""
SEED = 20261123


class Panel(NamedTuple):
    """A factored block of columns: `lower: float64[rows left, b]` below its diagonal, its inverse on top, and `upper: float64[b, b]`.

    `above: float64[start, b]` are finished rows of U; `order: int[rows left]` says which row that was left is where now. `zero` is the
    column of the first pivot that is 0, or -1.
    """

    start: int
    above: Array
    upper: Array
    inverse: Array
    lower: Array
    order: Array
    zero: int


def column_blocks(columns: int) -> list[slice]:
    """All columns in blocks of the same size, which depends on their number alone: some 12, of 64 to 1,024 columns."""
    size = min(max(-(-columns // 12), 64), 1_024)
    return [slice(start, min(start + size, columns)) for start in range(0, columns, size)]


def factored(block: Array, start: int) -> Panel:
    """Factor a block `float64[n, b]` whose rows before `start` are finished; a pivot of 0 is told and stays."""
    from scipy.linalg import solve_triangular
    from scipy.linalg.lapack import dgetrf

    xp, width = array_module(block), block.shape[1]
    found, pivots, _ = dgetrf(to_host(block[start:]))
    order = np.arange(len(found))
    for place, other in enumerate(pivots):
        order[[place, other]] = order[[other, place]]
    top = found[:width]
    zeros = np.flatnonzero(np.diag(top) == 0)
    inverse = solve_triangular(top, np.eye(width), lower=True, unit_diagonal=True, check_finite=False)
    upper, lower = xp.asarray(np.triu(top)), xp.asarray(np.ascontiguousarray(found[width:]))
    zero = start + int(zeros[0]) if len(zeros) else -1
    return Panel(start, block[:start], upper, xp.asarray(inverse), lower, xp.asarray(order), zero)


def updated(panel: Panel, block: Array) -> Array:
    """A block `float64[n, c]` to the right of a panel after it: rows exchanged, its own of U finished, the rest less L times these."""
    start, width, xp = panel.start, len(panel.upper), array_module(block)
    found = block[xp.concatenate([xp.arange(start), panel.order + start])]
    rows = found[start:]
    rows[:width] = panel.inverse @ rows[:width]
    _subtract_product(rows[width:], panel.lower, rows[:width])
    return found


def _subtract_product(target: Array, left: Array, right: Array) -> None:
    """`target -= left @ right`, on a CPU without the product between: rows in order are columns of the transpose."""
    from scipy.linalg.blas import dgemm

    if array_module(target) is not np:
        target -= left @ right
    elif target.size:
        dgemm(-1.0, right.T, left.T, 1.0, target.T, overwrite_c=True)


def substituted(panel: Panel, sides: Array) -> tuple[Array, Array]:
    """Unknowns of a panel's columns, `float64[b, q]`, and what is left `float64[start, q]` for those before, of finished right-hand sides.

    The panel has no pivot of 0.
    """
    from scipy.linalg import solve_triangular

    xp = array_module(sides)
    some = to_host(sides[panel.start : panel.start + len(panel.upper)])
    found = xp.asarray(solve_triangular(to_host(panel.upper), some, check_finite=False))
    return found, sides[: panel.start] - panel.above @ found


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
