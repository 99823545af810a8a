"""Trials of a model: each is a Dask task that trains it with other parameters on the rows that all of them share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from pipeline.errors import DataError, StageError, near
from pipeline.stage import Context
from pipeline.stages.models._learning import with_states
from pipeline.stages.models._search.model import Alone, shared, spelled, with_values
from pipeline.stages.models._search.space import Axis, Space, Values
from pipeline.stages.models._supervised import Supervised
from pipeline.tables.part import Part
from pipeline.tables.table import Fitted, Table

METRICS = {
    "regression": ("rmse", "r2"),
    "binary": ("auc", "log_loss", "accuracy"),
    "multiclass": ("log_loss", "accuracy"),
    "quantile": ("pinball_loss",),
    "ranking": ("ndcg",),
}
GREATER, LESS = ("r2", "auc", "accuracy", "ndcg"), ("rmse", "log_loss", "pinball_loss")
Better = Literal["greater", "less"]
Metrics = Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class Goal:
    """What is compared: a metric, on the rows of a split, and which value is the better one."""

    metric: str
    on: str
    better: Better

    @staticmethod
    def of(model: Supervised, metric: str, on: str, better: Better | None) -> Goal:
        """Raises StageError for a metric that the objective has not, or of which it is not known which value is better."""
        kind = next((name for name in (*GREATER, *LESS) if metric == name or metric.startswith((f"{name}@", f"{name}_"))), metric)
        known = METRICS.get(model.objective, (kind,))
        if kind in (*GREATER, *LESS) and kind not in known:
            raise StageError(f"a {model.objective} objective has no {metric}.{near(metric, known)}", key="metric")
        if kind not in (*GREATER, *LESS) and better is None:
            text = (
                f"whether a greater {metric} is better or a lesser one is not known here. Say so by `better`.{near(metric, GREATER + LESS)}"
            )
            raise StageError(text, key="metric")
        if model.split is None:
            raise StageError(f"trials are compared on {on} rows, and the model has no split. Name its split column.", key="model.split")
        return Goal(metric, on, better or ("greater" if kind in GREATER else "less"))

    def value(self, metrics: Metrics) -> float | None:
        """The metric among all that a model measured; None where these rows have none. Raises DataError where it is not measured."""
        if self.on not in metrics:
            raise DataError(f"there are no {self.on} rows with a target, which trials are compared on", key="on")
        if self.metric not in metrics[self.on]:
            text = f"the model measures no {self.metric!r}.{near(self.metric, metrics[self.on])}"
            raise DataError(text, key="metric")
        return metrics[self.on][self.metric]

    def key(self, value: float | None) -> float:
        """What is least for the best value; none at all comes last."""
        return float("inf") if value is None else -value if self.better == "greater" else value


@dataclass(frozen=True)
class Trial:
    """A trial, counted from 1: its parameters, its rounds where they are not the model's own, and its value; `went_on` to more rounds."""

    number: int
    values: Values
    rounds: int | None = None
    value: float | None = None
    state: Literal["asked", "measured", "no value", "stopped", "went on"] = "asked"


