"""A model trained again where a rule says so, and taken where it is better than the one that is in use."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import polars as pl
from pydantic import Field, PrivateAttr

from pipeline.errors import DataError, StageError, under
from pipeline.sql.expression import Sql, check_filter
from pipeline.stage import Context, Outcome, Stage, Whole, need_columns
from pipeline.stages.models._measures import Metrics, measured
from pipeline.stages.models._published import Published, read_published
from pipeline.stages.models._search.model import Model
from pipeline.stages.models._search.trials import Better, Goal
from pipeline.stages.models._training_rows import Labels
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

CHAMPION, CHALLENGER = "champion", "challenger"
COMPARED = pl.Schema({"model": pl.String, "split": pl.String, "metric": pl.String, "value": pl.Float64})


class Retrain(Whole, name="retrain", version=1):
    """Train `model` on `rows` where some row of `signs` fulfils `when`, and take it where it is better than the champion.

    The champion is a published model, whose predictions of the same rows, made by `score`, are `predictions`: both models are measured on
    the rows of split `on` that have a target, and the new one is better where its metric is, by `gain` at least. What comes out is the
    better one's: predictions (key, split, target, prediction) and the model's files, the champion's where nothing was trained or it stays.
    NAME.comparison has the metrics of both. The run becomes current like any other; `python -m pipeline.models RESULTS --promote current`
    makes its model the champion.

    Example: {use: retrain, from: {rows: features, predictions: scores, signs: moved}, as: lateness, when: psi > 0.25, metric: auc,
    champion: results/loans/champion/models/lateness.json, model: {use: xgboost, key: loan_id, target: label, objective: binary}}
    """

    roles = ("rows", "predictions", "signs")
    counts: ClassVar[Mapping[str, Count]] = {"signs_met": Count("signs that training is due"), "trained": Count("models trained")}

    champion: str = Field(min_length=1, description="The JSON file of the published model that is in use.")
    when: Sql = Field(min_length=1, description="SQL condition on the columns of signs; train where it is true of some row.")
    model: Model = Field(description="The stage that learns, with its parameters: {use: NAME, target: ..., ...}.")
    metric: str = Field(min_length=1, description="What is compared: auc, log_loss, accuracy, rmse, r2, or another measure of the model.")
    better: Better | None = Field(None, description="Which value of the metric is better; known of those five.")
    on: Literal["train", "validation", "test"] = Field("test", description="The split whose rows both are compared on.")
    gain: float = Field(0.0, ge=0, description="By how much the metric must be better than the champion's.")

    _published: Published = PrivateAttr()

    def opened(self, stage_class: Callable[[str], type[Stage]]) -> Self:
        """The stage with the champion's description read."""
        with under("champion"):
            found = read_published(self.champion, stage_class)
        made = self.model_copy()
        made._published = found
        return made

    def files(self) -> Sequence[str]:
        """The champion's two files."""
        return (self._published.path, self._published.model)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The predictions of the better model, and the metrics of both.

        Raises StageError where the model does not fit the rows, the champion predicts something else, or the condition does not fit.
        """
        Goal.of(self.model, self.metric, self.on, self.better)
        with under("model"):
            planned = self.model.outputs({"rows": schemas["rows"]})
        with under("when"):
            check_filter(self.when, schemas["signs"].columns)
        told = self._published.description
        for name in ("target", "objective"):
            if (before := told.get(name)) != (now := getattr(self.model, name)):
                raise StageError(
                    f"the champion's {name} is {before!r}, and the model's is {now!r}. Compare models of one kind.", key="model"
                )
        made = schemas["predictions"]
        need_columns(made, [self.model.key, *self.model.prediction_columns], "predictions", key="from")
        if made.columns[self.model.key] != schemas["rows"].columns[self.model.key]:
            raise StageError(f"the key {self.model.key!r} has one type in rows and another in predictions. Cast it.", key="from")
        return {"": planned[""], "comparison": Schema(COMPARED)}

    def prepare(self, *, lean: bool = False) -> None:
        """What the model prepares."""
        self.model.prepare(lean=lean)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The signs, which are waited for; training where they say so; and the better model's predictions and files."""
        rows, scores, signs = (tables[role].named(context.name) for role in self.roles)
        submit, name = context.session.submit, context.name
        met = _waited(context, signs.reduce(_met, sum, self.when))
        rows = rows.hold() if met else rows
        known = rows.map(self._known).value()
        before = submit(self._joined, known, scores.map(self._scored).value(), stage=name)
        tested, trained = {CHAMPION: submit(self._measured, known, before, stage=name)}, Outcome({})
        if met:
            trained = self.model.run({"rows": rows}, context)
            tested[CHALLENGER] = submit(self._measured, known, trained.tables[""].value(), stage=name)
        metrics = {model: _waited(context, found) for model, found in tested.items()}
        values = {model: self._goal.value(found) for model, found in metrics.items()}
        taken = self._better(values)
        table = trained.tables[""] if taken == CHALLENGER else Table.of(context.session, name, [before])
        found = {"taken": taken, "signs_met": met, "on": self.on, "metric": self.metric, **values}
        files = trained.files
        if taken == CHAMPION:
            files = {file: submit(_same, value, stage=name) for file, value in self._kept(name).items()}
        return Outcome(
            {"": table, "comparison": Table.of(context.session, name, [Part(_compared(metrics))])},
            files,
            submit(_same, {**metrics[taken], "retrain": found}, stage=name),
            submit(_same, {"signs_met": met, "trained": int(met > 0)}, stage=name),
            trained.warnings,
        )

    @property
    def _goal(self) -> Goal:
        return Goal.of(self.model, self.metric, self.on, self.better)

    def _known(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """What the models are measured by: key, split and target, and weights where there are some."""
        weight = getattr(self.model, "weight", None)
        return rows.select(*dict.fromkeys([*self.model.row_columns, *([weight] if weight else [])]))

    def _scored(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.select(self.model.key, *self.model.prediction_columns)

    def _joined(self, known: Part, scores: Part) -> Part:
        """The champion's predictions as the model gives its own. Raises DataError for a row that has none, or two."""
        key, columns = self.model.key, self.model.prediction_columns
        if scores.frame[key].n_unique() < scores.frame.height:
            raise DataError(f"predictions have a row with the {key!r} of another one. Score each row once.", key="from")
        rows = known.frame.select(self.model.row_columns).sort(key)
        found = rows.join(scores.frame.with_columns(pl.col(columns).cast(pl.Float32)), on=key, how="left", maintain_order="left")
        if lacking := found.filter(pl.any_horizontal(pl.col(columns).is_null()))[key].to_list():
            raise DataError(f"the champion has not predicted the row with {key!r} {lacking[0]!r}. Give score all of the rows.", key="from")
        return Part(found)

    def _measured(self, known: Part, predicted: Part) -> Metrics:
        """The metrics of predictions, rows weighed as in training."""
        weight = getattr(self.model, "weight", None)
        frame = predicted.frame
        if weight:
            frame = frame.join(known.frame.select(self.model.key, weight), on=self.model.key, how="left", maintain_order="left")
        matrix = frame.select(self.model.prediction_columns).to_numpy()
        weights = frame[weight].cast(pl.Float64).to_numpy() if weight else None
        return measured(self.model, Labels.of(self.model, frame), matrix if self.model.classes else matrix[:, 0], weights)

    def _better(self, values: Mapping[str, float | None]) -> str:
        """Which of both is taken; a value that a model cannot have is the worse one."""
        if CHALLENGER not in values:
            return CHAMPION
        now, before = (self._goal.key(values[one]) for one in (CHALLENGER, CHAMPION))
        return CHALLENGER if now < before and before - now >= self.gain else CHAMPION

    def _kept(self, name: str) -> dict[str, Any]:
        """The champion's files under this stage's name."""
        model = f"{name}.{self._published.learner.suffix}"
        text = {**self._published.description, "model": model, "kept_from": self._published.path}
        return {model: self._published.content(), f"{name}.json": (json.dumps(text, indent=1) + "\n").encode()}


def _same(value: Any) -> Any:
    """What a run waits for is a task's result."""
    return value


def _waited(context: Context, result: Any) -> Any:
    """The value of one result."""
    return next(value for _, value in context.session.values([result]))


def _met(part: Part, when: str) -> int:
    """Rows for which a condition is true."""
    return part.frame.lazy().filter(check_filter(when, part.frame.schema)).collect().height


def _compared(metrics: Mapping[str, Metrics]) -> pl.DataFrame:
    rows = [
        (model, split, metric, value)
        for model, splits in metrics.items()
        for split, found in splits.items()
        for metric, value in found.items()
    ]
    return pl.DataFrame(rows, COMPARED, orient="row")
