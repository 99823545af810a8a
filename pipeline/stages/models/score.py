"""Predictions for new rows by a published model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, Context, Outcome
from pipeline.stages.models._of_model import OfModel, predicted_columns
from pipeline.stages.models._predictor import Answerer, Predictor
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table


class Score(OfModel, name="score", version=1):
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

    counts: ClassVar[Mapping[str, Count]] = {
        "rows_scored": Count("rows scored"),
        "unknown_users": Count("rows of a user whom training did not have", aside=True),
        "unknown_items": Count("rows of an item that training did not have", aside=True),
    }

    keep: tuple[ColumnName, ...] | None = Field(None, description="Columns of the rows to keep; the model's key by default.")

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns of the rows that stay."""
        return (str(self._published.description["key"]),) if self.keep is None else self.keep

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The kept columns and the predictions.

        Raises StageError where a column of training is missing or of another type; PlaceError where
        what the model needs is not installed.
        """
        published = self._published.asked(self.check_rows(schemas["rows"]).columns.names())
        columns = {name: schemas["rows"].columns[name] for name in self.kept}
        if taken := [name for name in published.predicts if name in columns]:
            raise StageError(f"column {taken[0]!r} has the name of a column of the predictions. Rename it before.", key="keep")
        return {"": Schema(pl.Schema({**columns, **published.predicts}))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One map of queries for what was learned before the model, and one of tasks that predict."""
        rows, session = tables["rows"].named(context.name), context.session
        prepared, axes = self.prepared(rows)
        predictor = session.submit(self._published.predictor, session.backend, stage=context.name)
        return Outcome({"": replace(prepared.map_parts(self._scored, predictor, *axes), axes={})})

    def answer(self, rows: pl.DataFrame, predictor: Predictor | Answerer) -> pl.DataFrame:
        """What the stage gives for rows in memory that `outputs` has checked, by what `published` predicts with."""
        return self._scored(Part(self.as_learned(rows.lazy()).collect()), predictor).frame

    def _scored(self, part: Part, predictor: Predictor | Answerer, *axes: Part) -> Part:
        """The predictions of one part. Raises DataError for what training did not have."""
        kept, count = self.kept_of(part), {"rows_scored": part.frame.height}
        if isinstance(predictor, Answerer):
            answered = predictor.answered(part, kept)
            return replace(answered, counts={**answered.counts, **count})
        made = predicted_columns(self._published.predicts, predictor.predict(self.matrix(part, axes)))
        return Part(kept.hstack(made) if kept.width else pl.DataFrame(made), counts=count)
