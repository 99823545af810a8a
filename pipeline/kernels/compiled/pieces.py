"""Which pieces rows go to, and rows in the order of their pieces: counted, then placed, a third of the time of a sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled


@compiled
def in_pieces(pieces: Any, heights: Any, places: Any, order: Any) -> None:
    """Fills `heights: int64[p]`, of 0, with the rows of each piece, and `order: uint32[n]` with rows, piece by piece, each as they were.

    `pieces: uint64[n]` are below p, which nobody checks; `places: int64[p]` is room to work in.
    """
    for row in range(len(pieces)):
        heights[pieces[row]] += 1
    place = 0
    for piece in range(len(heights)):
        places[piece] = place
        place += heights[piece]
    for row in range(len(pieces)):
        piece = pieces[row]
        order[places[piece]] = row
        places[piece] += 1


@compiled
def between(numbers: Any, ends: Any, cells: Any, shift: Any, pieces: Any) -> None:
    """Fills `pieces: uint64[n]` with how many of `ends: int64[p]`, which go up, are at most twice `numbers: int64[n]`, of 0 and more.

    `cells: uint64[c + 1]` says how many ends are less than the least number of a cell, which are those that are the same without their last
    `shift` bits: most have one answer. Nobody checks that numbers lie in the first c cells.
    """
    one = np.uint64(1)
    for row in range(len(numbers)):
        value = 2 * numbers[row]
        cell = np.uint64(value) >> shift
        low, high = cells[cell], cells[cell + one]
        while low < high:
            middle = (low + high) >> one
            if ends[middle] <= value:
                low = middle + one
            else:
                high = middle
        pieces[row] = low
