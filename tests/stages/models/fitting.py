"""What the tests of linear share: rows of every kind of target, the stage run on them, and the same columns made by scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.stage import Context
from pipeline.stages.models.linear import Linear
from pipeline.tables.part import concat_parts
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED, Data, cut, height, table_schemas

NUMBERS, CLASSES = ["a", "b", "far"], ("low", "mid", "high")
FEATURES = [*NUMBERS, "group"]


def people(rows: int = 700) -> pl.DataFrame:
    """Features with gaps, one of them far from 0, codes of a `group`, a target of every family with gaps, and `split`."""
    random = np.random.default_rng(20261122)
    a, b, far = random.normal(size=(3, rows))
    group = random.choice(5, rows, p=[0.1, 0.2, 0.4, 0.2, 0.1])
    score = 0.8 * a - 0.5 * b + 0.3 * far + np.array([0.5, -0.5, 0, 0.2, -0.3])[group]

    def gaps(values: Any, share: float) -> pl.Series:
        return pl.select(pl.when(pl.Series(random.random(rows) >= share)).then(pl.Series(values))).to_series()

    noisy = score + random.normal(size=rows)
    return pl.DataFrame(
        {
            "id": np.arange(rows),
            "a": gaps(a, 0.1),
            "b": b,
            "far": 1e6 + far,
            "group": gaps(group.astype(np.int32), 0.05),
            "normal": gaps(noisy, 0.04),
            "binary": gaps((noisy > 0.3).astype(np.int8), 0.04),
            "poisson": gaps(random.poisson(np.exp(0.5 * score)), 0.04),
            "gamma": gaps(random.gamma(2, np.exp(0.5 * score) / 2), 0.04),
            "multiclass": gaps(np.array(CLASSES)[np.digitize(noisy, [-0.5, 0.8])], 0.04),
            "split": random.choice(["train", "validation", "test"], size=rows, p=[0.6, 0.2, 0.2]),
        }
    )


PEOPLE = people()


def stage_for(target: str, **more: Any) -> Linear:
    """The stage for one of the targets of `people`."""
    objective = {"binary": "binary", "multiclass": "multiclass"}.get(target, "regression")
    family = {"family": target} if objective == "regression" else {}
    classes = CLASSES if objective == "multiclass" else ()
    given = {"key": "id", "target": target, "objective": objective, "classes": classes, "features": FEATURES, "categorical": ["group"]}
    return Linear.model_validate({**given, **family, **more})


@dataclass(frozen=True)
class Result:
    """All that the stage gave."""

    predictions: pl.DataFrame
    coefficients: pl.DataFrame
    importance: pl.DataFrame
    history: pl.DataFrame
    model: bytes
    description: dict[str, Any]
    metrics: dict[str, dict[str, float | None]]
    counts: dict[str, int]
    warnings: list[str]

    @property
    def predicted(self) -> Any:
        """The predictions alone, [rows] or [rows, classes]."""
        return self.predictions.select(pl.selectors.starts_with("prediction")).to_numpy().squeeze()

    def column(self, name: str, *, base: bool = False) -> Any:
        """A column of the coefficients, without the bases of categories."""
        rows = self.coefficients if base else self.coefficients.filter((pl.col("coefficient") != 0) | pl.col("scale").is_not_null())
        return rows[name].to_numpy()


def fit(stage: Linear, data: Data, sizes: Sequence[int] = (), session: Session | None = None, **facts: Any) -> Result:
    """Run the stage on a table, cut into parts of those sizes; what it gives has the planned schemas."""
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
    tables = frames[""], frames["coefficients"], frames["importance"], frames["history"]
    rest = had(outcome.metrics), had(outcome.counts), had(outcome.warnings)
    return Result(*tables, files["tested.npz"], json.loads(files["tested.json"]), *rest)


def standardized(frame: pl.DataFrame, target: str) -> tuple[Any, Any, Any, Any]:
    """The columns of all rows as scikit-learn makes them of FEATURES, the training rows, their target, and the columns not standardized."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    train = ((frame["split"] == "train") & frame[target].is_not_null()).to_numpy()
    values = frame.select(pl.col(NUMBERS), pl.col("group").fill_null(2).cast(pl.Float64)).to_numpy()
    codes = OneHotEncoder(categories=[np.arange(5.0)], drop=[2.0], sparse_output=False)
    made = ColumnTransformer([("numbers", SimpleImputer(), [0, 1, 2]), ("codes", codes, [3])])
    plain = made.fit(values[train]).transform(values)
    names = {name: float(number) for number, name in enumerate(CLASSES)}
    known = frame[target].replace_strict(names) if target == "multiclass" else frame[target]
    return StandardScaler().fit(plain[train]).transform(plain), train, known.to_numpy()[train].astype(float), plain
