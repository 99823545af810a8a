"""A published model made smaller, with what that costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Literal, Self

import polars as pl
from pydantic import Field, PrivateAttr, ValidationError

from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError, under
from pipeline.stage import ColumnName, Context, Outcome, Stage
from pipeline.stages.models._measures import Metrics
from pipeline.stages.models._of_model import OfModel
from pipeline.stages.models._predictor import Predictor
from pipeline.stages.models._published import PACKED, Published
from pipeline.stages.models._smaller.forms import Form, Ladder
from pipeline.stages.models._smaller.quantized import FILES, quantized
from pipeline.stages.models._smaller.taught import learned, make_student, of_one_column, renamed, taught_part, taught_schema
from pipeline.stages.models._smaller.thinned import thinned
from pipeline.stages.models._smaller.tradeoff import GIVEN, TRADEOFF, Judge, Judged, predictions, tradeoff
from pipeline.stages.models._supervised import Supervised
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.table import Table


@dataclass(frozen=True)
class Compressed:
    """What the stage gives: predictions and costs as parts, the model's two files, metrics per split, counts, warnings."""

    predictions: Part
    tradeoff: Part
    model: bytes
    description: bytes
    metrics: Metrics
    counts: dict[str, int]
    warnings: list[str]


class Compress(OfModel, name="compress", version=1):
    """Make a published model smaller, and say what that costs: models/NAME with NAME.json, which `score` and `export` read like any other.

    The rows are those of its training, with its target and split, as they were before the stages that it was learned behind. What is
    published is the smallest form found whose loss on the rows of split `validation` (the log loss; of a regression the rmse, of
    quantiles the pinball loss) is greater by `tolerance` of it at most. `prune_trees` keeps the first rounds of an xgboost model;
    `prune_leaves` cuts splits that gained little off its trees, by XGBoost's own updater; `prune_weights` leaves the smallest weights of
    each of a network's matrices out; `quantize` writes matrices of weights in eight bits and a scale a row (models in npz and
    safetensors; they predict in the precision that they had); `distill` has another stage, `student`, learn the model's predictions
    (of a probability the log-odds) on the rows of split `train`.
    Gives predictions as training does, and NAME.tradeoff: bytes and metrics per split of the model as given and of every form that was
    tried. How long a thousand rows take is counted, before and after.

    Example:
        {use: compress, from: divided, as: small, model: results/loans/current/models/lateness.json, method: prune_trees, tolerance: 0.01}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "bytes_given": Count("bytes of the model as given", aside=True),
        "bytes_published": Count("bytes of the model as published", aside=True),
        "nanoseconds_given": Count("nanoseconds a thousand rows by the model as given", aside=True),
        "nanoseconds_published": Count("nanoseconds a thousand rows by the model as published", aside=True),
    }

    method: Literal["prune_trees", "prune_leaves", "prune_weights", "quantize", "distill"] = Field(
        description="How the model is made smaller."
    )
    split: ColumnName = Field("split", description="Column of train, validation and test.")
    tolerance: float = Field(0.01, ge=0, le=10, description="How much greater the loss on validation rows may be, as a share of it.")
    weight: ColumnName | None = Field(None, description="Column of row weights for the metrics, of a model that was trained with one.")
    student: dict[str, Any] | None = Field(
        None, description="distill: the stage that learns, with its parameters, as in {use: xgboost, rounds: 20}."
    )

    _judge: Supervised = PrivateAttr()
    _student: Supervised | None = PrivateAttr(None)

    def opened(self, stage_class: Callable[[str], type[Stage]]) -> Self:
        """The stage with the model's description read. Raises StageError for a model without a target, or that the method is not for."""
        made = super().opened(stage_class)
        made._judge = _judge(made)
        if (self.student is None) == (self.method == "distill"):
            raise StageError("distill, and no other method, has a student: {use: xgboost, rounds: 20}, say", key="student")
        if self.student is not None:
            of_one_column(made._published)
            made._student = make_student(self.student, made._published, self.split, stage_class)
        elif self.method not in (known := _methods(made._published)):
            raise StageError(f"this model of {made._published.learner.name} is made smaller by {', '.join(known)}", key="method")
        return made

    @property
    def kept(self) -> tuple[ColumnName, ...]:
        """Key, split and target, and the weight."""
        return (*self._judge.row_columns, *([self.weight] if self.weight else []))

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Predictions and what the forms cost.

        Raises StageError where a column of training is missing or of another type; PlaceError where a library is not installed.
        """
        schema = schemas["rows"]
        prepared = self.check_rows(schema)
        self._judge.check_split(schema)
        self._judge.check_target(schema.columns[self._judge.target])
        if self._student is not None:
            with under("student"):
                self._student.outputs({"rows": taught_schema(prepared, self._published, self.split)})
        self._judge.check_weight(schema)
        kept = {name: schema.columns[name] for name in self._judge.row_columns}
        return {"": Schema(pl.Schema({**kept, **self._published.predicts})), "tradeoff": Schema(TRADEOFF)}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One task that judges forms on all rows; before it, where a student learns, those of the student."""
        session, name = context.session, context.name
        rows = tables["rows"].named(name)
        assert rows.schema is not None
        prepared, axes = self.prepared(rows)
        prepared = prepared.hold()
        form = None
        if self._student is not None:
            teacher = session.submit(self._published.predictor, session.backend, stage=name)
            schema = taught_schema(self.check_rows(rows.schema), self._published, self.split)
            taught = prepared.map_parts(self._taught, schema.columns, teacher, *axes)
            form = learned(self._student, renamed(taught, schema), self._published, context)
        found = session.submit(self._compressed, name, session.backend, prepared.futures(), axes, form, stage=name)
        fields = ("predictions", "tradeoff", "model", "description", "metrics", "counts", "warnings")
        pieces = {field: session.submit(attrgetter(field), found, stage=name) for field in fields}
        parts = {"": pieces["predictions"], "tradeoff": pieces["tradeoff"]}
        suffix = (self._student or self._published.learner).suffix
        return Outcome(
            {table: Table.of(session, name, [part]) for table, part in parts.items()},
            {f"{name}.{suffix}": pieces["model"], f"{name}.json": pieces["description"]},
            *(pieces[field] for field in ("metrics", "counts", "warnings")),
        )

    def _taught(self, part: Part, columns: pl.Schema, teacher: Predictor, *axes: Part) -> Part:
        """A part's rows with what the model predicts of them."""
        odds = self._published.description["objective"] == "binary"
        return taught_part(self._whole(part), teacher.predict(self.matrix(part, axes)), columns, odds=odds)

    def _whole(self, part: Part) -> Part:
        """A part that is prepared, key, split and target as they were given."""
        return Part(part.frame.with_columns(self.kept_of(part)), part.arrays)

    def _compressed(self, name: str, backend: Backend, parts: list[Part], axes: list[Part], form: Form | None) -> Compressed:
        """The form that is published and what all of them cost."""
        published = self._published
        judge = Judge(self._judge, published, backend, self._whole(concat_parts(parts)), lambda part, made: self.matrix(part, axes, made))
        given = judge.of(Form(published.content(), GIVEN))
        if self.method == "quantize":
            form = quantized(given.form.content, published.learner.suffix)
        if form is None:
            chosen, tried = judge.lowest(self._ladder(given.form.content), given, self.tolerance)
        else:
            chosen = judge.of(form)
            tried = [chosen]
            self._need_within(judge, given, chosen)
        sizes = len(given.form.content), len(chosen.form.content)
        no_smaller = [f"no smaller form is within tolerance of {self.tolerance:g}. Allow more."] if sizes[1] >= sizes[0] else []
        return Compressed(
            predictions(judge, self._judge.row_columns, published.predicts, chosen),
            tradeoff(self.method, given, tried, chosen),
            chosen.form.content,
            self._described(name, chosen, sizes[0]),
            chosen.metrics,
            {
                "bytes_given": sizes[0], "bytes_published": sizes[1], "nanoseconds_given": given.nanoseconds,
                "nanoseconds_published": chosen.nanoseconds,
            },
            no_smaller,
        )  # fmt: skip

    def _ladder(self, content: bytes) -> Ladder:
        """Smaller forms of the model."""
        if self.method == "prune_weights":
            return thinned(content)
        return self._published.learner.ladder(self._published.description, content, self.method)

    def _need_within(self, judge: Judge, given: Judged, chosen: Judged) -> None:
        """Raise DataError where the one form that there is loses too much."""
        before, after = judge.loss(given), judge.loss(chosen)
        if after > before * (1 + self.tolerance):
            raise DataError(
                f"the loss on validation rows goes from {before:.4g} to {after:.4g}, by more than {self.tolerance:g} of it, and so the "
                "smaller model is not published. Allow more, or give a student more rounds.",
                key="tolerance",
            )

    def _described(self, name: str, chosen: Judged, size: int) -> bytes:
        """The file beside the model: what the given one says, and what was done."""
        learner = chosen.form.learner or self._published.learner
        told = {**self._published.description, **chosen.form.own, "model": f"{name}.{learner.suffix}"}
        done = {"method": self.method, "form": chosen.form.said, "of": self._published.description["model"], "bytes_given": size}
        return (json.dumps({**told, "compressed": done}, indent=1, default=str) + "\n").encode()


