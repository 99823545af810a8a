"""Lloyd's rounds over the parts of a table, from several starts at once, and centers settled on a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.errors import DataError
from pipeline.kernels.k_means import (
    Lloyd,
    LloydSums,
    added,
    lloyd_sums,
    ordered,
    plus_plus,
    settled,
    started,
    stepped,
    stepped_by_share,
)
from pipeline.stages.models._unsupervised.rows import Sample, training
from pipeline.stages.models._unsupervised.scaled import Measured
from pipeline.tables.part import Part

Array = Any
A_CENTER = 20
"""Rows of a sample for each center at least, where there are so many."""
ROUNDS, TOLERANCE = 100, 1e-4
"""Of a settling on a sample."""


@dataclass(frozen=True)
class Starts:
    """Rounds under way, from every start; the squared length that ends them; and what share of the rows a round takes."""

    states: tuple[Lloyd, ...]
    enough: float
    share: float

    @property
    def best(self) -> Lloyd:
        """That of the least inertia."""
        return min(self.states, key=lambda state: state.inertia)


@dataclass(frozen=True)
class LloydRounds:
    """A round over the parts; `split` is the column that says which rows to learn from."""

    split: str | None

    def sums(self, part: Part, state: Starts) -> list[LloydSums | None]:
        """Of every start that is not done."""
        points, order = training(part, self.split)
        if state.share < 1:
            first = max(one.rounds for one in state.states) * state.share
            chosen = np.flatnonzero((order - first) % 1.0 < state.share)
            points, order = points[array_module(points).asarray(chosen)], order[chosen]
        return [None if one.done else lloyd_sums(points, order, one.centers) for one in state.states]

    def added(self, found: Sequence[list[LloydSums | None]]) -> list[LloydSums | None]:
        """Start by start."""
        return [None if several[0] is None else added([one for one in several if one]) for several in zip(*found, strict=True)]

    def next(self, state: Starts, total: list[LloydSums | None]) -> Starts:
        """All starts after a round."""
        step = stepped if state.share >= 1 else stepped_by_share
        both = zip(state.states, total, strict=True)
        return replace(state, states=tuple(one if sums is None else step(one, sums, state.enough) for one, sums in both))

    def is_done(self, state: Starts) -> bool:
        """Whether all starts are."""
        return all(one.done for one in state.states)

    def figures(self, state: Starts) -> Mapping[str, float]:
        """How far the centers of the best start moved."""
        return {"moved": float(np.sqrt(state.best.moved))}


def begun(sample: Sample, found: Measured, clusters: int, starts: int, seed: int, rule: tuple[float, int | None]) -> Starts:
    """Before the first round; `rule` is the tolerance as a share of the points' mean variance, and the rows of a round where not all."""
    need_rows(found, clusters)
    centers = [plus_plus(sample[0], clusters, np.random.default_rng([seed, number])) for number in range(starts)]
    tolerance, batch = rule
    share = 1.0 if batch is None else min(1.0, batch / found.moments.rows)
    return Starts(tuple(started(one) for one in centers), tolerance * float(found.variances.mean()), share)


def on_sample(sample: Sample, found: Measured, clusters: int, starts: int, seed: int) -> Array:
    """Centers `float64[k, d]` that k-means settles on a sample, the best of several starts."""
    need_rows(found, clusters)
    enough = TOLERANCE * float(found.variances.mean())
    centers = [plus_plus(sample[0], clusters, np.random.default_rng([seed, number])) for number in range(starts)]
    return ordered(min((settled(sample[0], one, ROUNDS, enough) for one in centers), key=lambda state: state.inertia))


def need_rows(found: Measured, clusters: int, key: str = "clusters") -> None:
    """Raise DataError where there are fewer rows to learn from than clusters; `key` is the parameter that says how many."""
    if found.moments.rows < clusters:
        raise DataError(f"{clusters:,} {key} of {found.moments.rows:,} rows to learn from; ask for at most as many.", key=key)
