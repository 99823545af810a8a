"""How many variants pairs of people are both called for, from planes of bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, popcount

_TILE = 64  # people whose rows lie in the second-level cache with as many others


@compiled
def count_called(later: NDArray[np.uint64], earlier: NDArray[np.uint64], counts: NDArray[np.int32]) -> None:
    """Write the bits that rows `uint64[n, words]` share into `counts: int32[n, m]`; both have a multiple of four rows."""
    for high in range(0, len(later), _TILE):
        for low in range(0, len(earlier), _TILE):
            for one in range(high, min(high + _TILE, len(later))):
                for first in range(low, min(low + _TILE, len(earlier)), 4):
                    _count_four(later[one], earlier, first, counts[one])


@compiled
def _count_four(row: NDArray[np.uint64], others: NDArray[np.uint64], first: int, counts: NDArray[np.int32]) -> None:
    """Of one row and four others, from `first` on."""
    other_1, other_2, other_3, other_4 = others[first], others[first + 1], others[first + 2], others[first + 3]
    one = two = three = four = np.uint64(0)
    for word in range(len(row)):
        one += popcount(row[word] & other_1[word])
        two += popcount(row[word] & other_2[word])
        three += popcount(row[word] & other_3[word])
        four += popcount(row[word] & other_4[word])
    counts[first], counts[first + 1] = one, two
    counts[first + 2], counts[first + 3] = three, four
