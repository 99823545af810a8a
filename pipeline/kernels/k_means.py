"""k-means: a start by k-means++, Lloyd's rounds as sums that blocks of rows add up to, and rounds over a share of the rows.

Greedy k-means++ (Arthur & Vassilvitskii 2007, SODA 1027-1035), with 2 + log k candidates a center. Lloyd 1982, IEEE Trans Inf Theory
28:129-137. A cluster that no row is nearest to moves to the row farthest from its own center, which leaves its cluster, as in scikit-learn.
Rounds over a share of the rows move a center by what it has seen so far (Sculley 2010, WWW 1177-1178).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.distances import TIED, assigned, is_compiled, nearest, products, row_blocks

Array = Any


class Lloyd(NamedTuple):
    """Centers `float64[k, d]` after some rounds; rows of each in the last one (over shares: in all); how far they moved last, squared."""

    centers: Array
    counts: Array
    moved: float
    inertia: float
    rounds: int
    done: bool


class LloydSums(NamedTuple):
    """Of the rows nearest to each center: their sum `[k, d]` and number `[k]`, and all squared distances; `far` are the farthest rows."""

    sums: Array
    counts: Array
    inertia: float
    far: Far


class Far(NamedTuple):
    """The rows farthest from their centers, farthest first: the rows `[m, d]`, squared distances, a tie's order, and their clusters."""

    rows: Array
    squares: Array
    order: Array
    clusters: Array

    def first(self, most: int) -> Far:
        """The farthest of them; the lower order where distances are one to twelve digits."""
        if not len(self.squares):
            return self
        unit = max(float(self.squares.max()) * TIED, np.finfo(float).tiny)
        chosen = np.lexsort((self.order, -np.rint(self.squares / unit)))[:most]
        return Far(*(values[chosen] for values in self))


def plus_plus(sample: Array, clusters: int, random: np.random.Generator) -> Array:
    """Starting centers, rows of the sample `float64[m, d]` in the host's memory; some are one where it has fewer distinct rows."""
    trials = 2 + int(np.log(clusters))
    chosen = [int(random.integers(len(sample)))]
    closest = products(sample, sample[chosen])[:, 0]
    for _ in range(1, clusters):
        places = np.searchsorted(np.cumsum(closest), random.uniform(size=trials) * closest.sum(), side="right")
        candidates = np.minimum(places, len(sample) - 1)
        left = np.minimum(closest, products(sample, sample[candidates]).T)
        best = int(left.sum(axis=1).argmin())
        closest = left[best]
        chosen.append(int(candidates[best]))
    return sample[chosen].copy()


def started(centers: Array) -> Lloyd:
    """Before the first round."""
    return Lloyd(centers, np.zeros(len(centers)), np.inf, np.inf, 0, done=False)


def lloyd_sums(rows: Array, order: Array, centers: Array) -> LloydSums:
    """The sums of a block of rows `float64[n, d]`; `order` are `float64[n]` numbers that say which of two rows comes first."""
    xp = array_module(rows)
    centers = xp.asarray(centers)
    k = len(centers)
    if is_compiled(rows, centers):
        return _compiled_sums(rows, order, centers)
    sums, counts, inertia, far = xp.zeros(centers.shape), xp.zeros(k), 0.0, _no_far(rows.shape[1])
    for at in row_blocks(rows, k):
        block = rows[at]
        first, found = nearest(products(block, centers), block, centers)
        member = (first[:, None] == xp.arange(k)).astype(np.float64)
        sums += member.T @ block
        counts += member.sum(axis=0)
        inertia += float(found.sum())
        far = _farther([far, _farthest(block, order[at], first, found, k)], k)
    return LloydSums(to_host(sums), to_host(counts), inertia, far)


def _compiled_sums(rows: Array, order: Array, centers: Array) -> LloydSums:
    from pipeline.kernels.compiled.nearest import add_rows

    sums, counts = np.zeros(centers.shape), np.zeros(len(centers))
    first, found = assigned(rows, centers)
    add_rows(np.ascontiguousarray(rows), first, sums, counts)
    return LloydSums(sums, counts, float(found.sum()), _farthest(rows, order, first, found, len(centers)))


def added(found: Sequence[LloydSums]) -> LloydSums:
    """The sums over several blocks."""
    return LloydSums(
        sum((one.sums for one in found[1:]), start=found[0].sums),
        sum((one.counts for one in found[1:]), start=found[0].counts),
        sum(one.inertia for one in found),
        _farther([one.far for one in found], len(found[0].counts)),
    )


def stepped(state: Lloyd, total: LloydSums, tolerance: float) -> Lloyd:
    """After a round over all rows; done where the centers moved by no more than the tolerance, a squared length over all of them."""
    sums, counts = total.sums.copy(), total.counts.copy()
    reached = total.far.squares > TIED * (abs(total.far.rows).max(initial=0.0) ** 2 + 1e-300)
    for place, empty in zip(np.flatnonzero(reached), np.flatnonzero(counts == 0), strict=False):
        row, leaves = total.far.rows[place], total.far.clusters[place]
        sums[leaves], counts[leaves] = sums[leaves] - row, counts[leaves] - 1
        sums[empty], counts[empty] = row, 1
    filled = counts > 0
    centers = np.where(filled[:, None], sums / np.where(filled, counts, 1)[:, None], state.centers)
    moved = float(((centers - state.centers) ** 2).sum())
    return Lloyd(centers, counts, moved, total.inertia, state.rounds + 1, moved <= tolerance)


def stepped_by_share(state: Lloyd, total: LloydSums, tolerance: float) -> Lloyd:
    """After a round over a share of the rows; done where the centers moved by no more than the tolerance."""
    seen = state.counts + total.counts
    step = (total.sums - total.counts[:, None] * state.centers) / np.maximum(seen, 1)[:, None]
    moved = float((step**2).sum())
    done = moved <= tolerance and bool(total.counts.sum())
    return Lloyd(state.centers + step, seen, moved, total.inertia, state.rounds + 1, done)


def _farthest(rows: Array, order: Array, clusters: Array, found: Array, most: int) -> Far:
    xp = array_module(rows)
    if len(found) > most:
        # All that are as far as the last of them, so that ties are broken by their order; of very many alike some are left out.
        least = xp.partition(found, len(found) - most)[len(found) - most]
        chosen = xp.flatnonzero(found >= least * (1 - TIED))
        if len(chosen) > most:
            chosen = chosen[xp.lexsort(xp.stack([xp.asarray(order)[chosen], -found[chosen]]))]
        rows, order, clusters, found = rows[chosen], xp.asarray(order)[chosen], clusters[chosen], found[chosen]
    return Far(*(to_host(values) for values in (rows, found, order, clusters))).first(most)


def _farther(found: Sequence[Far], most: int) -> Far:
    return Far(*(np.concatenate(values) for values in zip(*found, strict=True))).first(most)


def _no_far(features: int) -> Far:
    return Far(np.zeros((0, features)), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))


def ordered(state: Lloyd) -> Array:
    """Its centers, that of the most rows first; of as many rows, the one with the lower coordinates."""
    keys: Array = np.round(state.centers, 9)
    return state.centers[np.lexsort((*keys.T[::-1], -state.counts))]


def settled(sample: Array, centers: Array, rounds: int, tolerance: float) -> Lloyd:
    """Settled on a sample `float64[m, d]` in the host's memory, whose rows stand in an order of their own."""
    state, order = started(centers), np.arange(len(sample), dtype=np.float64)
    while state.rounds < rounds and not state.done:
        state = stepped(state, lloyd_sums(sample, order, state.centers), tolerance)
    return state
