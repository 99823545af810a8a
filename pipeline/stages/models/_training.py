"""Training in one task: the parts stream into one quantile matrix in the order of the key, and every row is predicted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.boosting import import_xgboost, xgboost_device
from pipeline.errors import DataError
from pipeline.stage import Context, Outcome
from pipeline.stages.models._task import SPLITS, Rows, Task, chosen_rows, class_weights, measured
from pipeline.tables.part import Part, concat_parts, take
from pipeline.tables.table import Table


@dataclass(frozen=True)
class Trained:
    """What training gives: predictions and importance as parts, the model's two files, metrics per split, counts."""

    predictions: Part
    importance: Part
    model: bytes
    description: bytes
    metrics: dict[str, dict[str, float | None]]
    counts: dict[str, int]


def train_here(task: Task, rows: Table, axes: Sequence[Any], fitted: Sequence[tuple[Any, Any]], context: Context) -> Outcome:
    """Train in one task and give its results as tables, files, metrics and counts."""
    submit, parts = context.session.submit, rows.futures()
    described = [description for description, _ in fitted]
    states = [state for _, state in fitted]
    counts = (len(parts), len(axes))
    trained = submit(train_task, task, described, counts, *parts, *axes, *states, stage=task.stage)
    return outcome(task, trained, context)


def outcome(task: Task, trained: Any, context: Context) -> Outcome:
    """The tables, files, metrics and counts of a `Trained` that is still to come."""
    pieces = {
        name: context.session.submit(attrgetter(name), trained, stage=task.stage)
        for name in ("predictions", "importance", "model", "description", "metrics", "counts")
    }
    tables = {"": Table.of(context.session, task.stage, [pieces["predictions"]])}
    tables["importance"] = Table.of(context.session, task.stage, [pieces["importance"]])
    files = {f"{task.stage}.ubj": pieces["model"], f"{task.stage}.json": pieces["description"]}
    return Outcome(tables, files, pieces["metrics"], pieces["counts"])


def train_task(task: Task, described: Sequence[dict[str, Any]], counts: tuple[int, int], *values: Part) -> Trained:
    """Train on parts (the first of `values`), with axes and fitted states behind them."""
    parts, axes = values[: counts[0]], [part.frame for part in values[counts[0] : sum(counts)]]
    states = [part.frame for part in values[sum(counts) :]]
    rows = Rows.of(task, in_key_order(task, concat_parts(parts)))
    check_target(task, rows.part.frame, rows.labels, rows.split)
    booster = _booster(task, rows, task.names(axes))
    return finished(task, booster, rows, predict(booster, rows), (axes, described, states))


def in_key_order(task: Task, whole: Part) -> Part:
    """The rows in the order of the key; as they are where they have it already. Raises DataError where a key comes twice."""
    name = task.p["key"]
    if not whole.frame[name].is_sorted():
        order = whole.frame[name].arg_sort()
        whole = Part(whole.frame[order], {array: take(values, order.to_numpy()) for array, values in whole.arrays.items()})
    keys = whole.frame[name]
    again = keys.slice(1).eq_missing(keys.head(-1)).arg_max()
    if again is not None and keys[again] == keys[again + 1]:
        raise DataError(f"the key {name!r} has the value {keys[again]!r} twice. It must name each row once.")
    return whole


def check_target(task: Task, rows: pl.DataFrame, labels: Any, split: Any) -> None:
    """Raise DataError where the training rows' target cannot be learned."""
    target, known = task.p["target"], labels[~np.isnan(labels)]
    odd = sorted({*rows[target].drop_nulls().cast(pl.String).unique().to_list()} - {*task.classes}) if task.classes else []
    if odd:
        raise DataError(f"{target!r} has the value {odd[0]!r}, which classes does not list: {task.classes}")
    if np.isinf(known).any():
        raise DataError(f"{target!r} has infinite values (a division by zero?). Make them null, and they are predicted only.")
    values = np.unique(known)
    if task.p["objective"] == "binary" and not set(values.tolist()) <= {0.0, 1.0}:
        raise DataError(f"{target!r} is not binary, it has values {values[:5].tolist()}; 0 and 1 are needed")
    seen = np.unique(labels[chosen_rows(labels, split, "train")])
    if len(seen) == 0:
        raise DataError(f"no training row has a {target!r}. Is the split column right, and the target not all missing?")
    if len(seen) == 1:
        value = task.classes[int(seen[0])] if task.classes else f"{seen[0]:g}"
        raise DataError(f"{target!r} is {value} in every training row; there is nothing to learn")
    if task.p["early_stopping_rounds"] and not chosen_rows(labels, split, "validation").any():
        raise DataError(f"early stopping needs validation rows with a {target!r}, and there are none")


