"""What is published of hazards: the table of coefficients, and predictions by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.devices import Backend
from pipeline.kernels.distances import projected
from pipeline.kernels.moments import Scaling
from pipeline.stages.models._cox.hazards import Hazards
from pipeline.stages.models._unsupervised.published import Found
from pipeline.stages.models._unsupervised.rows import POINTS, Points
from pipeline.stages.models._unsupervised.scaled import new_points
from pipeline.tables.part import Part

PREDICTS: dict[str, pl.DataType] = {"linear_predictor": pl.Float64(), "partial_hazard": pl.Float64()}
NUMBERS = ("coefficient", "standard_error", "z", "p_value", "hazard_ratio", "hazard_ratio_lower", "hazard_ratio_upper", "scale")
BASELINE = ("time", "cumulative_hazard", "survival")
LARGEST = 700.0
"""The linear predictor whose exponential is still a double, with room to spare."""


@dataclass(frozen=True)
class Predicting:
    """Predicts the logarithm of how much a row's hazard is that of a row of mean features, and that itself."""

    scaling: Scaling
    coefficients: Any
    missing: str
    names: tuple[str, ...]
    backend: Backend

    def predict(self, features: Any) -> Any:
        """Linear predictor and partial hazard, `float64[rows, 2]`."""
        points = new_points(features, self.scaling, self.missing, self.names, self.backend)
        found = to_host(projected(points, array_module(points).asarray(self.coefficients)[:, None]))[:, 0]
        return np.column_stack([found, np.exp(np.clip(found, -LARGEST, LARGEST))])


def predicted(part: Part, points: Points, found: Found) -> Part:
    """A part's rows with what is predicted of them."""
    told = Predicting(found.scaling, found.arrays["coefficients"], points.stage.missing, points.columns, points.backend)
    values = told.predict(to_host(part.arrays[POINTS]))
    made = [pl.Series(name, np.ascontiguousarray(values[:, at])) for at, name in enumerate(PREDICTS)]
    return Part(part.frame.select(pl.exclude("^__.*__$")).hstack(made))


def coefficients(names: Sequence[str], hazards: Hazards) -> pl.DataFrame:
    """A line per feature."""
    errors, half = np.sqrt(np.diagonal(hazards.covariance)), NormalDist().inv_cdf(0.975)
    z = hazards.coefficients / errors
    ends = (hazards.coefficients + sign * half * errors for sign in (0, -1, 1))
    ratios = (np.exp(np.clip(end, -LARGEST, LARGEST)) for end in ends)
    columns = (hazards.coefficients, errors, z, [erfc(abs(value) / sqrt(2)) for value in z], *ratios, hazards.deviations)
    return pl.DataFrame({"feature": list(names), **dict(zip(NUMBERS, columns, strict=True))})
