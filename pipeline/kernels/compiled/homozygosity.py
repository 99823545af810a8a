"""Runs of homozygosity in one walk over the variants: counts of a window that slides, for a block of people at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined
from pipeline.kernels.genotypes import MISSING

_BYTES = 512  # packed calls of a block of people: what the window holds of them stays in the cache
_FOUR = np.array([sum((byte >> 2 * place & 3) << 8 * place for place in range(4)) for byte in range(256)], np.uint32)
"""The four codes of a packed byte, a byte each."""
STAYS, OUT, PIECE = range(3)
"""What a heterozygous call inside a run does: nothing, it stands outside, it begins a new piece."""


@inlined
def _read(calls: NDArray[np.uint8], row: int, bytes_: tuple[int, int], codes: NDArray[np.uint32]) -> None:
    """The codes of a row's bytes from one up to another."""
    for at in range(bytes_[1] - bytes_[0]):
        codes[at] = _FOUR[calls[row, bytes_[0] + at]]


@inlined
def _slide(
    entering: NDArray[np.uint8], leaving: NDArray[np.uint8], sums: NDArray[np.uint16], hits: NDArray[np.uint8], limits: tuple[int, int]
) -> None:
    """One window on: `sums[3, n]` are heterozygous and missing calls in it, and how many windows that cover the variant are hits.

    `entering` is read before and `leaving` after the window is judged; `hits` are those of the window that covers it no more.
    """
    heterozygous, missing, covering = sums[0], sums[1], sums[2]
    most_heterozygous, most_missing = np.uint16(limits[0]), np.uint16(limits[1])
    for s in range(len(entering)):
        heterozygous[s] += np.uint16(entering[s] == 1)
        missing[s] += np.uint16(entering[s] == MISSING)
        hit = np.uint8((heterozygous[s] <= most_heterozygous) & (missing[s] <= most_missing))
        covering[s] += np.uint16(hit) - np.uint16(hits[s])
        hits[s] = hit
        heterozygous[s] -= np.uint16(leaving[s] == 1)
        missing[s] -= np.uint16(leaving[s] == MISSING)


@compiled
def _grown(found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Twice the room."""
    more = np.empty((2 * len(found), found.shape[1]), np.int64)
    more[: len(found)] = found
    return more


class _Block(NamedTuple):
    """What is known of a block of people: a ring of codes and one of hits, sums of the window, who is inside, and the pieces that are open.

    `state[0]` says who would be inside now and `state[1]` who was, `run` the first row and the calls of whoever was.
    """

    codes: NDArray[np.uint8]  # [window, n]
    hits: NDArray[np.uint8]  # [window, n]
    sums: NDArray[np.uint16]  # [3, n]
    state: NDArray[np.uint8]  # [2, n]
    run: NDArray[np.int64]  # [3, n]


@compiled
def _begun(calls: NDArray[np.uint8], bytes_: tuple[int, int], size: int) -> _Block:
    """A block before its first window: all of that but its last row is read."""
    people = 8 * ((bytes_[1] - bytes_[0] + 1) // 2)
    codes, sums = np.zeros((size, people), np.uint8), np.zeros((3, people), np.uint16)
    packed = codes.view(np.uint32)
    for row in range(size - 1):
        _read(calls, row, bytes_, packed[row])
        for s in range(people):
            sums[0, s] += np.uint16(codes[row, s] == 1)
            sums[1, s] += np.uint16(codes[row, s] == MISSING)
    return _Block(codes, np.zeros((size, people), np.uint8), sums, np.zeros((2, people), np.uint8), np.zeros((3, people), np.int64))


@compiled
def walk_windows(
    calls: NDArray[np.uint8],
    people: int,
    window: tuple[int, int, int, int],
    own: tuple[int, int],
    joined: NDArray[np.bool_],
    need: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Pieces `int64[k, 5]`: person, first and last row, heterozygous and missing calls, of packed calls `uint8[v, w]`.

    `window`: variants, calls that may be heterozygous and missing, and what a heterozygous call does. `own`: rows from and up to;
    `joined` and `need` of each say whether it goes on from the row before, and how many of the windows that cover it must be hits.
    """
    (size, most_heterozygous, most_missing, cut), (low, high) = window, own
    found, count = np.empty((1024, 5), np.int64), 0
    for first in range(0, calls.shape[1], _BYTES):
        bytes_ = (first, min(first + _BYTES, calls.shape[1]))
        block = _begun(calls, bytes_, size)
        packed, covering, now = block.codes.view(np.uint32), block.sums[2], block.state[0]
        for row in range(high):
            slot, enters = row % size, row + size - 1
            if enters < len(calls):
                _read(calls, enters, bytes_, packed[enters % size])
                _slide(block.codes[enters % size], block.codes[slot], block.sums, block.hits[slot], (most_heterozygous, most_missing))
            else:
                covering -= block.hits[slot]
            if row >= low:
                _judge(covering, np.uint16(need[row - low]), now[: people - 4 * first])
                found, count = _moved(block, slot, (row - low, 4 * first, cut), joined[row - low], (found, count))
        now[:] = 0
        found, count = _moved(block, 0, (high - low, 4 * first, STAYS), False, (found, count))
    return found[:count]


@inlined
def _judge(covering: NDArray[np.uint16], need: np.uint16, now: NDArray[np.uint8]) -> None:
    """Note of people whether enough windows are hits; whoever stands behind them in the block never is."""
    for s in range(len(now)):
        now[s] = np.uint8(covering[s] >= need)


@compiled
def _moved(
    block: _Block, slot: int, place: tuple[int, int, int], goes_on: bool, before: tuple[NDArray[np.int64], int]
) -> tuple[NDArray[np.int64], int]:
    """The pieces before with those that end above a row; what begins or goes on in the row is noted.

    `place`: the row, how many people stand before the block, and what a heterozygous call does.
    """
    row, others, cut = place
    found, count = before
    own, now, inside, run, marks = block.codes[slot], block.state[0], block.state[1], block.run, block.state.view(np.uint64)
    for word in range(marks.shape[1]):
        if marks[0, word] | marks[1, word] == 0:
            continue
        for s in range(8 * word, 8 * word + 8):
            is_heterozygous = own[s] == 1
            is_inside = now[s] == 1 and not (cut == OUT and is_heterozygous)
            if inside[s] and not (is_inside and goes_on and not (cut == PIECE and is_heterozygous)):
                if count == len(found):
                    found = _grown(found)
                found[count] = (others + s, run[0, s], row - 1, run[1, s], run[2, s])
                count += 1
                inside[s] = 0
            if is_inside:
                if not inside[s]:
                    inside[s], run[0, s], run[1, s], run[2, s] = 1, row, 0, 0
                run[1, s] += is_heterozygous
                run[2, s] += own[s] == MISSING
    return found, count
