"""What the tests of training share: rows to learn from, the stage run on them, and native XGBoost as the oracle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import xgboost as xgb

from pipeline.stage import Context
from pipeline.stages.models._trees.blocks import BLOCK, seed_of
from pipeline.stages.models.xgboost import Xgboost
from pipeline.tables.part import concat_parts
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED, Data, cut, height, table_schemas

FEATURES = ["a", "b", "group", "whole"]
SETTINGS: dict[str, Any] = {"max_depth": 3, "learning_rate": 0.3, "rounds": 80, "early_stopping_rounds": 4}
# XGBoost's own names for SETTINGS and the stage's defaults.
NATIVE: dict[str, Any] = {"max_depth": 3, "eta": 0.3, "max_bin": 256, "lambda": 1, "tree_method": "hist", "seed": SEED, "nthread": 1}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "regression": {"objective": "reg:squarederror", "eval_metric": "rmse"},
    "binary": {"objective": "binary:logistic", "eval_metric": "logloss"},
    "multiclass": {"objective": "multi:softprob", "eval_metric": "mlogloss", "num_class": 3},
}
CLASSES = ("low", "mid", "high")


def people(rows: int = 600) -> pl.DataFrame:
    """Rows in the order of `id`: features with gaps, codes of a `group`, one target for each objective (with gaps), and `split`."""
    random = np.random.default_rng(20261121)
    a, b, group, whole = random.normal(size=rows), random.normal(size=rows), random.integers(0, 6, rows), random.integers(0, 9, rows)
    score = a - 0.5 * b + np.array([1.0, -1, 2, 0, -2, 0.5])[group] + 0.1 * whole + random.normal(size=rows)

    def gaps(values: Any, share: float) -> pl.Series:
        return pl.select(pl.when(pl.Series(random.random(rows) >= share)).then(pl.Series(values))).to_series()

    names = np.array(CLASSES)[np.digitize(score, [-0.5, 1.2])]
    return pl.DataFrame(
        {
            "id": [f"p{number:04d}" for number in range(rows)],
            "a": gaps(a, 0.1),
            "b": b,
            "group": gaps(group.astype(np.int32), 0.05),
            "whole": whole,
            "regression": gaps(score, 0.04),
            "binary": gaps((score > 1).astype(np.int32), 0.04),
            "multiclass": gaps(names, 0.04),
            "split": random.choice(["train", "validation", "test"], size=rows, p=[0.6, 0.2, 0.2]),
        }
    )


PEOPLE = people()


def stage_for(objective: str, **more: Any) -> Xgboost:
    """The stage for one of the targets of `people`, with SETTINGS."""
    classes = CLASSES if objective == "multiclass" else ()
    given = {"key": "id", "target": objective, "objective": objective, "classes": classes, "features": FEATURES, **SETTINGS}
    return Xgboost.model_validate({**given, **more})


@dataclass(frozen=True)
class Result:
    """All that the stage gave."""

    predictions: pl.DataFrame
    importance: pl.DataFrame
    model: bytes
    description: dict[str, Any]
    metrics: dict[str, dict[str, float | None]]
    counts: dict[str, int]
    tables: dict[str, pl.DataFrame]

    @property
    def predicted(self) -> Any:
        """The predictions alone, [rows] or [rows, classes]."""
        columns = [name for name in self.predictions.columns if name.startswith("prediction")]
        return self.predictions.select(columns).to_numpy().squeeze()

    @property
    def booster(self) -> xgb.Booster:
        """The saved model, loaded."""
        booster = xgb.Booster()
        booster.load_model(bytearray(self.model))
        return booster


def train(stage: Xgboost, data: Data, sizes: Sequence[int] = (), session: Session | None = None, **facts: Any) -> Result:
    """Run the stage on a table (cut into parts of those sizes) with these facts (axes, fitted); what it gives has the planned schemas."""
    session = session or Session()
    parts = cut(data, sizes or [height(data)])
    labels = {name: axis.blocks[0].source.frame for name, axis in facts.get("axes", {}).items()}
    schema = table_schemas({"rows": parts[0]}, labels)["rows"]
    planned = stage.plan({"rows": schema}, Context("tested", SEED, Session()))
    outcome = stage.run({"rows": Table.of(session, "rows", parts, schema=schema, **facts)}, Context("tested", SEED, session))

    def had(value: Any) -> Any:
        return value.result(60) if session.is_future(value) else value

    frames = {name: concat_parts([had(part) for part in table.futures()]).frame for name, table in outcome.tables.items()}
    assert {name: frame.schema for name, frame in frames.items()} == {name: table.columns for name, table in planned.items()}
    files = {name: had(value) for name, value in outcome.files.items()}
    assert sorted(files) == ["tested.json", "tested.ubj"]
    found = frames[""], frames["importance"], files["tested.ubj"], json.loads(files["tested.json"])
    return Result(*found, had(outcome.metrics), had(outcome.counts), frames)


def numbers(frame: pl.DataFrame, features: Sequence[str] = FEATURES) -> Any:
    """The features as XGBoost takes them, float32, NaN where missing."""
    return frame.select(pl.col(features).cast(pl.Float32)).to_numpy()


def labels(frame: pl.DataFrame, objective: str) -> Any:
    """The target as XGBoost takes it."""
    target = frame[objective]
    return target.replace_strict({name: i for i, name in enumerate(CLASSES)}).to_numpy() if objective == "multiclass" else target.to_numpy()


def in_blocks(parameters: dict[str, Any], first: Any, watched: Any) -> xgb.Booster:
    """Trainings of XGBoost's own, each going on from the model before with its block's seed; cut as early stopping does."""
    booster: Any = None
    losses, rounds = list[float](), SETTINGS["rounds"]
    for block, start in enumerate(range(0, rounds, BLOCK)):
        seen: dict[str, Any] = {}
        told = {**parameters, "seed": seed_of(parameters["seed"], block)}
        more = {"evals": watched, "evals_result": seen, "verbose_eval": False}
        booster = xgb.train(told, first, min(BLOCK, rounds - start), xgb_model=booster, **more)
        losses += seen["validation"][parameters["eval_metric"]]
    best = next(at for at in range(rounds) if min(losses[at + 1 : at + 5], default=np.inf) >= losses[at] == min(losses[: at + 1]))
    booster = booster[: best + 5]
    booster.set_attr(best_iteration=str(best))
    return booster


def native(frame: pl.DataFrame, objective: str, matrix: Any = None, weights: Any = None, **more: Any) -> tuple[xgb.Booster, Any]:
    """XGBoost trained directly on the rows with a target, and its predictions of all rows up to the best round.

    `matrix` are other features than FEATURES, `weights` gives row weights from labels, `more` are training parameters and `types`.
    """
    types, matrix = more.pop("types", None), numbers(frame) if matrix is None else matrix

    def quantiles(split: str, ref: Any = None) -> Any:
        at = ((frame["split"] == split) & frame[objective].is_not_null()).to_numpy()
        target = labels(frame.filter(at), objective)
        given = {"weight": weights(target) if weights else None, "feature_types": types, "enable_categorical": True, "ref": ref}
        return xgb.QuantileDMatrix(matrix[at], target, max_bin=256, nthread=1, **given)

    first = quantiles("train")
    watched = [(quantiles("validation", first), "validation")]
    parameters = {**NATIVE, **OBJECTIVES[objective], **more}
    if {"subsample", *(name for name in more if name.startswith("colsample"))} & {*more}:
        booster = in_blocks(parameters, first, watched)
    else:
        booster = xgb.train(parameters, first, 80, evals=watched, early_stopping_rounds=4, verbose_eval=False)
    return booster, booster.predict(
        xgb.DMatrix(matrix, feature_types=types, enable_categorical=True), iteration_range=(0, booster.best_iteration + 1)
    )
