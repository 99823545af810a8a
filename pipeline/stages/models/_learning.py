"""One model to be learned, as the tasks that learn it take it, and what comes out of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

import numpy as np
import polars as pl
from polars import selectors

from pipeline.backend.devices import Backend
from pipeline.results.checkpoints import Checkpoint
from pipeline.stage import Context, Outcome
from pipeline.stages.models._measures import Metrics
from pipeline.stages.models._predictor import feature_matrix
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._training_rows import SPLITS, TrainingRows
from pipeline.stages.models._unfolded.column import Unfolded
from pipeline.tables.columns import AXES, AXIS_IDS
from pipeline.tables.learned import states_of
from pipeline.tables.part import Part
from pipeline.tables.table import Fitted, Table

Model = TypeVar("Model", bound=Supervised, covariant=True)


@dataclass(frozen=True)
class Learning(Generic[Model]):
    """What learning needs to know beside the rows: the stage with its parameters, its name in the job, its features, and where it runs.

    `columns` are the features among the frame's columns, of these `types`, `arrays` those that ride along, whose columns are named by their
    axes. Those that are `unfolded` are several columns of the matrix each. Where one split is `asked`, what others would be predicted is
    of no use.
    """

    name: str
    stage: Model
    columns: tuple[str, ...]
    types: tuple[str, ...]
    arrays: tuple[str, ...]
    seed: int
    backend: Backend
    threads: int
    lean: bool = False
    unfolded: Mapping[str, Unfolded] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    asked: str | None = None

    def kept_in(self, context: Context) -> Self:
        """The same, with the place where a run that was killed kept how far its training had come; none where nothing is remembered."""
        about = [self.name, self.stage.name, self.stage.version, self.stage.model_dump(), self.seed, self.backend, self.threads]
        return replace(self, checkpoint=context.remembered.checkpoint(about)) if context.remembered else self

    def feature_names(self, axes: Sequence[Part]) -> list[str]:
        """Names of all features in order: the frame's, then the arrays' columns by their axis."""
        labelled = zip(self.arrays, axes, strict=True)
        return [*self.columns, *(name for array, axis in labelled for name in axis.frame[AXIS_IDS[AXES[array]]].to_list())]

    def matrix(self, part: Part) -> Any:
        """Features of a part's rows, [rows, columns] in the model's precision, NaN where missing; NumPy, or CuPy of `COLUMNS` on a GPU."""
        return feature_matrix(part, self.columns, self.arrays, self.stage.precision, self.unfolded)

    def frame(self, part: Part) -> pl.DataFrame:
        """The features among the frame's columns, float32."""
        return part.frame.select(pl.col(self.columns).cast(pl.Float32))

    def description(self, names: Sequence[str], rows: pl.DataFrame, fitted: Sequence[Fitted], own: Mapping[str, Any]) -> bytes:
        """The file beside the model: what every model says of itself, and its `own`; codes are the greatest of `rows`."""
        stage = self.stage
        text = {
            "use": stage.name, "model": f"{self.name}.{stage.suffix}", "objective": stage.objective, "target": stage.target,
            "key": stage.key, "classes": stage.class_names, "precision": str(stage.precision),
            "predicts": dict.fromkeys(stage.prediction_columns, str(stage.precision)), "features": list(names),
            "types": dict(zip(self.columns, self.types, strict=True)), "arrays": list(self.arrays), "categorical": list(stage.categorical),
            "codes": {name: rows[name].max() for name in stage.categorical}, **own, "fitted": described(fitted),
        }  # fmt: skip
        return (json.dumps(text, indent=1, default=str) + "\n").encode()


@dataclass(frozen=True)
class Given:
    """What learning starts from, as values or futures: the rows' parts, the arrays' axes, and the states that stages before learned.

    `steps` are those stages, in the order of their states and without them: Dask sees a future in a list, and none in a dataclass.
    """

    parts: list[Any]
    axes: list[Any]
    steps: list[Fitted]
    states: list[Any]

    @staticmethod
    def of(rows: Table, arrays: Sequence[str], parts: list[Any]) -> Given:
        """Of a table whose parts were made."""
        steps = [replace(fitted, state=None) for fitted in rows.fitted]
        return Given(parts, [rows.axes[array].value() for array in arrays], steps, states_of(rows))


@dataclass(frozen=True)
class Trained:
    """What learning gives: predictions and importance as parts, the model's two files, metrics per split, counts."""

    predictions: Part
    importance: Part
    model: bytes
    description: bytes
    metrics: Metrics
    counts: dict[str, int]


def outcome(learning: Learning[Any], trained: Any, context: Context) -> Outcome:
    """The tables, files, metrics and counts of a `Trained` that is still to come."""
    name, suffix = learning.name, learning.stage.suffix
    fields = ("predictions", "importance", "model", "description", "metrics", "counts")
    pieces = {field: context.session.submit(attrgetter(field), trained, stage=name) for field in fields}
    tables = {"": Table.of(context.session, name, [pieces["predictions"]])}
    tables["importance"] = Table.of(context.session, name, [pieces["importance"]])
    files = {f"{name}.{suffix}": pieces["model"], f"{name}.json": pieces["description"]}
    return Outcome(tables, files, pieces["metrics"], pieces["counts"])


def predictions(stage: Supervised, rows: TrainingRows, predicted: Any) -> Part:
    """Key, split and target of every row, and what is predicted, [rows] or [rows, classes]."""
    columns = zip(stage.prediction_columns, np.atleast_2d(predicted.T), strict=True)
    return Part(rows.part.frame[stage.row_columns].hstack([pl.Series(name, np.ascontiguousarray(values)) for name, values in columns]))


def split_counts(rows: TrainingRows) -> dict[str, int]:
    """Rows of each split that has some."""
    sizes = {f"rows_{name}": int((rows.labels.splits == code).sum()) for code, name in enumerate(SPLITS)}
    return {name: size for name, size in sizes.items() if size}


def with_states(steps: Sequence[Fitted], states: Sequence[Part]) -> list[Fitted]:
    """The stages before with what they learned."""
    return [replace(step, state=state) for step, state in zip(steps, states, strict=True)]


def described(steps: Sequence[Fitted]) -> list[Mapping[str, Any]]:
    """What the stages before learned and how they were told to, for the file beside a model: scoring does the same to raw rows."""
    return [
        {
            "stage": step.stage,
            "use": step.use,
            "version": getattr(step.parameters, "version", 1),
            "parameters": step.parameters.model_dump(mode="json"),
            "state": step.state.frame.with_columns(selectors.temporal().to_physical()).to_dict(as_series=False),
            "types": {name: str(dtype) for name, dtype in step.state.frame.schema.items()},
        }
        for step in steps
    ]
