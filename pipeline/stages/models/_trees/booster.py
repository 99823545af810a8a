"""XGBoost's booster: trees grow on the quantile matrix of the rows, and every row is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.boosting import import_xgboost, make_room, xgboost_device
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._training_rows import TrainingRows
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._trees.matrices import Matrices, on_matrices
from pipeline.stages.models._trees.parameters import said
from pipeline.stages.models._trees.resuming import Boosting, kept
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round, Rounds

Trees = Learning[BoostedTrees]
Curves = Mapping[str, Mapping[str, list[float]]]
"""Of every split, the values of its metrics round by round."""
HISTORY = {"round": pl.Int64(), "split": pl.String(), "metric": pl.String(), "value": pl.Float64()}


@dataclass(frozen=True)
class Grown:
    """A booster, how its metrics went while it was trained, rows that lay in external memory, and rounds that were there already."""

    booster: Any
    curves: Curves
    external: int = 0
    found: int = 0


def grown(learning: Trees, rows: TrainingRows, names: list[str]) -> Grown:
    """A booster trained on the rows of split train, cut after its best round where it stops early."""
    xgb = import_xgboost(lean=learning.lean)
    make_room(learning.backend)

    def train(on: Matrices) -> Grown:
        """The booster, with no hold on the matrices."""
        boosting = Boosting(learning, native(learning), [*stopping(learning), telling(learning)], kept(learning))
        try:
            booster = boosting.trained(on)
        except xgb.core.XGBoostError as error:
            raise DataError(f"XGBoost cannot train on these rows: {said(error)}") from error
        return Grown(booster, boosting.curves, rows.part.rows if on.external else 0, boosting.found)

    return on_matrices(learning, rows, names, train)


def native(learning: Trees) -> dict[str, Any]:
    """XGBoost's training parameters, by its own names."""
    return learning.stage.native(learning.seed, learning.backend, learning.threads)


def stopping(learning: Trees) -> list[Any]:
    """XGBoost's early stopping where it is asked for; the booster is cut after its best round, so that it predicts what is published."""
    rounds = learning.stage.early_stopping_rounds
    return [import_xgboost(lean=learning.lean).callback.EarlyStopping(rounds=rounds, save_best=True)] if rounds else []


def telling(learning: Trees) -> Any:
    """XGBoost's callback that says every round, with its validation metric, and ends training where the run is given up.

    Of several workers that train together the first one says them.
    """
    xgb, rounds = import_xgboost(lean=learning.lean), Rounds(learning.name)

    def after_iteration(_self: Any, _model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, Any]]) -> bool:
        """Say the round; False, for training goes on."""
        figures = {f"{split} {name}": float(values[-1]) for split, of in evals_log.items() for name, values in of.items()}
        if xgb.collective.get_rank() == 0:
            rounds.done(Round(epoch + 1, learning.stage.rounds, figures))
        else:
            rounds.go_on()
        return False

    return type("Telling", (xgb.callback.TrainingCallback,), {"after_iteration": after_iteration})()


def loaded(model: bytes) -> Any:
    """The booster of its bytes."""
    booster = import_xgboost().Booster()
    booster.load_model(bytearray(model))
    return booster


class BoosterPredictor:
    """A booster that predicts on the backend's device: a saved model does not say where it ran, and host arrays would miss the GPU."""

    def __init__(self, booster: Any, backend: Backend) -> None:
        booster.set_param({"device": xgboost_device(backend)})
        self._booster, self._backend = booster, backend

    @classmethod
    def of(cls, content: bytes, backend: Backend) -> BoosterPredictor:
        """Of a booster as it was saved."""
        return cls(loaded(content), backend)

    def predict(self, features: Any) -> np.ndarray[Any, Any]:
        """Predictions float32 [rows] or [rows, classes] of float32 [rows, features]."""
        on_device = to_device(features, self._backend)
        predicted: np.ndarray[Any, Any] = to_host(self._booster.inplace_predict(on_device, validate_features=False))
        return predicted


def predict(learning: Trees, booster: Any, rows: TrainingRows) -> np.ndarray[Any, Any]:
    """Predictions of rows, float32 [rows] or [rows, classes]."""
    predictor = BoosterPredictor(booster, learning.backend)
    return np.concatenate([predictor.predict(learning.matrix(piece)) for piece in rows.pieces()])


def history(curves: Curves) -> Part:
    """The values of all metrics: a row a round, split and metric; with early stopping the rounds after the best one too."""
    rows = [
        (at + 1, split, name, float(value))
        for split, of in curves.items()
        for name, values in of.items()
        for at, value in enumerate(values)
    ]
    return Part(pl.DataFrame(rows, schema=HISTORY, orient="row").sort("round", maintain_order=True))


def importance(booster: Any, names: list[str], more: Mapping[str, Any] | None = None) -> Part:
    """Gain, weight and cover of every feature, 0 for one that no tree uses, and `more` by name; the greatest gain first."""
    scores = {kind: booster.get_score(importance_type=kind) for kind in ("gain", "weight", "cover")}
    columns = {kind: pl.Series([float(found.get(name, 0)) for name in names], dtype=pl.Float64) for kind, found in scores.items()}
    table = pl.DataFrame({"feature": names, **columns, **(more or {})}, schema_overrides={"feature": pl.String})
    return Part(table.sort("gain", "feature", descending=[True, False]))
