"""A smaller model that learns what a larger one predicts: any stage that learns numbers, by its public face."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from pydantic import ValidationError

from pipeline.errors import StageError
from pipeline.stage import Context, Stage
from pipeline.stages.models._published import LOGISTIC, PACKED, Published
from pipeline.stages.models._smaller.forms import Form
from pipeline.stages.models._supervised import Supervised
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

TAUGHT = "__taught__"
"""The column of what the larger model predicts: values, or log-odds where they are probabilities."""
LEAST = 1e-6  # a probability is taken as no nearer to 0 or 1


def make_student(told: Mapping[str, Any], published: Published, split: str, stage_class: Callable[[str], type[Stage]]) -> Supervised:
    """The stage that learns, with the parameters told. Raises StageError for one that cannot be told to."""
    parameters, about = dict(told), published.description
    name = parameters.pop("use", None)
    if not isinstance(name, str):
        raise StageError("say which stage learns, as in {use: xgboost, rounds: 20, max_depth: 3}", key="student")
    kind = stage_class(name)
    if not issubclass(kind, Supervised):
        raise StageError(f"{name} learns no target. Name a stage that does (xgboost, say).", key="student.use")
    set_here = {"target": TAUGHT, "key": about["key"], "objective": "regression", "split": split}
    if taken := [key for key in parameters if key in set_here]:
        raise StageError("it is the larger model's, or set by compress. Leave it out.", key=f"student.{taken[0]}")
    features = {"features": list(published.types), "categorical": about.get("categorical", [])}
    try:
        return kind.model_validate({**features, **parameters, **set_here})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(["student", *map(str, first["loc"])])
        raise StageError(f"{first['msg']} (given: {first['input']!r})", key=key) from error


def taught_schema(prepared: Schema, published: Published, split: str) -> Schema:
    """The schema of the rows that the student learns from."""
    names = [str(published.description["key"]), split, *published.types]
    arrays = {name: axis for name, axis in prepared.arrays.items() if name in published.description["arrays"]}
    return Schema(pl.Schema({**{name: prepared.columns[name] for name in names}, TAUGHT: pl.Float64()}), arrays)


def taught_part(part: Part, predicted: Any, columns: pl.Schema, *, odds: bool) -> Part:
    """A part's rows as the student learns from them; `columns` are those of `taught_schema`."""
    values = np.asarray(predicted, np.float64).reshape(-1)
    if odds:
        values = np.clip(values, LEAST, 1 - LEAST)
        values = np.log(values / (1 - values))
    return Part(part.frame.with_columns(pl.Series(TAUGHT, values)).select(columns.names()), part.arrays)


def learned(student: Supervised, rows: Table, published: Published, context: Context) -> Any:
    """A future of the student's form, once it has learned from the rows."""
    outcome = student.run({"rows": rows}, replace(context, remembered=None))  # which knows nothing of the teacher
    content, description = (outcome.files[f"{context.name}.{end}"] for end in (student.suffix, "json"))
    return context.session.submit(_form, student, published.description, content, description, stage=context.name)


def _form(student: Supervised, teacher: Mapping[str, Any], content: bytes, description: bytes) -> Form:
    """The student's model, which says of itself what the larger one does, but for how it predicts."""
    own = json.loads(description)
    kept = {name: teacher[name] for name in ("target", "objective", "classes", "predicts", "fitted") if name in teacher}
    of_the_teacher: dict[str, Any] = {"link": LOGISTIC if teacher["objective"] == "binary" else None, **dict.fromkeys(PACKED)}
    return Form(content, f"{student.name} that learned its predictions", {**own, **kept, **of_the_teacher}, type(student))


def of_one_column(published: Published) -> None:
    """Raise StageError for a model with several columns of predictions."""
    if len(published.predicts) > 1:
        text = f"a student learns one number, and the model gives {len(published.predicts)} ({', '.join(published.predicts)})"
        raise StageError(f"{text}. Use prune_trees or prune_leaves.", key="method")


def renamed(rows: Table, schema: Schema) -> Table:
    """The rows with their schema, as no stage before had learned anything: what did is the larger model's to say."""
    return replace(rows, schema=schema, fitted=())
