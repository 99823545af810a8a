"""Runs of homozygosity by a window that slides over the variants (PLINK 1.9's --homozyg; Purcell et al. 2007).

A window of neighbouring variants is homozygous where few of its calls are heterozygous and few are missing. A variant is inside a run
where enough of the windows that cover it are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotypes import BLOCK_BYTES, MISSING, Array, packed_width, unpack

_ROUNDING = 1e-9  # a share of windows that is a whole number but for a double's rounding is that number
_BYTES = 16  # of a variant and a person, unpacked, in all arrays together


@dataclass(frozen=True)
class WindowRule:
    """A homozygous window: its `variants`, how many calls may be heterozygous and missing, the share of windows that a variant needs.

    `cut` says what a heterozygous call inside a run does to it: nothing (None), it stands outside ("out"), or it begins a new piece
    ("piece"), so that whoever joins pieces can count them.
    """

    variants: int
    heterozygous: int
    missing: int
    share: float
    cut: str | None = None


class Pieces(NamedTuple):
    """Stretches of variants inside runs, in order of people: `int64[k]` each, first and last row, themselves included."""

    person: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    heterozygous: NDArray[np.int64]
    missing: NDArray[np.int64]


def homozygous_pieces(packed: Array, n_samples: int, rule: WindowRule, own: slice, joined: Array) -> Pieces:
    """Pieces among rows `own` of one chromosome's packed calls `uint8[v, w]`, whose rows `own.start` stands on, numbered from it.

    The rows around them are all that a window with one of them reaches: `rule.variants - 1` on either side, or up to the chromosome's
    end. `joined: bool[own]` is false where a row does not go on from the row before it, so that no piece crosses.
    """
    if len(packed) < rule.variants:
        return Pieces(*(np.empty(0, np.int64) for _ in range(5)))
    if array_module(packed) is np:
        return _compiled(packed, n_samples, rule, own, joined)
    step = max(1, block_bytes(packed, BLOCK_BYTES) // (4 * _BYTES * len(packed)))
    found = [
        _pieces(packed[:, at : at + step], min(4 * step, n_samples - 4 * at), rule, own, joined, 4 * at)
        for at in range(0, packed_width(n_samples), step)
    ]
    return Pieces(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _compiled(packed: Array, n_samples: int, rule: WindowRule, own: slice, joined: Array) -> Pieces:
    from pipeline.kernels.compiled.homozygosity import OUT, PIECE, STAYS, walk_windows

    does = {None: STAYS, "out": OUT, "piece": PIECE}[rule.cut]
    window, rows = (rule.variants, rule.heterozygous, rule.missing, does), (own.start, own.stop)
    need = _need(rule, own, len(packed) - rule.variants + 1)[2]
    found = walk_windows(packed, n_samples, window, rows, np.asarray(joined), need)
    return Pieces(*found[np.lexsort((found[:, 1], found[:, 0]))].T)


def _pieces(packed: Array, people: int, rule: WindowRule, own: slice, joined: Array, before: int) -> Pieces:
    """Of a block of people; `before` stand before them."""
    xp = array_module(packed)
    codes = unpack(packed, people, np.int8, MISSING)[:, :people]
    is_heterozygous = codes == 1
    heterozygous, missing = _sums(is_heterozygous), _sums(codes == MISSING)
    size = rule.variants
    hit = (heterozygous[size:] - heterozygous[:-size] <= rule.heterozygous) & (missing[size:] - missing[:-size] <= rule.missing)
    inside = _covered(hit, rule, own)
    goes_on = xp.asarray(joined)[:, None]
    if rule.cut == "out":
        inside &= ~is_heterozygous[own]
    begins = inside.copy()
    begins[1:] &= ~(inside[:-1] & goes_on[1:])
    if rule.cut == "piece":
        begins |= inside & is_heterozygous[own]
    ends = inside.copy()
    ends[:-1] &= ~inside[1:] | begins[1:]
    person, first = (to_host(places) for places in xp.nonzero(begins.T))
    last = to_host(xp.nonzero(ends.T)[1])
    counts = [_within(sums, own.start + first, own.start + last, person) for sums in (heterozygous, missing)]
    return Pieces(person.astype(np.int64) + before, first.astype(np.int64), last.astype(np.int64), *counts)


def _sums(marks: Array) -> Array:
    """How many marks stand before each row: `[v + 1, n]`. What wraps round in two bytes comes back in a difference of up to 65,535 rows."""
    xp = array_module(marks)
    dtype = np.uint16 if len(marks) < 1 << 16 else np.uint32
    sums = xp.zeros((len(marks) + 1, marks.shape[1]), dtype)
    xp.cumsum(marks, axis=0, dtype=dtype, out=sums[1:])
    return sums


def _need(rule: WindowRule, own: slice, windows: int) -> NDArray[np.int64]:
    """Of each own row the first window that covers it, one past the last, and how many of them must be hits: `int64[3, own]`."""
    rows = np.arange(own.start, own.stop)
    low, high = np.maximum(rows - rule.variants + 1, 0), np.minimum(rows + 1, windows)
    return np.stack([low, high, np.ceil((high - low) * rule.share - _ROUNDING).astype(np.int64)])


def _covered(hit: Array, rule: WindowRule, own: slice) -> Array:
    """Which of a block's own rows have enough hits among the windows that cover them: `bool[own, n]`."""
    xp, sums = array_module(hit), _sums(hit)
    low, high, need = (xp.asarray(of_rows) for of_rows in _need(rule, own, len(hit)))
    covered: Array = sums[high] - sums[low] >= need.astype(sums.dtype)[:, None]
    return covered


def _within(sums: Array, first: NDArray[np.int64], last: NDArray[np.int64], person: NDArray[np.int64]) -> NDArray[np.int64]:
    xp = array_module(sums)
    person, first, after = (xp.asarray(places) for places in (person, first, last + 1))
    counts: NDArray[np.int64] = to_host(sums[after, person] - sums[first, person]).astype(np.int64)
    return counts
