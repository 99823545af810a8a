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


class _Block(NamedTuple):
    """What is known of a block of people: a ring of codes and one of hits, sums of the window, and the pieces that are open."""

    codes: NDArray[np.uint8]  # [window, n]
    hits: NDArray[np.uint8]  # [window, n]
    sums: NDArray[np.uint16]  # [3, n], heterozygous and missing calls in the window, windows that cover the variant and are hits
    met: NDArray[np.int32]  # [2, n], heterozygous and missing calls up to the variant
    state: NDArray[np.uint8]  # [3, n], who is inside now, who was, and whose piece begins here though it was
    run: NDArray[np.int64]  # [3, n], of who was: the first row, and the calls met before it


@inlined
def _slide(
    block: _Block, entering: NDArray[np.uint8], leaving: NDArray[np.uint8], hits: NDArray[np.uint8], limits: tuple[int, int]
) -> None:
    """One window on: `entering` is read before and `leaving` after the window is judged; `hits` are those that it leaves behind."""
    heterozygous, missing, covering = block.sums[0], block.sums[1], block.sums[2]
    most_heterozygous, most_missing = np.uint16(limits[0]), np.uint16(limits[1])
    for s in range(len(entering)):
        heterozygous[s] += np.uint16(entering[s] == 1)
        missing[s] += np.uint16(entering[s] == MISSING)
        hit = np.uint8((heterozygous[s] <= most_heterozygous) & (missing[s] <= most_missing))
        covering[s] += np.uint16(hit) - np.uint16(hits[s])
        hits[s] = hit
        heterozygous[s] -= np.uint16(leaving[s] == 1)
        missing[s] -= np.uint16(leaving[s] == MISSING)


@inlined
def _judge(block: _Block, own: NDArray[np.uint8], need: np.uint16, rule: tuple[int, int, bool]) -> None:
    """Note whose windows are hits often enough, and whose piece must begin here; `rule`: people, what a heterozygous call does, joined.

    Whoever stands behind the people in the block is never inside.
    """
    people, cut, goes_on = rule
    now, broken, covering, heterozygous, missing = block.state[0], block.state[2], block.sums[2], block.met[0], block.met[1]
    is_out, is_piece, always = np.uint8(cut == OUT), np.uint8(cut == PIECE), np.uint8(not goes_on)
    for s in range(len(own)):
        one = np.uint8(own[s] == 1)
        heterozygous[s] += np.int32(one)
        missing[s] += np.int32(own[s] == MISSING)
        inside = np.uint8(covering[s] >= need) & ~(one & is_out)
        now[s] = inside
        broken[s] = inside & (always | one & is_piece)
    now[people:], broken[people:] = 0, 0


@compiled
def _grown(found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Twice the room."""
    more = np.empty((2 * len(found), found.shape[1]), np.int64)
    more[: len(found)] = found
    return more


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
    met, state = np.zeros((2, people), np.int32), np.zeros((3, people), np.uint8)
    return _Block(codes, np.zeros((size, people), np.uint8), sums, met, state, np.zeros((3, people), np.int64))


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
        packed, covering = block.codes.view(np.uint32), block.sums[2]
        for row in range(high):
            slot, enters = row % size, row + size - 1
            codes = block.codes[slot]
            if enters < len(calls):
                _read(calls, enters, bytes_, packed[enters % size])
                _slide(block, block.codes[enters % size], codes, block.hits[slot], (most_heterozygous, most_missing))
            else:
                covering -= block.hits[slot]
            if row >= low:
                _judge(block, codes, np.uint16(need[row - low]), (people - 4 * first, cut, joined[row - low]))
                found, count = _moved(block, codes, (row - low, 4 * first), (found, count))
        block.state[0][:], block.state[2][:], block.codes[0][:] = 0, 0, 0
        found, count = _moved(block, block.codes[0], (high - low, 4 * first), (found, count))
    return found[:count]


@compiled
def _moved(
    block: _Block, own: NDArray[np.uint8], place: tuple[int, int], before: tuple[NDArray[np.int64], int]
) -> tuple[NDArray[np.int64], int]:
    """The pieces before with those that end above a row; those that begin in it are noted. `place`: the row, people before the block."""
    row, others = place
    found, count = before
    now, inside, broken, run, met = block.state[0], block.state[1], block.state[2], block.run, block.met
    marks = block.state.view(np.uint64)
    for word in range(marks.shape[1]):
        if (marks[0, word] ^ marks[1, word]) | marks[2, word] == 0:
            continue
        for s in range(8 * word, 8 * word + 8):
            if now[s] == inside[s] and not broken[s]:
                continue
            heterozygous, missing = np.int64(met[0, s]) - (own[s] == 1), np.int64(met[1, s]) - (own[s] == MISSING)
            if inside[s]:
                if count == len(found):
                    found = _grown(found)
                found[count] = (others + s, run[0, s], row - 1, heterozygous - run[1, s], missing - run[2, s])
                count += 1
            inside[s] = now[s]
            if now[s]:
                run[0, s], run[1, s], run[2, s] = row, heterozygous, missing
    return found, count
