"""The parameters of a model, found by trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from pipeline.errors import StageError, under
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.models._trials import Better, Goal, Trial, Trials, best_of, trials_schema, trials_table
from pipeline.stages.models._trials_model import Model, with_values
from pipeline.stages.models._trials_space import MOST, Range, Space, Values, drawn, grid, space_of
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

TRIALS = 30  # where a search at random does not say how many


class Search(Whole, name="search", version=1):
    """Try parameters of a model, take those with the best metric, and train it with them: what comes out is that stage's own.

    `model` is any stage that learns a target, with its parameters; `parameters` are those to try, each a list of values or a range.
    grid tries every combination, random draws `trials` of them, each once. Every trial is a task that trains the model on the rows,
    which are made once, and is compared by its metric on the rows of split `on`; of equal ones the first is taken. Gives the
    tables and the files of the model with the best parameters, as if it had stood here with them, and NAME.trials: a row a trial.
    The trials do not depend on how many run at once; a trial has fewer threads than the last training, whose metrics may differ in
    their last digits. Choose by `validation` rows: those that have chosen a model can no longer test it.

    Example: {use: search, from: features, as: tuned, metric: auc, trials: 30,
    model: {use: xgboost, key: loan_id, target: label, objective: binary, early_stopping_rounds: 20},
    parameters: {max_depth: {from: 3, to: 10}, learning_rate: {from: 0.01, to: 0.3, scale: log}, subsample: [0.6, 0.8, 1.0]}}
    """

    counts: ClassVar[Mapping[str, Count]] = {"trials": Count("trials")}

    model: Model = Field(description="The stage that learns, with its parameters: {use: NAME, target: ..., ...}.")
    parameters: dict[str, Range | tuple[Any, ...]] = Field(
        min_length=1, description="Parameters of the model to try: a list of values, or {from, to, scale, steps}."
    )
    method: Literal["grid", "random"] = Field("random", description="How the values of a trial are chosen.")
    trials: int | None = Field(None, ge=1, le=MOST, description=f"How many trials; a grid has its own number, random {TRIALS} by default.")
    metric: str = Field(
        min_length=1, description="What is compared: auc, log_loss, accuracy, rmse, r2, or another that the model measures."
    )
    better: Better | None = Field(None, description="Which value of the metric is better; known of those five.")
    on: Literal["train", "validation", "test"] = Field("validation", description="The split whose rows a trial is compared on.")
    seed: int | None = Field(None, ge=0, description="Another seed, other trials at random; the job's seed where it is not given.")

    def plan(self, schemas: Mapping[str, Schema], context: Context) -> dict[str, Schema]:
        """What `outputs` says, of trials all of which the model takes."""
        given = self.outputs(schemas)
        for values in self._candidates(self._space(), context.seed):
            with under("parameters"):
                with_values(self.model, values)
        return given

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The model's own tables, and the trials.

        Raises StageError where the model does not fit the rows (under `model`), or where parameters cannot be tried.
        """
        Goal.of(self.model, self.metric, self.on, self.better)
        with under("model"):
            given = self.model.outputs(schemas)
        if "trials" in given:
            raise StageError(f"{self.model.name} gives a table `trials` itself", key="model.use")
        space = self._space()
        for axis in space:
            for value in axis.ends:
                try:
                    made = with_values(self.model, {axis.name: value}).outputs(schemas)
                except StageError as error:
                    raise StageError(f"{value!r} does not fit: {error.text}", key=f"parameters.{axis.name}") from error
                if made != given:
                    raise StageError(f"{value!r} changes the columns that the model gives", key=f"parameters.{axis.name}")
        return {**given, "trials": Schema(trials_schema(space, rungs=False))}

    def prepare(self, *, lean: bool = False) -> None:
        """What the model prepares."""
        self.model.prepare(lean=lean)

    def explained(self, schemas: Mapping[str, Schema]) -> str:
        """How many trials there will be."""
        count = len(self._candidates(self._space(), 0))
        return f"{count:,} trials of {self.model.name} by {self.method}, compared by {self.metric} on {self.on} rows"

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The trials, which are waited for; then the model's own run, with the best parameters."""
        rows, space = tables["rows"].named(context.name).hold(), self._space()
        goal = Goal.of(self.model, self.metric, self.on, self.better)
        asked = [Trial(number, values) for number, values in enumerate(self._candidates(space, context.seed), start=1)]
        trials = Trials(self.model, goal, rows, context).measured(asked)
        best = best_of(trials, goal)
        outcome = with_values(self.model, best.values).run({"rows": rows}, context)
        table = trials_table(trials, goal, trials_schema(space, rungs=False))
        found = {"trials": len(trials), "best_trial": best.number, "on": goal.on, "metric": goal.metric, "value": best.value, **best.values}
        submit = context.session.submit
        return replace(
            outcome,
            tables={**outcome.tables, "trials": Table.of(context.session, context.name, [Part(table)])},
            metrics=submit(_and, outcome.metrics, {"search": found}, stage=context.name),
            counts=submit(_and, outcome.counts, {"trials": len(trials)}, stage=context.name),
        )

    def _space(self) -> Space:
        return space_of(self.model, self.parameters)

    def _candidates(self, space: Space, seed: int) -> list[Values]:
        """The parameters of every trial."""
        if self.method == "grid":
            if self.trials is not None:
                raise StageError("a grid tries every combination. Leave `trials` out, or use method: random.", key="trials")
            return grid(space)
        return drawn(space, self.trials or TRIALS, seed if self.seed is None else self.seed)


def _and(found: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """What the model gave, with what the search adds."""
    return {**(found or {}), **more}
