"""Rows as points: the features of every part as one array of doubles, and the sample of them that does not depend on the parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module, to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.stages._keys import FRACTION, STEP, with_fraction
from pipeline.stages.models._predictor import check_finite, feature_matrix
from pipeline.stages.models._unsupervised.stage import NumberRows
from pipeline.tables.columns import AXES, AXIS_IDS
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

Array = Any
POINTS = "points"
"""The array of features that rides along with a part's rows, `float64[rows, features]`."""


@dataclass(frozen=True)
class Points:
    """What makes points of rows: the stage and its name in the job, its features among the columns, with their types, and among arrays."""

    name: str
    stage: NumberRows
    columns: tuple[str, ...]
    types: tuple[str, ...]
    arrays: tuple[str, ...]
    backend: Backend

    @staticmethod
    def of(name: str, stage: NumberRows, schema: Schema, backend: Backend) -> Points:
        """Of a table with that schema."""
        columns = stage.feature_columns(schema)
        return Points(name, stage, tuple(columns), tuple(str(schema.columns[one]) for one in columns), tuple(schema.arrays), backend)

    def table(self, rows: Table, seed: int) -> Table:
        """Key, split, FRACTION and POINTS of every row, computed once; the fraction is a hash of the key."""
        hashed = with_fraction(rows.named(self.name), [self.stage.key], STEP * (seed + 1))
        return hashed.map_parts(self._taken, writes=frozenset()).hold()

    def _taken(self, part: Part) -> Part:
        check_finite(self.columns, part.frame, pl.Float64())
        points = feature_matrix(part, self.columns, self.arrays, pl.Float64())
        if self.stage.missing == "refuse":
            need_known(points, self.columns)
        kept = part.frame.select(*self.stage.row_columns, FRACTION)
        return Part(kept, {POINTS: to_device(np.ascontiguousarray(points), self.backend)})

    def feature_names(self, axes: Sequence[Part]) -> list[str]:
        """Names of all features in order: the frame's, then the arrays' columns by their axis."""
        labelled = zip(self.arrays, axes, strict=True)
        return [*self.columns, *(name for array, axis in labelled for name in axis.frame[AXIS_IDS[AXES[array]]].to_list())]


def need_known(points: Array, names: Sequence[str]) -> None:
    """Raise DataError for a missing value; `names` are those of the first features."""
    missing = np.isnan(points).sum(axis=0)
    if missing.any():
        place = int(missing.argmax())
        name = repr(names[place]) if place < len(names) else f"number {place + 1}"
        text = (
            f"feature {name} is missing in {missing[place]:,} rows. Fill it (fill_missing), leave it out by exclude, or say missing: mean."
        )
        raise DataError(text)


def learned(part: Part, split: str | None) -> Array:
    """Which rows are learned from, `bool[rows]` in the host's memory."""
    if split is None:
        return np.ones(part.frame.height, bool)
    return part.frame[split].eq("train").fill_null(value=False).to_numpy()


def training(part: Part, split: str | None) -> tuple[Array, Array]:
    """The points that are learned from, and their fractions, `float64[rows]` in the host's memory."""
    points, fractions = part.arrays[POINTS], part.frame[FRACTION].to_numpy()
    chosen = learned(part, split)
    if chosen.all():
        return points, fractions
    rows = np.flatnonzero(chosen)
    return points[array_module(points).asarray(rows)], fractions[rows]


NUMBERS = 16 << 20
"""Numbers of a sample, 128 MiB: of very many features fewer rows are taken."""
Sample = tuple[Array, Array]
"""Points `float64[m, d]` and their fractions, lowest first, in the host's memory."""


def sampled(part: Part, split: str | None, most: int, least: int | None = None) -> Sample:
    """The points to learn from with the lowest hashes of their keys: `most`, or `least` where so many hold more numbers than NUMBERS."""
    points, fractions = training(part, split)
    order = np.argsort(fractions, kind="stable")[: _limit(points, most, least)]
    return _ordered(to_host(points[array_module(points).asarray(order)]), fractions[order])


def joined_samples(most: int, found: Sequence[Sample], least: int | None = None) -> Sample:
    """Those of several parts."""
    points, fractions = _ordered(np.concatenate([points for points, _ in found]), np.concatenate([fractions for _, fractions in found]))
    limit = _limit(points, most, least)
    return points[:limit], fractions[:limit]


def _limit(points: Array, most: int, least: int | None) -> int:
    return most if least is None else min(most, max(least, NUMBERS // max(points.shape[1], 1)))


def _ordered(points: Array, fractions: Array) -> Sample:
    order = np.argsort(fractions, kind="stable")
    if len(order) > 1 and (np.diff(fractions[order]) == 0).any():  # a key that is there twice
        order = np.lexsort((*points.T[::-1], fractions))
    return points[order], fractions[order]
