"""One fold of a cross-validation as a task, and what all of them come to."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pipeline.errors import DataError
from pipeline.stages.models._learning import with_states
from pipeline.stages.models._search.model import Alone
from pipeline.stages.models._supervised import Supervised
from pipeline.tables.part import Part, concat_parts, take
from pipeline.tables.table import Fitted

SPLIT = "__split__"  # the column that says what a row is in one fold
FOLDS = pl.Schema({"fold": pl.Int64(), "rows": pl.Int64(), "metric": pl.String(), "value": pl.Float64()})
Metrics = Mapping[str, float | None]


@dataclass(frozen=True)
class Fold:
    """What a fold's task gives: its number, the predictions of its rows, and what the model measured on them."""

    number: int
    predictions: pl.DataFrame
    metrics: Metrics


@dataclass(frozen=True)
class FoldTask:
    """Trains a model on the rows outside of a fold, and predicts it; `splits` says of each row what it is here.

    `of_use`: which rows there are, where it is not all of them. `urgency`: who learns from most rows goes first, so that nobody waits for
    it alone.
    """

    alone: Alone
    model: Supervised
    number: int
    splits: pl.Expr
    of_use: pl.Expr | None = None
    urgency: float = 0.0

    def __call__(self, parts: Sequence[Part], axes: Sequence[Part], steps: Sequence[Fitted], states: Sequence[Part]) -> Fold:
        """The fold. Raises DataError where it has no row with a target."""
        columns = [name for name in self.alone.schema.columns if name != SPLIT]
        used = [part if self.of_use is None else _rows_where(part, self.of_use) for part in parts]
        given = [part.replaced(part.frame.select(*columns, self.splits)) for part in used]
        outcome = self.alone.run(self.model, given, axes, with_states(steps, states), asked="test")
        if "test" not in outcome.metrics:
            raise DataError(f"fold {self.number} has no row with a target. Ask for fewer folds.", key="folds")
        rows = concat_parts(outcome.tables[""].futures()).frame.filter(pl.col(SPLIT) == "test").drop(SPLIT)
        named = pl.lit(self.number, pl.Int64).alias("fold")
        return Fold(self.number, rows.select(self.model.key, named, pl.exclude(self.model.key)), outcome.metrics["test"])


def _rows_where(part: Part, wanted: pl.Expr) -> Part:
    """Some of a part's rows."""
    rows = part.frame.select(wanted.arg_true()).to_series().to_numpy()
    if len(rows) == part.rows:
        return part
    return Part(part.frame[rows], {name: take(array, rows) for name, array in part.arrays.items()})


@dataclass(frozen=True)
class Together:
    """All folds: predictions and the table of metrics as parts, metrics by fold, counts."""

    predictions: Part
    table: Part
    metrics: dict[str, Metrics]
    counts: dict[str, int]


def together(folds: Sequence[Fold], key: str) -> Together:
    """The predictions in the order of the key, the metrics of every fold, and their mean and standard deviation (n - 1).

    A metric that a fold does not have, its rows being of one class, has neither.
    """
    predictions = pl.concat([fold.predictions for fold in folds]).sort(key)
    values = {name: [fold.metrics[name] for fold in folds] for name in folds[0].metrics}
    known = {name: [value for value in found if value is not None] for name, found in values.items()}
    whole = {name: found if len(found) == len(folds) else None for name, found in known.items()}
    metrics: dict[str, Metrics] = {f"fold {fold.number}": fold.metrics for fold in folds}
    metrics["mean"] = {name: statistics.fmean(found) if found else None for name, found in whole.items()}
    metrics["standard deviation"] = {name: statistics.stdev(found) if found else None for name, found in whole.items()}
    cells = [(fold.number, fold.predictions.height, name, value) for fold in folds for name, value in fold.metrics.items()]
    return Together(Part(predictions), Part(pl.DataFrame(cells, FOLDS, orient="row")), metrics, {"rows_predicted": predictions.height})
