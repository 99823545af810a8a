"""XGBoost's booster: rows stream into one quantile matrix, trees grow on it, and every row is predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.boosting import import_xgboost, xgboost_device
from pipeline.errors import DataError
from pipeline.stages.models._boosted_trees import BoostedTrees
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._measures import class_weights
from pipeline.stages.models._training_rows import TrainingRows
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round, Rounds

HELD_BYTES = 256 << 20  # features up to this size are converted once, not once a pass

Trees = Learning[BoostedTrees]
Batches = Callable[[], Iterator[tuple[Any, Any]]]


def check_finite(learning: Trees, frame: pl.DataFrame) -> None:
    """Raise DataError for a feature with a value that XGBoost's 32 bits cannot hold."""
    if not learning.columns:
        return
    largest = frame.select(pl.col(name).cast(pl.Float64).abs().max() for name in learning.columns).row(0)
    for name, value in zip(learning.columns, largest, strict=True):
        if value is not None and value > np.finfo(np.float32).max:
            raise DataError(
                f"feature {name!r} has infinite values (a division by zero?), or some beyond the 32 bits of "
                "XGBoost's numbers. Make them null, or leave it out by exclude."
            )


def grown(learning: Trees, rows: TrainingRows, names: list[str]) -> Any:
    """A booster trained on the rows of split train, cut after its best round where it stops early."""
    xgb, stage = import_xgboost(lean=learning.lean), learning.stage
    weigh = class_weights(stage, rows.labels)
    about = {"feature_names": names, "feature_types": stage.feature_types(names)}
    options = {"max_bin": stage.max_bin, "enable_categorical": True, "nthread": learning.threads}
    train = xgb.QuantileDMatrix(_data_iter(xgb, _passes(learning, rows, "train"), weigh, about), **options)
    watched = []
    if stage.early_stopping_rounds:
        validation = _data_iter(xgb, _passes(learning, rows, "validation"), weigh, about)
        watched = [(xgb.QuantileDMatrix(validation, ref=train, **options), "validation")]
    callbacks = [*stopping(learning), telling(learning)]
    return xgb.train(native(learning), train, stage.rounds, evals=watched, callbacks=callbacks, verbose_eval=False)


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


def _passes(learning: Trees, rows: TrainingRows, split: str) -> Batches:
    """The batches of one split as often as they are asked for (XGBoost goes over them several times): held where they are small.

    Where there are no arrays XGBoost takes the frame, which it bins faster than the matrix.
    """
    batches = partial(rows.batches, split, learning.matrix if learning.arrays else learning.frame)
    if 4 * len(learning.columns) * rows.part.frame.height > HELD_BYTES or learning.arrays:
        return batches
    return list(batches()).__iter__


def _data_iter(xgb: Any, batches: Batches, weigh: Callable[[Any], Any], about: dict[str, Any]) -> Any:
    """XGBoost's DataIter over batches of features and labels."""
    state = {"at": batches()}

    def advance(_self: Any, input_data: Any) -> bool:
        """Hand over the next batch; False where there is none."""
        for features, labels in state["at"]:
            input_data(data=features, label=labels, weight=weigh(labels), **about)
            return True
        return False

    def reset(_self: Any) -> None:
        """Begin again."""
        state["at"] = batches()

    return type("Batches", (xgb.DataIter,), {"next": advance, "reset": reset})()


def predict(learning: Trees, booster: Any, rows: TrainingRows) -> np.ndarray[Any, Any]:
    """Predictions of all rows, float32 [rows] or [rows, classes].

    Booster and features are brought to one device: a saved model does not say where it ran, and host arrays would miss the GPU.
    """
    booster.set_param({"device": xgboost_device(learning.backend)})
    batches = (to_device(learning.matrix(piece), learning.backend) for piece in rows.pieces())
    return np.concatenate([to_host(booster.inplace_predict(features, validate_features=False)) for features in batches])


def importance(booster: Any, names: list[str]) -> Part:
    """Gain, weight and cover of every feature, 0 for one that no tree uses, the greatest gain first."""
    scores = {kind: booster.get_score(importance_type=kind) for kind in ("gain", "weight", "cover")}
    columns = {kind: pl.Series([float(found.get(name, 0)) for name in names], dtype=pl.Float64) for kind, found in scores.items()}
    table = pl.DataFrame({"feature": names, **columns}, schema_overrides={"feature": pl.String})
    return Part(table.sort("gain", "feature", descending=[True, False]))
