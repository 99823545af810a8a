"""Value at risk and expected shortfall of losses that come in blocks: counts and exact sums, and the few losses near the quantiles.

Losses are whole numbers of a unit. First paths say between which losses a quantile lies; of all others only what lies beyond is summed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, to_host

Array = Any
LEAST_FIRST, MOST_FIRST, OF_ALL = 1 << 14, 1 << 17, 32
"""Paths that say where the quantiles lie: a share of all of them, between two numbers."""
REACH, NEAR = 10.0, 2.0
"""How far around a quantile losses are kept, and how far they are near it, in standard errors of its share by the first paths."""
FEWEST = 30
"""And besides, so many of the first paths: there are few beyond a high level, whose number is not normal."""
BINS = 128
_COARSE = 20  # bits of a loss that is squared


@dataclass(frozen=True)
class Cuts:
    """Between which losses the quantile of each level lies, `low` and `high: int64[l]`; bins of a histogram, of 2^`shift` units each.

    `coarse` is by how many bits losses are shifted before they are squared.
    """

    levels: tuple[float, ...]
    low: Array
    high: Array
    origin: int
    shift: int
    coarse: int

    @staticmethod
    def of(losses: Array, levels: tuple[float, ...], paths: int) -> Cuts:
        """From the losses `int64[n]` of the first paths, in the host's memory, of so many in all."""
        ordered = np.sort(losses)
        low, high = np.full(len(levels), np.iinfo(np.int64).min), np.full(len(levels), np.iinfo(np.int64).max)
        if paths > len(losses):
            for at, level in enumerate(levels):
                error = REACH * share_error(level, len(losses)) + FEWEST / len(losses)
                if level - error > 0:
                    low[at] = ordered[math.floor((level - error) * len(losses))]
                if level + error < 1:
                    high[at] = ordered[math.ceil((level + error) * len(losses)) - 1]
        least, most = int(ordered[len(ordered) // 2000]), int(ordered[-1])
        shift = max(0, ((most - least) // BINS).bit_length())
        return Cuts(levels, low, high, least >> shift << shift, shift, max(0, int(abs(ordered).max()).bit_length() - _COARSE))


@dataclass(frozen=True)
class TailSums:
    """Sums over paths, where the losses lie; whole numbers as their upper and lower 32 bits, `int64[2, ...]`.

    Of all paths: `paths`, the positions' losses `total[2, p]`, the coarse losses and their squares `moments[2, 2]`, `histogram[bins]`. Of
    each level: how many lose more than `high`, just that, and just `low`, `counts[3, l]`, with the positions' losses `sums[2, 3, l, p]`;
    `tails[2, 2, l]` are coarse losses above `high` and their squares. `kept` are the numbers of the paths between, and `losses` theirs.
    """

    paths: int
    total: Array
    moments: Array
    histogram: Array
    counts: Array
    sums: Array
    tails: Array
    kept: Array
    losses: Array

    def on_host(self) -> TailSums:
        """The same in the host's memory."""
        return TailSums(*(to_host(getattr(self, field.name)) if field.name != "paths" else self.paths for field in fields(self)))


def first_paths(paths: int) -> int:
    """How many of so many paths say where the quantiles lie."""
    return min(paths, max(LEAST_FIRST, min(MOST_FIRST, paths // OF_ALL)))


def tail_sums(losses: Array, paths: Array, cuts: Cuts) -> TailSums:
    """The sums of a block of losses `int64[p, n]` on paths `uint64[n]`."""
    xp = array_module(losses)
    whole = losses.sum(axis=0)
    coarse = coarse_losses(whole, cuts.coarse)
    bins = xp.bincount(xp.clip(((whole - cuts.origin) >> cuts.shift) + 1, 0, BINS + 1), minlength=BINS + 2)
    beyond = xp.flatnonzero(whole >= int(cuts.low.min()))
    mine, tail = xp.ascontiguousarray(losses[:, beyond]), whole[beyond]
    between = xp.zeros(len(tail), bool)
    counts, sums, tails = [], [], []
    for low, high in zip(cuts.low.tolist(), cuts.high.tolist(), strict=True):
        places = [tail > high, (tail == high) & (high > low), tail == low]
        counts.append(xp.stack([place.sum() for place in places]))
        sums.append(xp.stack([(mine * place).sum(axis=1) for place in places]))
        above = coarse_losses(tail, cuts.coarse) * places[0]
        tails.append(xp.stack([above.sum(), (above * above).sum()]))
        between |= (tail > low) & (tail < high)
    moments = xp.stack([coarse.sum(), (coarse * coarse).sum()])
    return TailSums(
        len(paths),
        split(losses.sum(axis=1)),
        split(moments),
        bins,
        xp.stack(counts, axis=1),
        split(xp.stack(sums, axis=1)),
        split(xp.stack(tails, axis=1)),
        paths[beyond][between],
        tail[between],
    )


def added(found: list[TailSums]) -> TailSums:
    """The sums over several blocks, whose paths may come in any order."""
    xp = array_module(found[0].losses)

    def sum_of(name: str) -> Any:
        """One of the sums, over all blocks."""
        return sum(getattr(one, name) for one in found)

    return TailSums(
        sum_of("paths"),
        _carried(sum_of("total")),
        _carried(sum_of("moments")),
        sum_of("histogram"),
        sum_of("counts"),
        _carried(sum_of("sums")),
        _carried(sum_of("tails")),
        xp.concatenate([one.kept for one in found]),
        xp.concatenate([one.losses for one in found]),
    )


def share_error(level: float, paths: int) -> float:
    """The standard error of the share of so many paths that lose more than the level's quantile."""
    return math.sqrt(level * (1 - level) / paths)


def coarse_losses(losses: Array, shift: int) -> Array:
    """Losses of fewer bits, to the nearest."""
    return losses if shift == 0 else (losses + (1 << (shift - 1))) >> shift


def split(values: Array) -> Array:
    """Whole numbers `int64[...]` as upper and lower 32 bits, `int64[2, ...]`."""
    return array_module(values).stack([values >> 32, values & 0xFFFFFFFF])


def _carried(values: Array) -> Array:
    """The same numbers, their lower 32 bits below 2^32 again."""
    return array_module(values).stack([values[0] + (values[1] >> 32), values[1] & 0xFFFFFFFF])


def exact(values: Array) -> Array:
    """The numbers that upper and lower 32 bits stand for, rounded once: `float64[...]`."""
    found = values[0].astype(object) * (1 << 32) + values[1].astype(object)
    return np.asarray(found, object).astype(np.float64)