class Trials:
    """Runs trials, as many at once as there are threads, each on its share of them."""

    def __init__(self, model: Supervised, goal: Goal, rows: Table, context: Context) -> None:
        self.model, self.goal, self.rows, self.context = model, goal, rows, context
        self.given = shared(rows, model)
        self.known: dict[str, Metrics] = {}  # what a model measured, by its parameters
        self.found = 0  # models that an earlier run had measured
        self._running: dict[str, Any] = {}  # futures of what models will measure, by their parameters

    def measured(self, asked: Sequence[Trial]) -> list[Trial]:
        """The trials with their values, in their order; those that were measured before are not run again."""
        models = [self._model(trial) for trial in asked]
        missing = {_name(model): model for model in models if not self._is_known(model)}
        self._run(list(missing.values()))
        return [_with_value(trial, self.goal.value(self.known[_name(model)])) for trial, model in zip(asked, models, strict=True)]

    def begin(self, trial: Trial, at_once: int) -> None:
        """Have a trial run, as one of so many; one that was measured before is not run again."""
        model = self._model(trial)
        if not self._is_known(model) and _name(model) not in self._running:
            (self._running[_name(model)],) = self._submitted([model], at_once)

    def ended(self, trial: Trial) -> Trial:
        """A trial that was begun, with its value. Where one fails, or the run is given up, none goes on."""
        model = self._model(trial)
        try:
            for future in [self._running.pop(_name(model))] if _name(model) in self._running else ():
                for _, metrics in self.context.session.values([future]):
                    self._keep(model, metrics)
        except BaseException:
            self._running.clear()
            raise
        return _with_value(trial, self.goal.value(self.known[_name(model)]))

    def _is_known(self, model: Supervised) -> bool:
        """Whether a model was measured before, by this search or by one that was killed."""
        name, remembered = _name(model), self.context.remembered
        if name not in self.known and remembered and (found := remembered.find(self._about(model))):
            self.known[name] = found["metrics"]
            self.found += 1
        return name in self.known

    def _about(self, model: Supervised) -> list[Any]:
        """What a model's metrics depend on, beside its rows."""
        return [spelled(model), self.context.seed, self.context.session.backend]

    def _run(self, models: Sequence[Supervised]) -> None:
        """Train the models, each in a task, and keep what each measures as soon as it is known."""
        for number, metrics in self.context.session.values(self._submitted(models, len(models))):
            self._keep(models[number], metrics)

    def _submitted(self, models: Sequence[Supervised], at_once: int) -> list[Any]:
        """A task for each model, whose value is what it measures."""
        alone, session, given = Alone.of(self.rows, self.context, at_once), self.context.session, self.given
        shares = given.parts, given.axes, given.steps, given.states
        return [session.submit(_metrics, alone, model, *shares, stage=self.context.name) for model in models]

    def _keep(self, model: Supervised, metrics: Metrics) -> None:
        self.known[_name(model)] = metrics
        if self.context.remembered:
            self.context.remembered.keep(self._about(model), {"metrics": metrics})

    def _model(self, trial: Trial) -> Supervised:
        more = {} if trial.rounds is None else {"rounds": trial.rounds}
        return with_values(self.model, {**trial.values, **more})


def _metrics(
    alone: Alone, model: Supervised, parts: Sequence[Part], axes: Sequence[Part], steps: Sequence[Fitted], states: Sequence[Part]
) -> Metrics:
    """What the model measures where it learns by itself, in this task."""
    found: Metrics = alone.run(model, parts, axes, with_states(steps, states)).metrics
    return found


def _name(model: Supervised) -> str:
    return repr(spelled(model))


def _with_value(trial: Trial, value: float | None) -> Trial:
    return Trial(trial.number, trial.values, trial.rounds, value, "no value" if value is None else "measured")


def best_of(trials: Sequence[Trial], goal: Goal) -> Trial:
    """The first trial with the best value of those that were measured to the end. Raises DataError where none has a value."""
    found = min((trial for trial in trials if trial.state == "measured"), key=lambda trial: goal.key(trial.value), default=None)
    if found is None:
        raise DataError(
            f"no trial has a {goal.metric} on the {goal.on} rows. Have they both classes, and a target that varies?", key="metric"
        )
    return found


def trials_schema(space: Space, *, rungs: bool) -> pl.Schema:
    """Columns of the table of trials. Raises StageError where a parameter has the name of another column."""
    first: dict[str, Any] = {"trial": pl.Int64(), **({"rounds": pl.Int64()} if rungs else {})}
    last = {"metric": pl.String(), "value": pl.Float64(), "state": pl.String(), "best": pl.Float64()}
    for axis in space:
        if axis.name in (*first, *last):
            raise StageError(
                f"the table of trials has a column {axis.name!r} of its own, and cannot have one of a parameter", key="parameters"
            )
    return pl.Schema({**first, **{axis.name: _type_of(axis) for axis in space}, **last})


def trials_table(trials: Sequence[Trial], goal: Goal, schema: pl.Schema) -> pl.DataFrame:
    """A row a trial, in their order, with the best value so far of those that were measured to the end."""
    rows, best = [], None
    for trial in trials:
        if trial.state == "measured" and (best is None or goal.key(trial.value) < goal.key(best)):
            best = trial.value
        values = {name: _as_text(value) if schema[name] == pl.String else value for name, value in trial.values.items()}
        told = {
            "trial": trial.number,
            "rounds": trial.rounds,
            "metric": goal.metric,
            "value": trial.value,
            "state": trial.state,
            "best": best,
        }
        rows.append({name: (values | told if name not in values else values)[name] for name in schema})
    return pl.DataFrame(rows, schema=schema)


def _type_of(axis: Axis) -> pl.DataType:
    """The type of a parameter's column: lists and mappings are written as JSON."""
    if axis.listed is None:
        return pl.Int64() if axis.whole else pl.Float64()
    kinds = {type(value) for value in axis.listed if value is not None}
    if kinds == {bool}:
        return pl.Boolean()
    return pl.Int64() if kinds == {int} else pl.Float64() if kinds and kinds <= {int, float} else pl.String()


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
