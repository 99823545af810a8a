"""A published model as scoring takes it: the file that describes it, the stages that it was learned behind, and how it predicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import realpath
from typing import Any

import numpy as np
import polars as pl
from pydantic import ValidationError

from pipeline.backend.devices import Backend
from pipeline.errors import InputError, JobError
from pipeline.files import beside, exists, is_url, local_path, open_file, parent
from pipeline.stage import FittedRows, Stage
from pipeline.stages.models._predictor import Answerer, Learns, Predictor
from pipeline.stages.models._smaller.quantized import restored
from pipeline.stages.models._smaller.thinned import filled
from pipeline.stages.models._unfolded.column import Unfolded
from pipeline.stages.models._unfolded.columns import unfolded_of
from pipeline.tables.dtypes import dtype_of_text

LOGISTIC = "logistic"
"""A description's `link` where what the model itself predicts are log-odds."""
PACKED = ("quantized", "thinned")
"""What a description says of a file whose weights are not as the stage that learned them reads them."""
NEEDED = ("model", "key", "features", "types", "arrays", "codes", "fitted")


@dataclass(frozen=True)
class Step:
    """A stage before the model, and what it had learned: `name` is what the training job called it."""

    name: str
    stage: FittedRows
    state: pl.DataFrame

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows as they were after this stage."""
        return self.stage.apply(rows, self.state)


@dataclass(frozen=True)
class Linked:
    """A model of log-odds that predicts probabilities: one that learned those of another model."""

    inner: Predictor

    def predict(self, features: Any) -> Any:
        """Probabilities [rows]."""
        odds = np.asarray(self.inner.predict(features), np.float64)
        return 0.5 * (1 + np.tanh(odds / 2))


@dataclass(frozen=True)
class Published:
    """A model's description (what training published beside it), by path, and the stages that it was learned behind, in their order."""

    path: str
    description: Mapping[str, Any]
    steps: Sequence[Step]
    learner: type[Learns]
    """The stage that learned it."""

    @property
    def model(self) -> str:
        """The path of the model itself."""
        return beside(parent(self.path), str(self.description["model"]))

    @property
    def types(self) -> dict[str, pl.DataType]:
        """The features among a frame's columns with the types that they had in training, in order."""
        return {name: _dtype(self.path, text) for name, text in self.description["types"].items()}

    @property
    def predicts(self) -> dict[str, pl.DataType]:
        """The columns with predictions, as training gives them."""
        return {name: _dtype(self.path, text) for name, text in self.description["predicts"].items()}

    @property
    def precision(self) -> pl.DataType:
        """The type of the features' matrix."""
        return _dtype(self.path, self.description["precision"])

    @property
    def unfolded(self) -> dict[str, Unfolded]:
        """The features that are several columns of the matrix each."""
        return unfolded_of(self.description)

    def content(self) -> bytes:
        """The bytes of the model itself."""
        with open_file(self.model) as file:
            found: bytes = file.read()
        return found

    def restored(self, content: bytes | None = None) -> bytes:
        """The bytes of the model, or those given for it, as the stage that learned it reads them."""
        content = self.content() if content is None else content
        if types := self.description.get("quantized"):
            content = restored(content, self.learner.suffix, types)
        if shapes := self.description.get("thinned"):
            content = filled(content, shapes)
        return content

    def asked(self, columns: Sequence[str]) -> Published:
        """The model as a table with these columns asks it."""
        return replace(self, description=self.learner.asked(self.description, columns))

    def predictor(self, backend: Backend, content: bytes | None = None) -> Predictor | Answerer:
        """The model, ready to predict; of the bytes of its file where they are given."""
        made = self.learner.predictor(self.description, self.restored(content), backend)
        return Linked(made) if self.description.get("link") == LOGISTIC and not isinstance(made, Answerer) else made


def read_published(path: str, stage_class: Callable[[str], type[Stage]]) -> Published:
    """The model that a file describes, where a link such as `current` points now.

    Raises InputError for a file that is not there or describes no model, and where a stage before the model has changed since.
    """
    path = local_path(path)
    path = path if is_url(path) else realpath(path)
    if not exists(path):
        raise InputError(f"{path}: no such file. Give the JSON file of a published model: results/JOB/current/models/NAME.json")
    try:
        with open_file(path) as file:
            description = json.load(file)
    except ValueError as error:
        raise InputError(f"{path}: this is no description of a model ({error}). Give models/NAME.json of a run.") from error
    if not isinstance(description, dict) or (lacking := [name for name in NEEDED if name not in description]):
        said = f" (it does not say: {', '.join(lacking)})" if isinstance(description, dict) else ""
        raise InputError(f"{path}: this describes no model that can score{said}. Give models/NAME.json of a run, or train it again.")
    columns = [f"prediction_{name}" for name in description.get("classes", ())] or ["prediction"]
    earlier = {"use": "xgboost", "precision": "Float32", "predicts": dict.fromkeys(columns, "Float32")}  # before there were other models
    description = {**earlier, **description}
    steps = [_step(path, told, stage_class) for told in description["fitted"]]
    found = Published(path, description, steps, _learner(path, str(description["use"]), stage_class))
    if not exists(found.model):
        raise InputError(f"{found.model}: no such file. A model is two files, which stay together: this one and {path}")
    return found


def _learner(path: str, name: str, stage_class: Callable[[str], type[Stage]]) -> type[Learns]:
    """The stage that learned the model."""
    try:
        found = stage_class(name)
    except JobError as error:
        raise InputError(f"{path}: the model was learned by {name!r}, which cannot be had here: {error}") from error
    if not issubclass(found, Learns):
        raise InputError(f"{path}: it says that {name!r} learned the model, a stage that learns none. Give models/NAME.json of a run.")
    return found


def _step(path: str, told: Mapping[str, Any], stage_class: Callable[[str], type[Stage]]) -> Step:
    """A stage with its parameters and what it had learned."""
    what = f"{path}: the model was learned behind the stage {told['stage']!r} ({told['use']})"
    try:
        made = stage_class(told["use"]).model_validate({**told["parameters"], "fit_where": None})
    except (JobError, ValidationError) as error:
        raise InputError(f"{what}, which cannot be had here: {error}") from error
    if not isinstance(made, FittedRows) or made.version != told["version"]:
        raise InputError(
            f"{what}, which gives other answers since (version {told['version']} then, {made.version} now). Train the model again."
        )
    columns = [_column(path, name, told["state"][name], text) for name, text in told["types"].items()]
    return Step(str(told["stage"]), made, pl.DataFrame(columns))


def _column(path: str, name: str, values: Sequence[Any], text: str) -> pl.Series:
    """A column of a state: times stand there as the whole numbers that they are, decimals as text."""
    dtype = _dtype(path, text)
    if dtype.is_temporal():
        return pl.Series(name, values, pl.Int64).cast(dtype)
    return pl.Series(name, values, pl.String).cast(dtype) if dtype.is_decimal() else pl.Series(name, values, dtype)


def _dtype(path: str, text: str) -> pl.DataType:
    found = dtype_of_text(text)
    if found is None:
        raise InputError(f"{path}: a column of type {text} cannot be read back. Train the model without it.")
    return found
