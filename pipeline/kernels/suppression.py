"""Which cells of a table of counts to mask so that no total gives a small one away.

The table with its totals is a bipartite graph: a node each row and each column, totals too, and an edge each cell. What a masked cell may
be, to whoever sees all the others, is what flows through its edge in a circulation of masked cells (Cox 1980, J. Am. Stat. Assoc. 75;
Gusfield 1988, SIAM J. Comput. 17), exactly. More cells are masked along the cheapest paths, small counts before large ones, totals last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

ENDLESS = 1 << 40


def with_totals(counts: Counts) -> Counts:
    """Counts `int64[r, c]` with the totals of rows, of columns and of all: `int64[r + 1, c + 1]`."""
    wide = np.concatenate([counts, counts.sum(axis=1, keepdims=True)], axis=1)
    return np.concatenate([wide, wide.sum(axis=0, keepdims=True)], axis=0)


def is_small(table: Counts, least: int, *, zeros: bool) -> Mask:
    """The cells and totals that are below `least` and not zero; with `zeros` those, too."""
    return (table < least) & ((table > 0) | zeros)


def masks(counts: Counts, least: int, *, zeros: bool = False) -> Mask:
    """What to mask of `with_totals(counts)`: all small ones, and others until each small one may have more than `least` values.

    It is known of a masked one that it is not negative; where zeros are shown, that it is none, so a zero is then never masked.
    """
    table = with_totals(counts)
    masked = is_small(table, least, zeros=zeros)
    for row, column in np.argwhere(masked):
        _protect(_Cells(table, masked, 0 if zeros else 1), (int(row), int(column)), least)
    return masked


@dataclass(frozen=True)
class _Cells:
    """A table with its totals, what is masked of it, and the least that a masked one can be."""

    table: Counts
    masked: Mask
    floor: int

    def rooms(self) -> tuple[Counts, Counts]:
        """How far each cell, masked or not, could fall and rise, as a term of sums that are 0: a total's sign is turned."""
        maskable = self.table >= self.floor
        down = np.where(maskable, self.table - self.floor, 0)
        up = np.where(maskable, ENDLESS, 0)
        return np.where(self._turned, up, down), np.where(self._turned, down, up)

    @property
    def _turned(self) -> Mask:
        """The totals of a row or a column."""
        turned = np.zeros(self.table.shape, bool)
        turned[-1, :-1] = turned[:-1, -1] = True
        return turned

    def reach(self, cell: tuple[int, int], wanted: int, costs: NDArray[np.float64], *, more: bool) -> tuple[int, Mask]:
        """By how much, up to `wanted`, a masked cell may be more (or less) than it is, and the cells by which."""
        fall, rise = self.rooms()
        if more != bool(self._turned[cell]):
            return _flow(fall, rise, cell, costs, wanted)
        sent, used = _flow(rise.T, fall.T, cell[::-1], costs.T, wanted)
        return sent, used.T

    def costs(self) -> NDArray[np.float64]:
        """What masking a cell costs: nothing where it is masked, its count, and for totals more than all cells."""
        cost = self.table.astype(float) + 1
        whole = cost.sum()
        cost[-1, :] += whole
        cost[:, -1] += whole
        return np.where(self.masked, 0.0, cost)


def _protect(cells: _Cells, cell: tuple[int, int], least: int) -> None:
    """Mask more cells until this one may have more than `least` values."""
    own = int(cells.table[cell]) - cells.floor
    lower, _ = cells.reach(cell, min(own, least), np.where(cells.masked, 0.0, np.inf), more=False)
    _, path = cells.reach(cell, least - lower, cells.costs(), more=True)
    cells.masked[:] |= path


def _flow(fall: Counts, rise: Counts, cell: tuple[int, int], cost: NDArray[np.float64], wanted: int) -> tuple[int, Mask]:
    """How much, up to `wanted`, goes from a cell's row to its column by other cells along the cheapest paths, and the cells on these."""
    fall, rise, cost = fall.copy(), rise.copy(), cost.copy()
    fall[cell] = rise[cell] = 0
    used, sent = np.zeros(fall.shape, bool), 0
    while sent < wanted:
        path = _cheapest(np.where(fall > 0, cost, np.inf), np.where(rise > 0, cost, np.inf), *cell)
        if not path:
            break
        amount = min(wanted - sent, *(int((rise if number % 2 else fall)[place]) for number, place in enumerate(path)))
        for number, place in enumerate(path):
            step = -amount if number % 2 else amount
            fall[place] -= step
            rise[place] += step
            used[place], cost[place] = True, 0.0
        sent += amount
    return sent, used


def _cheapest(fall: NDArray[np.float64], rise: NDArray[np.float64], source: int, sink: int) -> list[tuple[int, int]]:
    """The cells of the cheapest path from a row to a column: the first falls, the next rises, and so on; none where there is no path."""
    rows, columns = np.full(len(fall), np.inf), np.full(fall.shape[1], np.inf)
    before_row, before_column = np.zeros(len(fall), int), np.zeros(fall.shape[1], int)
    rows[source] = 0.0
    while True:
        reached = rows[:, None] + fall
        best, least = reached.argmin(axis=0), reached.min(axis=0)
        better = least < columns
        columns[better], before_column[better] = least[better], best[better]
        reached = columns[None, :] + rise
        best, least = reached.argmin(axis=1), reached.min(axis=1)
        better_row = least < rows
        rows[better_row], before_row[better_row] = least[better_row], best[better_row]
        if not better.any() and not better_row.any():
            break
    if np.isinf(columns[sink]):
        return []
    path, column = list[tuple[int, int]](), sink
    while True:
        row = int(before_column[column])
        path.append((row, column))
        if row == source:
            return path[::-1]
        column = int(before_row[row])
        path.append((row, column))
