"""A published model for other programs: written as ONNX or for Treelite, and compared with our own predictions before it counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError
from pipeline.stage import Context, Outcome, Stage
from pipeline.stages.models._exported.graph import OnnxPredictor, need_exchange, onnx_file
from pipeline.stages.models._exported.treelite import TreelitePredictor
from pipeline.stages.models._of_model import OfModel
from pipeline.stages.models._predictor import Learns, Predictor
from pipeline.stages.models._published import LOGISTIC, PACKED
from pipeline.stages.models._unfolded.text import Ngrams
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.table import Table

COMPARED = pl.Schema({"column": pl.String, "rows": pl.Int64, "largest_difference": pl.Float64, "mean_difference": pl.Float64})


class Export(OfModel, Learns, name="export", version=1):
    """Write a published model for programs that are not ours: models/NAME.onnx or NAME.treelite, with models/NAME.json beside it.

    `onnx` takes `features`, 32-bit numbers [rows, features] in the order that NAME.json says (64-bit where the model has such; an image's
    pixels one by one), NaN where missing, and gives [rows] for every column of predictions, under its name. `treelite`, of xgboost models,
    is what Treelite's library and the forests of RAPIDS on GPUs read. What stages before the model learned is in NAME.json, not in the
    file: it takes rows behind them. The rows given are predicted by both, ours and the format's own library (onnxruntime, Treelite); where
    a prediction differs by more than `tolerance` (of 1, or of our prediction where that is larger), nothing is published. Gives rows,
    largest and mean difference of every column of predictions. `score` predicts by NAME.json, through that library.

    Example:
        {use: export, from: loans, as: lateness, model: results/loans/current/models/lateness.json, format: onnx}
    """

    suffix = "onnx"
    counts: ClassVar[Mapping[str, Count]] = {"rows_compared": Count("rows compared")}

    format: Literal["onnx", "treelite"] = Field("onnx", description="What the model is written as.")
    tolerance: float = Field(1e-5, gt=0, le=0.01, description="How far a prediction may be from ours, in units or as a share of ours.")

    def opened(self, stage_class: Callable[[str], type[Stage]]) -> Self:
        """The stage with the model's description read. Raises StageError for a model that has no such form."""
        made = super().opened(stage_class)
        learner = made._published.learner
        if self.format not in learner.exports:
            said = (
                "was exported already" if learner is Export else f"was learned by {learner.name}, which has no form in {self.format} here"
            )
            raise StageError(f"the model {said}. Give one that another stage learned (xgboost, say).", key="model")
        if texts := [name for name, one in made._published.unfolded.items() if isinstance(one, Ngrams)]:
            text = f"the model hashes the words of {texts[0]!r} itself, for which ONNX has no words. Use score, or serve it"
            raise StageError(f"{text}; or train one without texts.", key="model")
        return made

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """How far the columns of predictions differ.

        Raises StageError where a column of training is missing or of another type; PlaceError where a library is not installed.
        """
        need_exchange()
        self.check_rows(schemas["rows"])
        return {"": Schema(COMPARED)}

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, _backend: Backend) -> Predictor:
        """The file in the library of its format."""
        return _reader(str(description["format"]))(content)

    @classmethod
    def need(cls) -> None:
        """ONNX, its runtime and Treelite."""
        need_exchange()

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A task that writes the file, one a part that predicts by both, and those of what is published, which wait for the comparison."""
        session, name = context.session, context.name
        prepared, axes = self.prepared(tables["rows"].named(name))
        content = session.submit(self._written, name, stage=name)
        ours = session.submit(self._published.predictor, session.backend, stage=name)
        theirs = session.submit(_reader(self.format), content, stage=name)
        parts = prepared.map_parts(self._compared, ours, theirs, *axes).futures()
        compared = session.submit(self._judged, *parts, stage=name)
        files = {
            f"{name}.{self.format}": session.submit(_first, content, compared, stage=name),
            f"{name}.json": session.submit(self._described, name, compared, stage=name),
        }
        return Outcome({"": Table.of(session, name, [compared])}, files, session.submit(_metrics, compared, stage=name))

    def _description(self, name: str) -> dict[str, Any]:
        """What NAME.json says: all that the model's own does, and what it was written as."""
        in_the_graph = ("link", *PACKED)
        told = {name: value for name, value in self._published.description.items() if name not in in_the_graph}
        made = {"use": self.name, "model": f"{name}.{self.format}", "format": self.format}
        return {**told, **made, "exported": {"use": told["use"], "model": told["model"]}}

    def _written(self, name: str) -> bytes:
        """The file."""
        published, logistic = self._published, self._published.description.get("link") == LOGISTIC
        if self.format == "treelite":
            return published.learner.forest(published.restored(), logistic=logistic)
        graph = published.learner.graph(published.description, published.restored())
        return onnx_file(graph.logistic() if logistic else graph, self._description(name))

    def _compared(self, part: Part, ours: Predictor, theirs: Predictor, *axes: Part) -> Part:
        """How far the predictions of a part's rows differ, column by column."""
        features, columns = self.matrix(part, axes), list(self._published.predicts)
        one, other = (np.asarray(of.predict(features), np.float64).reshape(part.frame.height, len(columns)) for of in (ours, theirs))
        apart = np.abs(one - other) / np.maximum(1, np.abs(one))
        apart[np.isnan(one) & np.isnan(other) | (one == other)] = 0
        rows = {"column": columns, "rows": [part.frame.height] * len(columns)}
        largest, total = apart.max(axis=0, initial=0), apart.sum(axis=0)
        frame = pl.DataFrame({**rows, "largest_difference": largest, "mean_difference": total}, schema=COMPARED)
        return Part(frame, counts={"rows_compared": part.frame.height})

    def _judged(self, *parts: Part) -> Part:
        """The differences over all parts. Raises DataError where one is too large, and where there was no row."""
        sums = (pl.col("rows").sum(), pl.col("largest_difference").nan_max(), pl.col("mean_difference").sum() / pl.col("rows").sum())
        whole = concat_parts(parts)
        frame = whole.frame.group_by("column", maintain_order=True).agg(sums).select(COMPARED.names())
        if not frame["rows"][0]:
            raise DataError("there is no row to compare predictions of: give some, of those that the model was trained on or others")
        worst = frame.row(int(frame["largest_difference"].fill_nan(np.inf).arg_max() or 0), named=True)
        if not worst["largest_difference"] <= self.tolerance:
            raise DataError(
                f"{worst['column']!r} of the {self.format} file differs from ours by up to {worst['largest_difference']:.2g}, more than "
                f"{self.tolerance:g}, and so it is not published. Allow more, or keep to score.",
                key="tolerance",
            )
        return whole.replaced(frame)

    def _described(self, name: str, compared: Part) -> bytes:
        """The file beside it."""
        about = {**self._description(name), "compared": _metrics(compared)}
        return (json.dumps(about, indent=1, default=str) + "\n").encode()


def _reader(form: str) -> Callable[[bytes], Predictor]:
    """What makes a predictor of a file."""
    return TreelitePredictor if form == "treelite" else OnnxPredictor


def _first(content: bytes, _compared: Part) -> bytes:
    """The file, once it was compared."""
    return content


def _metrics(compared: Part) -> dict[str, float]:
    """The rows compared and the largest difference of all columns."""
    return {"rows": int(compared.frame["rows"][0]), "largest_difference": float(compared.frame["largest_difference"].to_numpy().max())}
