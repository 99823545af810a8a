"""The parameters of a model, found by trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from pipeline.errors import Gathered, StageError, under
from pipeline.stage import Context, Outcome
from pipeline.stages.models._search.asha import Asha
from pipeline.stages.models._search.methods import Bayesian, all_at_once, halving, need_optuna, rungs_of
from pipeline.stages.models._search.model import AroundModel, with_values
from pipeline.stages.models._search.space import MOST, Axis, Range, Space, Values, drawn, grid, space_of
from pipeline.stages.models._search.trials import Better, Goal, Trial, Trials, best_of, trials_schema, trials_table
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

TRIALS = 30  # where a search does not say how many
ALL = {"grid", "random", "halving", "asha", "bayesian"}


class Search(AroundModel, name="search", version=1):
    """Try parameters of a model, take those with the best metric, and train it with them: what comes out is that stage's own.

    `model` is any stage that learns a target, with its parameters; `parameters` are those to try, each a list of values or a range
    (`parameters.gamma` is one within a mapping). grid tries every combination, random draws `trials` of them, each once. halving gives
    those few rounds first, and more and more to the best (`factor`), each rung once the one before is whole. asha does not wait for
    that: with `batch` trials at once, one goes on as soon as it is among the best of its rung so far. bayesian draws a batch at a time
    where the trials before were good (Optuna's tree-structured Parzen estimator).
    Every trial is a task that trains the model on the rows, which are made once, and is compared by its metric on the rows of split
    `on`; of equal ones the first is taken. Gives the tables and the files of the model with the best parameters, as if it had stood
    here with them, and NAME.trials: a row a trial, and one for each of its rungs. What was measured stays in the results folder
    (remembered/), and a search that was killed, or is run again with more trials, goes on from there.
    Which trials there are does not depend on the workers, nor on which is the fastest (asha counts rounds, and no seconds, to tell who
    ended); a trial may have fewer threads than the last training, whose metrics may then differ in their last digits. Choose by
    `validation` rows: those that have chosen a model can no longer test it.

    Example: {use: search, from: features, as: tuned, metric: auc, trials: 30,
    model: {use: xgboost, key: loan_id, target: label, objective: binary, early_stopping_rounds: 20},
    parameters: {max_depth: {from: 3, to: 10}, learning_rate: {from: 0.01, to: 0.3, scale: log}, subsample: [0.6, 0.8, 1.0]}}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "trials": Count("trials"),
        "trials_found": Count("trials measured by an earlier run", aside=True),
        "features": Count("features"),
        "trees_used": Count("trees used"),
        "rounds_used": Count("rounds used"),
        "rows_*": Count("rows, *"),
        "external_rows": Count("rows trained from external memory", aside=True),
        "skipped_steps": Count("steps skipped, with gradients beyond float16", aside=True),
        "missing_values": Count("missing values taken as the mean", aside=True),
    }

    parameters: dict[str, Range | tuple[Any, ...]] = Field(
        min_length=1, description="Parameters of the model to try: a list of values, or {from, to, scale, steps}."
    )
    method: Literal["grid", "random", "halving", "asha", "bayesian"] = Field("random", description="How the values of a trial are chosen.")
    trials: int | None = Field(None, ge=1, le=MOST, description=f"How many trials; a grid has its own number, others {TRIALS} by default.")
    factor: int = Field(
        3, ge=2, le=100, description="halving, asha: one trial in so many goes on, with so many times the rounds; also of `prune`."
    )
    batch: int = Field(4, ge=1, le=1_000, description="bayesian: trials that are chosen together; asha: those that run at once.")
    prune: bool = Field(False, description="bayesian: stop a trial that is worse than the median after a `factor`-th of its rounds.")
    metric: str = Field(
        min_length=1,
        description="What is compared: auc, log_loss, accuracy, rmse, r2, pinball_loss, ndcg, or another that the model measures.",
    )
    better: Better | None = Field(None, description="Which value of the metric is better; known of those.")
    on: Literal["train", "validation", "test"] = Field("validation", description="The split whose rows a trial is compared on.")
    seed: int | None = Field(None, ge=0, description="Another seed, other trials at random; the job's seed where it is not given.")

    def plan(self, schemas: Mapping[str, Schema], context: Context) -> dict[str, Schema]:
        """What `outputs` says, of trials all of which the model takes. Raises StageError with all that is wrong."""
        gathered, given = Gathered(), dict[str, Schema]()
        with gathered.one():
            given = self.outputs(schemas)
        with gathered.one():
            for values in self._candidates(self._space(), context) if self.method != "bayesian" else ():
                with under("parameters"):
                    with_values(self.model, values)
        gathered.check()
        return given

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The model's own tables, and the trials.

        Raises StageError where the model does not fit the rows (under `model`), or where parameters cannot be tried.
        """
        gathered, given, space = Gathered(), dict[str, Schema](), Space()
        with gathered.one():
            Goal.of(self.model, self.metric, self.on, self.better)
        self._check_method(gathered)
        with gathered.one(), under("model"):
            given = self.model.outputs(schemas)
        if "trials" in given:
            gathered.add(StageError(f"{self.model.name} gives a table `trials` itself", key="model.use"))
        with gathered.one():
            space = self._space()
        for axis in space if given else ():
            with gathered.one():
                self._check_axis(axis, schemas, given)
        gathered.check()
        return {**given, "trials": Schema(trials_schema(space, rungs=self._has_rungs))}

    def _check_axis(self, axis: Axis, schemas: Mapping[str, Schema], given: Mapping[str, Schema]) -> None:
        for value in axis.ends:
            try:
                made = with_values(self.model, {axis.name: value}).outputs(schemas)
            except StageError as error:
                raise StageError(f"{value!r} does not fit: {error.text}", key=f"parameters.{axis.name}") from error
            if made != given:
                raise StageError(f"{value!r} changes the columns that the model gives", key=f"parameters.{axis.name}")

    def _check_method(self, gathered: Gathered) -> None:
        """Gather what the method does not take. Raises PlaceError where its library is not installed."""
        for key, methods in {
            "trials": ALL - {"grid"},
            "factor": {"halving", "asha", "bayesian"},
            "batch": {"asha", "bayesian"},
            "prune": {"bayesian"},
        }.items():
            if key in self.model_fields_set and getattr(self, key) is not None and self.method not in methods:
                text = f"method: {self.method} has no {key}. Leave it out, or use {' or '.join(sorted(methods))}."
                gathered.add(StageError(text, key=key))
        if self._has_rungs and "rounds" in self.parameters:
            text = "the trials get more rounds step by step, and so rounds are none of their parameters"
            gathered.add(StageError(text, key="parameters.rounds"))
        if self._has_rungs and self.model.rounds < self.factor:
            text = f"the model has {self.model.rounds} rounds, and trials begin with a {self.factor}-th of them"
            gathered.add(StageError(text, key="model.rounds"))
        if self.method == "bayesian":
            need_optuna()

    @property
    def _has_rungs(self) -> bool:
        """Whether a trial may be measured more than once, with more and more rounds."""
        return self.method in {"halving", "asha"} or self.prune

    def explained(self, schemas: Mapping[str, Schema]) -> str:
        """How many trials there will be."""
        count = len(grid(self._space())) if self.method == "grid" else self.trials or TRIALS
        return f"{count:,} trials of {self.model.name} by {self.method}, compared by {self.metric} on {self.on} rows"

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The trials, which are waited for; then the model's own run, with the best parameters."""
        rows, space = tables["rows"].named(context.name).hold(), self._space()
        goal = Goal.of(self.model, self.metric, self.on, self.better)
        runner = Trials(self.model, goal, rows, context)
        trials = self._trials(runner, space)
        best = best_of(trials, goal)
        outcome = with_values(self.model, best.values).run({"rows": rows}, context)
        table = trials_table(trials, goal, trials_schema(space, rungs=self._has_rungs))
        count = max(trial.number for trial in trials)
        found = {"trials": count, "best_trial": best.number, "on": goal.on, "metric": goal.metric, "value": best.value, **best.values}
        submit = context.session.submit
        return replace(
            outcome,
            tables={**outcome.tables, "trials": Table.of(context.session, context.name, [Part(table)])},
            metrics=submit(_and, outcome.metrics, {"search": found}, stage=context.name),
            counts=submit(_and, outcome.counts, {"trials": count, "trials_found": runner.found}, stage=context.name),
        )

    def _space(self) -> Space:
        return space_of(self.model, self.parameters)

    def _trials(self, trials: Trials, space: Space) -> list[Trial]:
        """The trials that the method runs."""
        count, rounds, seed = self.trials or TRIALS, self.model.rounds, self._seed(trials.context)
        if self.method == "bayesian":
            first = rounds // self.factor if self.prune else None
            return Bayesian(count, self.batch, seed, rounds, first).search(space, trials.measured, trials.goal)
        candidates = self._candidates(space, trials.context)
        rungs = rungs_of(len(candidates), rounds, self.factor)
        if self.method == "halving":
            return halving(candidates, trials.measured, trials.goal, rungs, self.factor)
        if self.method == "asha":
            return Asha(trials.goal, rungs, self.factor, self.batch).search(candidates, trials)
        return all_at_once(candidates, trials.measured)

    def _candidates(self, space: Space, context: Context) -> list[Values]:
        """The parameters of every trial, where none depends on those before."""
        return grid(space) if self.method == "grid" else drawn(space, self.trials or TRIALS, self._seed(context))

    def _seed(self, context: Context) -> int:
        return context.seed if self.seed is None else self.seed


def _and(found: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """What the model gave, with what the search adds."""
    return {**(found or {}), **more}
