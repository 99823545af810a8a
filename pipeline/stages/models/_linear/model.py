"""A linear model as it is published: an npz file of its numbers, and how they predict, row by row in one order of operations."""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import InputError
from pipeline.kernels.generalized_linear import Family, mean_of
from pipeline.kernels.row_products import add_products
from pipeline.stages.models._linear.design import Design

Array = np.ndarray[Any, Any]

ROWS_AT_A_TIME = 16_384


@dataclass(frozen=True)
class LinearModel:
    """The linear predictor of m outputs: `at_base [m]`, plus each number less its mean times its slope, plus each code's effect.

    Of p features `means [p]` and `slopes [p, m]`, 0 for categories; of t codes the feature's place `code_places [t]`, the code `codes [t]`
    and its effect against the base `code_slopes [t, m]`.
    """

    at_base: Array
    means: Array
    slopes: Array
    code_places: Array
    codes: Array
    code_slopes: Array

    @classmethod
    def of(cls, design: Design, coefficients: Array) -> LinearModel:
        """Of coefficients `[1 + c, m]` of the design's columns, that of the intercept first."""
        features, outputs = len(design.names), coefficients.shape[1]
        means, slopes = np.zeros(features), np.zeros((features, outputs))
        raw = coefficients[1:] / design.scales[:, None]
        coded = ~np.isnan(design.codes)
        numbers = design.places[~coded]
        means[numbers], slopes[numbers] = design.means[~coded], raw[~coded]
        at_base = coefficients[0] - design.means[coded] @ raw[coded]
        return cls(at_base, means, slopes, design.places[coded], design.codes[coded].astype(np.int64), raw[coded])

    def predictor(self, features: Any) -> Any:
        """Linear predictors `[n, m]` of `features [n, p]`, NaN where missing: the same for a row whatever rows stand beside it."""
        xp = array_module(features)
        numbers: Any = np.flatnonzero(self.slopes.any(axis=1))
        if xp is np and 2 * len(numbers) > len(self.slopes):
            numbers = slice(None)  # copying the columns takes longer than adding nothing for some
        slopes, means = (xp.asarray(values[numbers]) for values in (self.slopes, self.means))
        found = xp.tile(xp.asarray(self.at_base), (len(features), 1))
        for start in range(0, len(features), ROWS_AT_A_TIME):
            at = slice(start, start + ROWS_AT_A_TIME)
            add_products(features[at][:, numbers if xp is np else xp.asarray(numbers)], slopes, found[at], means)
            for place in np.unique(self.code_places).tolist():
                self._add_codes(place, features[at, place], found[at])
        return found

    def _add_codes(self, place: int, values: Any, found: Any) -> None:
        """Add the effects of a feature's codes to the predictors of some rows; a missing code, or one without effect, adds nothing."""
        xp = array_module(values)
        mine = self.code_places == place
        last = int(self.codes[mine].max()) + 1
        table = np.zeros((last + 1, found.shape[1]))
        table[self.codes[mine]] = self.code_slopes[mine]
        index = xp.where(xp.isnan(values), last, xp.minimum(values, last)).astype(xp.int64)
        found += xp.asarray(table)[index]

    def saved(self) -> bytes:
        """The npz file, the same bytes for the same numbers."""
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **{each.name: getattr(self, each.name) for each in fields(self)})
        return file.getvalue()

    @classmethod
    def read(cls, content: bytes) -> LinearModel:
        """Of a file's bytes. Raises InputError for bytes that are none."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                return cls(**{each.name: file[each.name] for each in fields(cls)})
        except (ValueError, KeyError, OSError, EOFError) as error:
            raise InputError(f"this is no linear model ({error}). Give the npz file of a run, as it was published.") from error


@dataclass(frozen=True)
class LinearPredictor:
    """A linear model that predicts means of the target, on a CPU or a GPU."""

    model: LinearModel
    family: Family
    backend: Backend

    def predict(self, features: Any) -> Any:
        """`float64[rows]`, or `[rows, classes]`, of `features [rows, features]`."""
        return to_host(mean_of(self.model.predictor(to_device(features, self.backend)), self.family))