def _booster(task: Task, rows: Rows, names: list[str]) -> Any:
    xgb = import_xgboost(lean=task.lean)
    weigh = class_weights(task, rows.labels[rows.of_split("train")])
    about = {"feature_names": names, "feature_types": task.types(names)}
    options = {"max_bin": task.p["max_bin"], "enable_categorical": True, "nthread": task.threads}
    train = xgb.QuantileDMatrix(_data_iter(xgb, rows.passes("train"), weigh, about), **options)
    watched = []
    if task.p["early_stopping_rounds"]:
        validation = _data_iter(xgb, rows.passes("validation"), weigh, about)
        watched = [(xgb.QuantileDMatrix(validation, ref=train, **options), "validation")]
    return xgb.train(task.parameters(), train, task.p["rounds"], evals=watched, callbacks=stopping(task), verbose_eval=False)


def stopping(task: Task) -> list[Any]:
    """XGBoost's early stopping where it is asked for; the booster is cut after its best round, so that it predicts what is published."""
    rounds = task.p["early_stopping_rounds"]
    return [import_xgboost(lean=task.lean).callback.EarlyStopping(rounds=rounds, save_best=True)] if rounds else []


def _data_iter(xgb: Any, batches: Callable[[], Iterator[tuple[Any, Any]]], weigh: Callable[[Any], Any], about: dict[str, Any]) -> Any:
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


def predict(booster: Any, rows: Rows) -> np.ndarray[Any, Any]:
    """Predictions of all rows, float32 [rows] or [rows, classes].

    Booster and features are brought to one device: a saved model does not say where it ran, and host arrays would miss the GPU.
    """
    backend = rows.task.backend
    booster.set_param({"device": xgboost_device(backend)})
    batches = (to_device(features, backend) for features in rows.matrices())
    return np.concatenate([to_host(booster.inplace_predict(features, validate_features=False)) for features in batches])


def finished(task: Task, booster: Any, rows: Rows, predicted: Any, about: tuple[Any, Any, Any]) -> Trained:
    """Everything that is published of a trained model."""
    axes, described, states = about
    names, kept = task.names(axes), [name for name in (task.p["key"], task.p["split"], task.p["target"]) if name]
    columns = [f"prediction_{value}" for value in task.classes] or ["prediction"]
    values = np.atleast_2d(predicted.T)
    predictions = rows.part.frame[kept].hstack([pl.Series(c, np.ascontiguousarray(v)) for c, v in zip(columns, values, strict=True)])
    sizes = {f"rows_{name}": int((rows.split == code).sum()) for code, name in enumerate(SPLITS)}
    members = {name: rows.of_split(name) for name in SPLITS}
    metrics = {name: measured(task, rows.labels[of], predicted[of]) for name, of in members.items() if of.any()}
    trees = booster.num_boosted_rounds()
    fitted = [{**what, "state": state.to_dict(as_series=False)} for what, state in zip(described, states, strict=True)]
    text = {
        "model": f"{task.stage}.ubj", **{name: task.p[name] for name in ("objective", "target", "key")}, "classes": task.classes,
        "features": names, "categorical": list(task.p["categorical"]), "trees_used": trees,
        "xgboost": import_xgboost(lean=task.lean).__version__, "parameters": task.parameters(), "fitted": fitted,
    }  # fmt: skip
    description = (json.dumps(text, indent=1, default=str) + "\n").encode()
    counts = {"features": len(names), "trees_used": trees, **{name: size for name, size in sizes.items() if size}}
    return Trained(Part(predictions), Part(_importance(booster, names)), bytes(booster.save_raw("ubj")), description, metrics, counts)


def _importance(booster: Any, names: list[str]) -> pl.DataFrame:
    scores = {kind: booster.get_score(importance_type=kind) for kind in ("gain", "weight", "cover")}
    columns = {kind: pl.Series([float(found.get(name, 0)) for name in names], dtype=pl.Float64) for kind, found in scores.items()}
    return pl.DataFrame({"feature": names, **columns}, schema_overrides={"feature": pl.String}).sort(
        "gain", "feature", descending=[True, False]
    )
