"""Factors of users and items from what users did, by alternating least squares for implicit feedback.

Hu, Koren & Volinsky 2008 (IEEE International Conference on Data Mining, 263-272): a pair that was seen with weight r has preference 1 and
confidence 1 + alpha r, every other pair preference 0 and confidence 1. With the factors of the other side fixed, those of a row solve
(Y'Y + Y'(C - I)Y + regularization I) x = Y'Cp, where the sums beside Y'Y are over the pairs that were seen alone.

Rows are solved in batches of about equal length, padded with zeros. What a row gets depends on nothing but its own pairs, in their order,
so it is the same to the last bit in whatever batch it is solved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, checked_linalg, to_host
from pipeline.backend.memory import block_bytes

Array = Any

SEGMENT = 4096
"""Pairs of a row that are multiplied at once: an item that everybody has takes no more memory than one that some have."""
_BATCH_BYTES = 16 << 20


class Rows(NamedTuple):
    """Pairs by row: those of row i are `bounds[i]` to `bounds[i + 1]` of `columns: int64[pairs]` and `weights: float64[pairs]`.

    `bounds: int64[rows + 1]` lies in the host's memory. The columns of a row ascend, each once.
    """

    bounds: Any
    columns: Array
    weights: Array

    def between(self, first: int, last: int) -> Rows:
        """The rows from `first` to before `last`."""
        pairs = slice(self.bounds[first], self.bounds[last])
        return Rows(self.bounds[first : last + 1] - self.bounds[first], self.columns[pairs], self.weights[pairs])


def gather(blocks: Sequence[Array], places: Array) -> Array:
    """Rows `[..., f]` at `places: int64[...]` of a matrix that is given as blocks of consecutive rows."""
    if len(blocks) == 1:
        return blocks[0][places]
    xp = array_module(places)
    found, first = xp.empty((*places.shape, blocks[0].shape[1])), 0
    for block in blocks:
        inside = (places >= first) & (places < first + len(block))
        found[inside] = block[places[inside] - first]
        first += len(block)
    return found


def solve_rows(rows: Rows, others: Sequence[Array], gram: Array, regularization: float, alpha: float) -> tuple[Array, Array]:
    """Factors `float64[rows, f]` of rows, and each row's part of the loss, `float64[rows]`.

    `others` are the factors of the columns in blocks of consecutive rows, `gram: float64[f, f]` is their Y'Y. The loss of a row is
    sum over all columns of confidence (preference - x'y)^2, and regularization |x|^2. A row of no pairs has factors 0.
    Raises LinAlgError where the equations cannot be solved.
    """
    xp, f = array_module(gram), len(gram)
    factors, loss = xp.zeros((len(rows.bounds) - 1, f)), xp.zeros(len(rows.bounds) - 1)
    ridge = gram + regularization * xp.eye(f)
    for places, width in _batches(np.diff(rows.bounds), f, block_bytes(gram, _BATCH_BYTES)):
        left, right, confidence = _equations(rows, places, width, others, alpha)
        found = cholesky_solve(left + ridge, right)
        at = xp.asarray(places)
        factors[at] = found
        loss[at] = confidence - (right * found).sum(axis=1)
    return factors, loss


def solve_rows_compiled(rows: Rows, others: Sequence[Any], gram: Any, regularization: float, alpha: float) -> tuple[Any, Any]:
    """What `solve_rows` gives, of NumPy arrays, but for rounding: pair by pair, without copies of what pairs need."""
    from pipeline.kernels.compiled.factorization import add_pairs, solve_each

    f, count = len(gram), len(rows.bounds) - 1
    factors, loss, ridge = np.zeros((count, f)), np.zeros(count), gram + regularization * np.eye(f)
    size = max(1, _BATCH_BYTES // (8 * f * (f + 1)))
    for low in range(0, count, size):
        high = min(low + size, count)
        left, right, total = np.zeros((high - low, f, f)), np.zeros((high - low, f)), np.zeros(high - low)
        following, first = rows.bounds[low:high].copy(), 0
        for block in others:
            ends, known = (following, rows.bounds[low + 1 : high + 1]), (first, float(alpha))
            add_pairs((rows.columns, rows.weights), ends, block, known, (left, right, total))
            first += len(block)
        if not solve_each(left, ridge, right, factors[low:high]):
            raise np.linalg.LinAlgError("a matrix is not positive definite")
        loss[low:high] = total - (right * factors[low:high]).sum(axis=1)
    return factors, loss


def _batches(lengths: Any, f: int, most_bytes: int) -> Iterator[tuple[Any, int]]:
    """Places of rows of a like length and the width that holds them: a power of two up to SEGMENT, beyond it so many segments."""
    exact = np.maximum(lengths, 1)
    widths = np.where(exact <= SEGMENT, 1 << np.ceil(np.log2(exact)).astype(np.int64), -(-exact // SEGMENT) * SEGMENT)
    for width in np.unique(widths[lengths > 0]).tolist():
        places = np.flatnonzero((widths == width) & (lengths > 0))
        size = max(1, most_bytes // (8 * f * (2 * min(width, SEGMENT) + 2 * f)))
        for first in range(0, len(places), size):
            yield places[first : first + size], width


def _equations(rows: Rows, places: Any, width: int, others: Sequence[Array], alpha: float) -> tuple[Array, Array, Array]:
    """Y'(C - I)Y `[n, f, f]`, Y'Cp `[n, f]` and the sum of the confidences `[n]` of the rows at `places`."""
    xp, f = array_module(rows.weights), others[0].shape[1]
    starts, lengths = (xp.asarray(array[places])[:, None] for array in (rows.bounds[:-1], np.diff(rows.bounds)))
    left, right, total = xp.zeros((len(places), f, f)), xp.zeros((len(places), f)), xp.zeros(len(places))
    for first in range(0, width, SEGMENT):
        steps = xp.arange(first, min(first + SEGMENT, width))
        there = steps < lengths
        at = xp.where(there, starts + steps, 0)
        weights = xp.where(there, alpha * rows.weights[at], 0.0)
        values, confidence = gather(others, rows.columns[at]), weights + there
        left += values.transpose(0, 2, 1) @ (values * weights[:, :, None])
        right += (confidence[:, None, :] @ values)[:, 0]
        total += confidence.sum(axis=1)
    return left, right, total


def cholesky_solve(left: Array, right: Array) -> Array:
    """Solutions `float64[n, f]` of n systems with positive definite `left: float64[n, f, f]`; LinAlgError where one is not.

    NumPy and CuPy factor many matrices at once, and substitute in one: here it is f steps over all systems, forward and back.
    """
    xp = array_module(left)
    with checked_linalg(xp):
        lower = xp.linalg.cholesky(left)
    found = right.copy()
    for k in range(left.shape[1]):
        found[:, k] = (found[:, k] - (lower[:, k, :k] * found[:, :k]).sum(axis=1)) / lower[:, k, k]
    for k in reversed(range(left.shape[1])):
        found[:, k] /= lower[:, k, k]
        found[:, :k] -= lower[:, k, :k] * found[:, k, None]
    return found


def popularity(rows: Rows) -> Any:
    """How many pairs each row has, `int64[rows]`, in the host's memory."""
    return np.diff(to_host(rows.bounds))
