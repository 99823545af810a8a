"""One pass over the rows of a linear model: what every part adds to the sums by which its solver goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module, to_device
from pipeline.kernels.generalized_linear import LossSums, loss_sums
from pipeline.kernels.least_squares import gram_sums, stacked, triangle
from pipeline.kernels.sparse_columns import SparseColumns
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._linear.setting import Setting
from pipeline.stages.models._linear.summary import chosen_rows
from pipeline.stages.models._training_rows import Labels
from pipeline.stages.models._weights import row_weights
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round, Rounds

Array = Any

TARGET, TRAINS, WEIGHT = "target", "trains", "weight"  # columns of rows that are used
FEATURES = "features"  # the array beside them, float64 [rows, features]
READY = "ready"  # or that of their columns, and a 1 before them, float64 [rows, 1 + columns]


@dataclass(frozen=True)
class Wanted:
    """Where the next sums are wanted, `[1 + c, m]`, and what is said of the round meanwhile."""

    coefficients: np.ndarray[Any, Any]
    hessian: bool
    at: int
    figures: dict[str, float] = field(default_factory=dict)


class Sums(NamedTuple):
    """Over the training rows, and over those of validation where they are watched."""

    train: LossSums
    validation: LossSums | None


def used_rows(part: Part, learning: Learning[Any]) -> Part:
    """The rows that are learned from, then those that are watched, with their target; features lie where the backend computes."""
    stage = learning.stage
    labels = Labels.of(stage, part.frame)
    train, watched = (np.flatnonzero(chosen_rows(stage, part.frame, labels, split)) for split in ("train", "validation"))
    watched = watched if stage.early_stopping_rounds else train[:0]
    rows = np.concatenate([train, watched])
    features = np.ascontiguousarray(learning.matrix(part)[rows])
    frame = pl.DataFrame({TARGET: labels.values[rows], TRAINS: np.arange(len(rows)) < len(train)})
    if (weights := row_weights(stage, part.frame)) is not None:
        frame = frame.with_columns(pl.Series(WEIGHT, weights[rows]))
    return Part(frame, {FEATURES: to_device(features, learning.backend)})


@dataclass(frozen=True)
class SparseRows:
    """Rows that are used, whose columns are kept by what is not 0 alone."""

    frame: pl.DataFrame
    columns: SparseColumns


Used = Part | SparseRows


def ready(part: Part, setting: Setting) -> Used:
    """The rows with their columns once for all rounds: of numbers alone, which are no more than the features."""
    features, design = part.arrays[FEATURES], setting.design
    if not setting.by_newton:
        numbers = features[:, design.places] if design.columns < features.shape[1] else features
        if sparse := SparseColumns.of(numbers, design.means, design.scales):
            return SparseRows(part.frame, sparse)
    columns = array_module(features).ones((1 + design.columns, len(features))).T
    for at, block in design.blocks(features, slice(0, len(features))):
        columns[at, 1:] = block
    return Part(part.frame, {READY: columns})


def losses(part: Used, setting: Setting, wanted: Wanted, name: str) -> Sums:
    """One part's sums of losses; says the round to those who wait."""
    Rounds(name).done(Round(wanted.at, setting.stage.rounds, wanted.figures))
    trains = int(part.frame[TRAINS].sum())
    watched = None
    if setting.stage.early_stopping_rounds:
        watched = _losses(part, setting, wanted, slice(trains, part.frame.height), learns=False)
    return Sums(_losses(part, setting, wanted, slice(0, trains), learns=True), watched)


def _losses(part: Used, setting: Setting, wanted: Wanted, rows: slice, *, learns: bool) -> LossSums:
    """Sums over some rows; classes of those that are not learned from weigh the same, and they want no Hessian."""
    target = part.frame[TARGET].to_numpy()
    xp = np if isinstance(part, SparseRows) else array_module(*part.arrays.values())
    coefficients, found = xp.asarray(wanted.coefficients), []
    with np.errstate(all="ignore"):  # a step that went too far is taken back by its infinite loss
        for at, design in _designs(part, setting, rows):
            labels = target[at]
            weights = _own(part, at) * (1.0 if setting.weights is None or not learns else setting.weights[labels.astype(int)])
            hessian = wanted.hessian and learns
            found.append(loss_sums(design, xp.asarray(labels), xp.asarray(weights), coefficients, setting.family, hessian=hessian))
    return reduce(LossSums.plus, found)


def _designs(part: Used, setting: Setting, rows: slice) -> Iterator[tuple[slice, Array]]:
    """Blocks of some rows' columns with a 1 before them, `[n, 1 + c]`."""
    if isinstance(part, SparseRows):
        yield rows, part.columns[rows]
    elif READY in part.arrays:
        columns = part.arrays[READY]
        yield from ((at, columns[at]) for at in setting.design.steps(columns, rows))
    else:
        features = part.arrays[FEATURES]
        xp = array_module(features)
        for at, block in setting.design.blocks(features, rows):
            yield at, xp.concatenate([xp.ones((len(block), 1)), block], axis=1)


def _own(part: Used, at: slice) -> np.ndarray[Any, Any]:
    """The rows' own weights, 1 where they have none."""
    rows = part.frame[at]
    return rows[WEIGHT].to_numpy() if WEIGHT in rows.columns else np.ones(rows.height)


def products(part: Part, setting: Setting) -> np.ndarray[Any, Any]:
    """The Gram matrix of a part's columns and, last, its target less the mean, `float64[c + 1, c + 1]`."""
    return reduce(np.add, _of_blocks(part, setting, gram_sums))


def factors(part: Part, setting: Setting) -> np.ndarray[Any, Any]:
    """The triangular factor of the same."""
    return stacked(_of_blocks(part, setting, triangle))


def _of_blocks(part: Part, setting: Setting, function: Callable[[Array], np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    features, target = part.arrays[FEATURES], part.frame[TARGET].to_numpy() - setting.mean
    xp, rows = array_module(features), slice(0, int(part.frame[TRAINS].sum()))
    blocks = setting.design.blocks(features, rows)
    whole = ((at, xp.concatenate([block, xp.asarray(target[at])[:, None]], axis=1)) for at, block in blocks)
    if WEIGHT not in part.frame.columns:
        return [function(rows) for _, rows in whole]
    return [function(rows * xp.asarray(np.sqrt(_own(part, at)))[:, None]) for at, rows in whole]


def added(values: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The sum of arrays."""
    return reduce(np.add, values)


def added_losses(values: Sequence[Sums]) -> Sums:
    """Over all their rows."""
    watched = [sums.validation for sums in values if sums.validation is not None]
    return Sums(reduce(LossSums.plus, [sums.train for sums in values]), reduce(LossSums.plus, watched) if watched else None)
