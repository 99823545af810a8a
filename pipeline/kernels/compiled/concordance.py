"""Pairs counted by a tree of sums over ranks (Fenwick 1994, Softw Pract Exper 24:327-336)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled, inlined

Array = Any


@inlined
def _add(tree: Array, rank: int, number: int) -> None:
    place = rank + 1
    while place < len(tree):
        tree[place] += number
        place += place & -place


@inlined
def _below(tree: Array, rank: int) -> int:
    total, place = 0, rank
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


@compiled
def count_pairs(time: Array, event: Array, rank: Array, latest: Array, gone: Array, entry: Array) -> tuple[int, int, int]:
    """Pairs in the right order, of equal rank, and all; `latest` and `gone` are rows by time and by entry, the last first."""
    tree = np.zeros(len(rank) + 1, np.int64)
    right, equal, pairs, there = 0, 0, 0, 0
    at, left, start = 0, 0, 0
    while start < len(latest):
        now = time[latest[start]]
        while at < len(latest) and time[latest[at]] == now and not event[latest[at]]:
            _add(tree, rank[latest[at]], 1)
            there += 1
            at += 1
        while left < len(gone) and entry[gone[left]] >= now:
            _add(tree, rank[gone[left]], -1)
            there -= 1
            left += 1
        events = at
        while at < len(latest) and time[latest[at]] == now:
            lower = _below(tree, rank[latest[at]])
            right += lower
            equal += _below(tree, rank[latest[at]] + 1) - lower
            pairs += there
            at += 1
        for number in range(events, at):
            _add(tree, rank[latest[number]], 1)
            there += 1
        start = at
    return right, equal, pairs
