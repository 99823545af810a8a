"""Rounds of expectation and maximization over the parts of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.errors import DataError
from pipeline.kernels.gaussian_mixture import Kind, Mixture, MixtureSums, added, maximized, mixture_sums, nearest_sums
from pipeline.stages.models._unsupervised.rows import training
from pipeline.tables.part import Part

Array = Any


@dataclass(frozen=True)
class Mixing:
    """Rounds under way: the centers that rows belong to first, then the mixture; the mean log density of the rows under the last two."""

    centers: Array
    mixture: Mixture | None
    density: float
    before: float
    rounds: int


@dataclass(frozen=True)
class MixtureRounds:
    """A round: the first counts every row for its nearest center alone; `tolerance` is what the mean log density may still gain."""

    split: str | None
    kind: Kind
    floor: float
    tolerance: float

    def sums(self, part: Part, state: Mixing) -> MixtureSums:
        """Weights and moments by the mixture as it is."""
        points = training(part, self.split)[0]
        if state.mixture is None:
            return nearest_sums(points, state.centers, self.kind)
        return mixture_sums(points, state.mixture, self.kind)

    def added(self, found: Sequence[MixtureSums]) -> MixtureSums:
        """Over several parts."""
        return added(found)

    def next(self, state: Mixing, total: MixtureSums) -> Mixing:
        """The likeliest mixture. Raises DataError where a covariance cannot be inverted."""
        means = state.centers if state.mixture is None else state.mixture.means
        try:
            mixture = maximized(means, total, self.kind, self.floor)
        except np.linalg.LinAlgError as error:
            text = "a component's covariance cannot be inverted: its rows lie in a plane. Raise floor, or ask for fewer components."
            raise DataError(text, key="floor") from error
        if state.mixture is None:
            return Mixing(state.centers, mixture, state.density, state.before, 0)
        return Mixing(state.centers, mixture, total.log_likelihood / total.rows, state.density, state.rounds + 1)

    def is_done(self, state: Mixing) -> bool:
        """Whether the last round gained less than the tolerance."""
        return state.rounds > 1 and abs(state.density - state.before) < self.tolerance

    def figures(self, state: Mixing) -> Mapping[str, float]:
        """The mean log density of the scaled points."""
        return {"log_density": state.density} if state.rounds else {}
