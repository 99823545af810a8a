"""Predictions for new rows by a published model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import polars as pl
from pydantic import Field, PrivateAttr

from pipeline.errors import DataError, StageError, near, under
from pipeline.stage import ColumnName, Context, Outcome, Stage, Whole, need_columns
from pipeline.stages.models._predictor import Answerer, Predictor, check_finite, feature_matrix
from pipeline.stages.models._published import Published, read_published
from pipeline.tables.columns import AXES, AXIS_IDS
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table


class Score(Whole, name="score", version=1):
    """Predict rows that were not there when a model was trained, by the model as it was published: what training gives for the same rows.

    The stages before the model that learned from the data (fill_missing, standardize, categorify) are repeated with what they learned then:
    give the rows as they were before the first of them. Other stages are the job's own. `fitted` names those to repeat where some are done
    already (`[]`: none). Columns that are not those of training, and their types, are refused; so is a code that training never saw.
    Gives the columns `keep`, and `prediction`, or what columns of predictions training gave (one prediction_CLASS a class).
    A model of matrix_factorization takes a table of users, and gives a row per item of their lists, or one of users and items, and gives
    their scores; who or what training did not have gets null and is counted.

    Example:
        {use: score, from: new_loans, as: scored, model: results/loans/current/models/lateness.json}
    """

    roles = ("rows",)
    counts: ClassVar[Mapping[str, Count]] = {
        "rows_scored": Count("rows scored"),
        "unknown_users": Count("rows of a user whom training did not have", aside=True),
        "unknown_items": Count("rows of an item that training did not have", aside=True),
    }

    model: str = Field(min_length=1, description="The JSON file of a published model; the model itself lies beside it.")
    fitted: tuple[str, ...] | None = Field(None, description="Stages before the model to repeat, by their names; all by default.")
    keep: tuple[ColumnName, ...] | None = Field(None, description="Columns of the rows to keep; the model's key by default.")

    _published: Published = PrivateAttr()

    def opened(self, stage_class: Callable[[str], type[Stage]]) -> Self:
        """The stage with the model's description read."""
        with under("model"):
            found = read_published(self.model, stage_class)
        made = self.model_copy()
        made._published = replace(found, steps=[step for step in found.steps if self.fitted is None or step.name in self.fitted])
        named = [step.name for step in found.steps]
        for name in self.fitted or ():
            if name not in named:
                raise StageError(f"the model was learned behind no stage {name!r}.{near(name, named)}", key="fitted")
        return made

    def files(self) -> Sequence[str]:
        """The model's two files."""
        return (self._published.path, self._published.model)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns of the rows that stay."""
        return (str(self._published.description["key"]),) if self.keep is None else self.keep

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The kept columns and the predictions.

        Raises StageError where a column of training is missing or of another type; PlaceError where
        what the model needs is not installed.
        """
        self._published.learner.need()
        schema = schemas["rows"]
        need_columns(schema, self.kept, key="keep")
        for step in self._published.steps:
            try:
                step.stage.check_input("rows", schema)
            except StageError as error:
                raise StageError(f"{step.name!r}, which the model was learned behind: {error.text}", key="from") from error
            schema = replace(schema, columns=step.apply(schema.columns.to_frame().lazy()).collect_schema())
        published = self._published.asked(schema.columns.names())
        _need_features(published, schema)
        columns = {name: schemas["rows"].columns[name] for name in self.kept}
        if taken := [name for name in published.predicts if name in columns]:
            raise StageError(f"column {taken[0]!r} has the name of a column of the predictions. Rename it before.", key="keep")
        return {"": Schema(pl.Schema({**columns, **published.predicts}))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One map of queries for what was learned before the model, and one of tasks that predict."""
        rows, session = tables["rows"].named(context.name), context.session
        axes = [rows.axes[array].value() for array in self._published.description["arrays"]]
        predictor = session.submit(self._published.predictor, session.backend, stage=context.name)
        scored = rows.map(self._prepared).map_parts(self._scored, predictor, *axes)
        return Outcome({"": replace(scored, axes={})})

    def _prepared(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """What the model takes of the rows, after the stages that learned before it; the kept columns as they were."""
        rows = rows.with_columns(pl.col(name).alias(_kept(name)) for name in self.kept)
        for step in self._published.steps:
            rows = step.apply(rows)
        return rows

    def _scored(self, part: Part, predictor: Predictor | Answerer, *axes: Part) -> Part:
        """The predictions of one part. Raises DataError for what training did not have."""
        kept = part.frame.select(pl.col(_kept(name)).alias(name) for name in self.kept)
        if isinstance(predictor, Answerer):
            answered = predictor.answered(part, kept)
            return replace(answered, counts={**answered.counts, "rows_scored": part.frame.height})
        told, names = self._published.description, list(self._published.types)
        for name, largest in told["codes"].items():
            _need_known(part.frame[name], largest)
        check_finite(names, part.frame, self._published.precision)
        _need_same(
            [*names, *(name for array, axis in zip(told["arrays"], axes, strict=True) for name in _labels(array, axis))], told["features"]
        )
        predicted = predictor.predict(feature_matrix(part, names, told["arrays"], self._published.precision))
        columns = zip(self._published.predicts.items(), np.atleast_2d(predicted.T), strict=True)
        made = [pl.Series(name, np.ascontiguousarray(values)).cast(dtype) for (name, dtype), values in columns]
        return Part(kept.hstack(made), counts={"rows_scored": part.frame.height})


def _need_features(published: Published, schema: Schema) -> None:
    """Raise StageError where the rows, once prepared, are not what the model was trained on."""
    for name, dtype in published.types.items():
        if name not in schema.columns:
            raise StageError(f"the model needs the column {name!r}, as {dtype}.{near(name, schema.columns.names())}", key="from")
        if schema.columns[name] != dtype:
            raise StageError(f"column {name!r} is {schema.columns[name]}, and was {dtype} in training. Cast it.", key="from")
    if lacking := [array for array in published.description["arrays"] if array not in schema.arrays]:
        raise StageError(f"the model needs {lacking[0]} beside the rows, which have none (see genotype_features)", key="from")


def _need_known(codes: pl.Series, largest: int | None) -> None:
    """Raise DataError for a code above those of training."""
    beyond = codes.filter((codes > (-1 if largest is None else largest)) | (codes < 0))
    if len(beyond):
        text = f"{codes.name!r} has the code {beyond[0]}, and training saw none above {largest}. Make it null, or train with such rows."
        raise DataError(text)


def _need_same(found: Sequence[str], trained: Sequence[str]) -> None:
    """Raise DataError where the features, which arrays bring too, are not those of training in their order."""
    if list(found) == list(trained):
        return
    at = next((i for i, (one, other) in enumerate(zip(found, trained, strict=False)) if one != other), min(len(found), len(trained)))
    here, then = (repr(names[at]) if at < len(names) else "none" for names in (found, trained))
    raise DataError(
        f"the model takes {len(trained)} features and {len(found)} are here; number {at + 1} is {here}, and was {then} in training. "
        "Choose the same ones, in the same order."
    )


def _kept(name: str) -> str:
    return f"__kept__{name}"


def _labels(array: str, axis: Part) -> list[str]:
    labels: list[str] = axis.frame[AXIS_IDS[AXES[array]]].to_list()
    return labels
