"""How well a model does on rows that it did not learn from, over all rows, fold by fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError, under
from pipeline.stage import ColumnName, Context, Outcome, need_columns, need_keys
from pipeline.stages._keys import need_hashable
from pipeline.stages.models._search.folds import FOLD, by_group, by_key, by_time, with_fold
from pipeline.stages.models._search.folds_task import FOLDS, SPLIT, FoldTask, together
from pipeline.stages.models._search.model import Alone, AroundModel, shared
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._training_rows import in_32_bits
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema, hidden
from pipeline.tables.table import Table


class CrossValidate(AroundModel, name="cross_validate", version=2):
    """Train a model once a fold on the other folds' rows, and predict the fold: every row is predicted by a model that has not seen it.

    Folds are by a hash of the model's key; by `by`, whose equal rows stay together (a person, a site), in folds of rows as equal as
    can be; or by `time`: its stretches in order, each predicted by what was learned from all before it, the first one never (as
    scikit-learn's TimeSeriesSplit; equal times share a stretch). None depends on the order of rows. A split column of the table is set
    aside: rows of every split take part, so filter those before that are to test the model in the end. Where the model stops
    early, the fold after the one that is predicted is its validation rows; with `time`, the stretch before it.
    Gives the predictions (key, fold, target, and the model's columns), NAME.folds (fold, rows, metric, value) and metrics a fold
    with their mean and standard deviation (n - 1). No model is published. Each fold is a task, on rows that are made once.

    Example: {use: cross_validate, from: features, as: checked, folds: 5,
    model: {use: xgboost, key: loan_id, target: label, objective: binary, rounds: 100}}
    """

    counts: ClassVar[Mapping[str, Count]] = {"rows_predicted": Count("rows predicted")}

    folds: int = Field(5, ge=2, le=1_000, description="How many times the model is trained.")
    by: ColumnName | None = Field(None, description="Column whose equal rows share a fold; the model's key where it is not given.")
    time: ColumnName | None = Field(None, description="Column of the time, for folds of later rows than those learned from.")
    seed: int | None = Field(None, ge=0, description="Another seed, other folds by the key; the job's seed where it is not given.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Predictions and metrics. Raises StageError where the rows cannot be divided so; what the model raises is under `model`."""
        schema = schemas["rows"]
        self._check_folds(schema)
        with under("model"):
            given = self._model.outputs({"rows": self._fold_schema(schema)})[""]
        columns = {name: dtype for name, dtype in given.columns.items() if name != SPLIT}
        if "fold" in columns:
            raise StageError("a column of the predictions would be named 'fold' twice. Rename it before.")
        return {"": Schema(pl.Schema({self.model.key: columns.pop(self.model.key), "fold": pl.Int64(), **columns})), "folds": Schema(FOLDS)}

    def _check_folds(self, schema: Schema) -> None:
        """Raise StageError where the columns that divide the rows do not fit."""
        if self.by and self.time:
            raise StageError("folds are of groups or of times, not of both. Leave out one of `by` and `time`.", key="time")
        if self.time:
            need_columns(schema, [self.time], key="time")
            if not (schema.columns[self.time].is_temporal() or schema.columns[self.time].is_numeric()):
                raise StageError(f"column {self.time!r} is {schema.columns[self.time]}, and no time. Cast it.", key="time")
        elif self.by:
            need_keys(schema, [self.by], key="by")
        else:
            need_hashable(schema, [self.model.key], key="model.key")
        if self.model.early_stopping_rounds and self.folds < 3 and not self.time:
            raise StageError("the model stops early: besides a fold to predict and one to stop by, there is one to learn from", key="folds")

    def explained(self, schemas: Mapping[str, Schema]) -> str:
        """How many folds, and of what."""
        divided = f"in the order of {self.time}" if self.time else f"by {self.by or self.model.key}"
        return f"{self.folds} folds {divided}, each predicted by {self.model.name}"

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The folds of all rows, one task a fold, and one that puts their predictions together."""
        rows, session = tables["rows"].named(context.name), context.session
        assert rows.schema is not None
        columns, first = self._needed(rows.schema), self._stretches - self.folds
        schema = replace(rows.schema, columns=columns)
        features = self._model.feature_columns(self._fold_schema(schema))
        divided = self._divided(rows, context).map(_select, [*columns, FOLD], self._model, features)
        given = shared(replace(divided.hold(), schema=with_fold(schema)), self._model)
        alone = Alone.of(replace(rows, schema=self._fold_schema(schema)), context, self.folds)
        tasks = [self._task(alone, number, first + number - 1) for number in range(1, self.folds + 1)]
        found = [session.submit(task, given.parts, given.axes, given.steps, given.states, stage=context.name) for task in tasks]
        whole = session.submit(together, found, self.model.key, stage=context.name)
        pieces = {
            name: session.submit(attrgetter(name), whole, stage=context.name) for name in ("predictions", "table", "metrics", "counts")
        }
        made = {name: Table.of(session, context.name, [pieces[field]]) for name, field in {"": "predictions", "folds": "table"}.items()}
        return Outcome(made, metrics=pieces["metrics"], counts=pieces["counts"])

    def _task(self, alone: Alone, number: int, fold: int) -> FoldTask:
        """That of one fold: of time, on the rows until then."""
        if not self.time:
            return FoldTask(alone, self._model, number, self._splits(fold))
        return FoldTask(alone, self._model, number, self._splits(fold), pl.col(FOLD) <= fold, number / (self.folds + 1))

    def _divided(self, rows: Table, context: Context) -> Table:
        """The rows with their folds."""
        if self.time:
            return by_time(rows, self.time, self._stretches)
        if self.by:
            return by_group(rows, self.by, self.folds)
        return by_key(rows, self.model.key, self.folds, context.seed if self.seed is None else self.seed)

    @property
    def _stretches(self) -> int:
        """How many pieces the rows are divided into: of time there is one more to learn from, and one to stop by."""
        return self.folds if not self.time else self.folds + (2 if self.model.early_stopping_rounds else 1)

    @property
    def _model(self) -> Supervised:
        """The model, with the split of a fold."""
        return self.model.model_copy(update={"split": SPLIT})

    def _needed(self, schema: Schema) -> pl.Schema:
        """The columns that the model reads, in their order; the split that it is told is made here."""
        needed = {self.model.key, self.model.target, *self.model.aside_columns, *self._model.feature_columns(self._fold_schema(schema))}
        return pl.Schema({name: dtype for name, dtype in schema.columns.items() if name in needed})

    def _fold_schema(self, schema: Schema) -> Schema:
        """The rows as the model gets them."""
        kept = {name: dtype for name, dtype in schema.columns.items() if name != self.model.split}
        return replace(schema, columns=pl.Schema({**kept, SPLIT: pl.String()}))

    def _splits(self, fold: int) -> pl.Expr:
        """What a row is where one fold is predicted: rows to learn from, to stop by, or to predict."""
        at, stops = pl.col(FOLD), bool(self.model.early_stopping_rounds)
        validation = fold - 1 if self.time else (fold + 1) % self.folds
        told = pl.when(at == fold).then(pl.lit("test")).when((at == validation) & stops).then(pl.lit("validation"))
        return told.otherwise(pl.lit("train")).alias(SPLIT)


def _select(rows: pl.LazyFrame, names: Sequence[str], model: Supervised, features: Sequence[str]) -> pl.LazyFrame:
    return in_32_bits(model, features, rows.select(*names, *hidden(rows)))
