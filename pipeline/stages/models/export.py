"""A published model for other programs: written as ONNX, and compared with our own predictions before it counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError
from pipeline.stage import Context, Outcome, Stage
from pipeline.stages.models._of_model import OfModel
from pipeline.stages.models._onnx import OnnxPredictor, need_onnx, onnx_file
from pipeline.stages.models._predictor import Learns, Predictor
from pipeline.stages.models._published import LOGISTIC, PACKED
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.table import Table

COMPARED = pl.Schema({"column": pl.String, "rows": pl.Int64, "largest_difference": pl.Float64, "mean_difference": pl.Float64})


class Export(OfModel, Learns, name="export", version=1):
    """Write a published model as ONNX, for programs that are not ours: models/NAME.onnx, with models/NAME.json beside it.

    The file takes `features`, 32-bit numbers [rows, features] in the order that NAME.json says (64-bit where the model has such), NaN
    where missing, and gives [rows] for every column of predictions, under its name. What stages before the model learned is in NAME.json,
    not in the file: it takes rows behind them. The rows given are predicted by both, ours and onnxruntime's; where a prediction differs by
    more than `tolerance` (of 1, or of our prediction where that is larger), nothing is published. Gives rows, largest and mean difference
    of every column of predictions. `score` predicts by NAME.json, through onnxruntime.

    Example:
        {use: export, from: loans, as: lateness, model: results/loans/current/models/lateness.json, format: onnx}
    """

    suffix = "onnx"
    counts: ClassVar[Mapping[str, Count]] = {"rows_compared": Count("rows compared")}

    format: Literal["onnx"] = Field("onnx", description="What the model is written as.")
    tolerance: float = Field(1e-5, gt=0, le=0.01, description="How far a prediction may be from ours, in units or as a share of ours.")

    def opened(self, stage_class: Callable[[str], type[Stage]]) -> Self:
        """The stage with the model's description read. Raises StageError for a model of a stage that has no form in ONNX."""
        made = super().opened(stage_class)
        learner = made._published.learner
        if not learner.exports:
            said = "is ONNX already" if learner is Export else f"was learned by {learner.name}, which has no form in ONNX here"
            raise StageError(f"the model {said}. Give one that another stage learned (xgboost, say).", key="model")
        return made

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """How far the columns of predictions differ.

        Raises StageError where a column of training is missing or of another type; PlaceError where a library is not installed.
        """
        need_onnx()
        self.check_rows(schemas["rows"])
        return {"": Schema(COMPARED)}

    @classmethod
    def predictor(cls, _description: Mapping[str, Any], content: bytes, _backend: Backend) -> Predictor:
        """The ONNX file in onnxruntime."""
        return OnnxPredictor(content)

    @classmethod
    def need(cls) -> None:
        """ONNX and its runtime."""
        need_onnx()

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A task that writes the file, one a part that predicts by both, and those of what is published, which wait for the comparison."""
        session, name = context.session, context.name
        prepared, axes = self.prepared(tables["rows"].named(name))
        content = session.submit(self._written, name, stage=name)
        ours = session.submit(self._published.predictor, session.backend, stage=name)
        theirs = session.submit(OnnxPredictor, content, stage=name)
        parts = prepared.map_parts(self._compared, ours, theirs, *axes).futures()
        compared = session.submit(self._judged, *parts, stage=name)
        files = {
            f"{name}.onnx": session.submit(_first, content, compared, stage=name),
            f"{name}.json": session.submit(self._described, name, compared, stage=name),
        }
        return Outcome({"": Table.of(session, name, [compared])}, files, session.submit(_metrics, compared, stage=name))

    def _description(self, name: str) -> dict[str, Any]:
        """What NAME.json says: all that the model's own does, and that it is ONNX."""
        in_the_graph = ("link", *PACKED)
        told = {name: value for name, value in self._published.description.items() if name not in in_the_graph}
        return {**told, "use": self.name, "model": f"{name}.{self.suffix}", "exported": {"use": told["use"], "model": told["model"]}}

    def _written(self, name: str) -> bytes:
        """The ONNX file."""
        graph = self._published.learner.graph(self._published.description, self._published.restored())
        if self._published.description.get("link") == LOGISTIC:
            graph = graph.logistic()
        return onnx_file(graph, self._description(name))

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
                f"{worst['column']!r} of the ONNX file differs from ours by up to {worst['largest_difference']:.2g}, more than "
                f"{self.tolerance:g}, and so it is not published. Allow more, or keep to score.",
                key="tolerance",
            )
        return replace(whole, frame=frame)

    def _described(self, name: str, compared: Part) -> bytes:
        """The file beside the ONNX file."""
        about = {**self._description(name), "compared": _metrics(compared)}
        return (json.dumps(about, indent=1, default=str) + "\n").encode()


def _first(content: bytes, _compared: Part) -> bytes:
    """The file, once it was compared."""
    return content


def _metrics(compared: Part) -> dict[str, float]:
    """The rows compared and the largest difference of all columns."""
    return {"rows": int(compared.frame["rows"][0]), "largest_difference": float(compared.frame["largest_difference"].to_numpy().max())}