def _methods(published: Published) -> list[str]:
    """What makes a model smaller."""
    learner = published.learner
    packed = any(published.description.get(name) for name in PACKED)
    weights = [] if packed else ["prune_weights"] * (learner.suffix == "safetensors") + ["quantize"] * (learner.suffix in FILES)
    return [*learner.smaller, *weights, "distill"]


def _judge(stage: Compress) -> Supervised:
    """The stage that says what is predicted, of the model's description. Raises StageError for a model without a target."""
    told, learner = stage._published.description, stage._published.learner
    names = ("target", "key", "objective", "classes")
    if not issubclass(learner, Supervised) or any(name not in told for name in names):
        raise StageError(
            f"the model was learned by {learner.name} without a target, so there is nothing to judge a smaller one by", key="model"
        )
    given = {**{name: told[name] for name in names}, "split": stage.split, **({"weight": stage.weight} if stage.weight else {})}
    if told["objective"] == "quantile":
        given["quantiles"] = told["parameters"]["quantile_alpha"]
    try:
        found = learner.model_validate(given)
    except ValidationError as error:
        raise StageError(f"what the model says of its target cannot be read ({error.errors()[0]['msg']})", key="model") from error
    if told["objective"] == "ranking" or found.prediction_columns != list(stage._published.predicts):
        raise StageError(f"a {told['objective']} model has no loss to judge a smaller one by", key="model")
    return found
