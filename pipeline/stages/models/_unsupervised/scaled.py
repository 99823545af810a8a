"""Points brought to numbers that can be squared: means and spreads by two passes over the parts, then the scaled points, held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipeline.backend.arrays import to_device
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.kernels.moments import Centre, Moments, Scaling, Span, joined_spans, moment_sums, moments, scaled, scaling, span
from pipeline.stage import Context
from pipeline.stages.models._unsupervised.rows import POINTS, need_known, training
from pipeline.tables.part import Part
from pipeline.tables.table import Table

Array = Any


@dataclass(frozen=True)
class Measured:
    """What was found of the points to learn from, and how points are scaled by it."""

    moments: Moments
    scaling: Scaling

    @property
    def variances(self) -> Array:
        """Variances of the scaled points, `float64[d]`."""
        return (self.moments.deviation * self.scaling.unit / self.scaling.scale) ** 2

    @property
    def means(self) -> Array:
        """Means of the scaled points, `float64[d]`."""
        return (self.moments.mean * self.scaling.unit - self.scaling.center) / self.scaling.scale


def measured(points: Table, split: str | None, context: Context, *, centre: Centre, own: Literal["one", "each"]) -> Any:
    """A future of what is `Measured` of the rows to learn from."""
    spans = points.reduce(_span, joined_spans, split)
    sums = points.reduce(_sums, _added, split, spans)
    return context.session.submit(_measured, spans, sums, centre, own, stage=context.name)


def scaled_points(points: Table, found: Any) -> Table:
    """The table with its points scaled, computed once."""
    return points.map_parts(_scaled, found, writes=frozenset()).hold()


def new_points(features: Array, by: Scaling, missing: str, names: Sequence[str], backend: Backend) -> Array:
    """Rows that a published model is given, scaled as those of training. Raises DataError for a missing value that was refused then."""
    if missing == "refuse":
        need_known(features, names)
    return scaled(to_device(np.ascontiguousarray(features, np.float64), backend), by)


def _span(part: Part, split: str | None) -> Span:
    return span(training(part, split)[0])


def _sums(part: Part, split: str | None, found: Span) -> Array:
    return moment_sums(training(part, split)[0], found)


def _added(sums: list[Array]) -> Array:
    return sum(sums[1:], start=sums[0])


def _measured(found: Span, sums: Array, centre: Centre, own: Literal["one", "each"]) -> Measured:
    if not found.rows:
        raise DataError("there is no row to learn from: the table is empty, or no row is of split 'train'")
    if (found.known == 0).any():
        place = int((found.known == 0).argmax())
        raise DataError(f"feature number {place + 1} is missing in every row to learn from. Leave it out by exclude.")
    what = moments(found, sums)
    return Measured(what, scaling(what, centre=centre, own=own))


def _scaled(part: Part, found: Measured) -> Part:
    return part.replaced(**{POINTS: scaled(part.arrays[POINTS], found.scaling)})
