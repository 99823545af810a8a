"""A multi-layer perceptron on a table: trained by JAX in one task, in the order of the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any, ClassVar

import polars as pl

from pipeline.backend.devices import Backend
from pipeline.backend.neural import need_neural
from pipeline.stage import Context, Outcome
from pipeline.stages.models._exported.graph import Graph
from pipeline.stages.models._exported.of_network import graph_of_network
from pipeline.stages.models._learning import Given, Learning, outcome
from pipeline.stages.models._network.attending import HISTORY
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.learners import not_reproducible, over_workers, train_by_learners
from pipeline.stages.models._network.over_workers import fit_over_workers
from pipeline.stages.models._network.shown import shown_columns
from pipeline.stages.models._network.training import read, step_cost, train
from pipeline.stages.models._predictor import Predictor
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Network(DeepLearning, name="network", version=1):
    """Train a network on the rows of split `train`, stop early on `validation`, and predict every row.

    Gives what xgboost gives: predictions (key, split, target and `prediction`: a value, or the probability of a binary target; one column
    prediction_CLASS a class for several), the model as models/NAME.safetensors with models/NAME.json beside it, and metrics per split.
    NAME.history has for every round (a pass over the training rows) the log loss or rmse of `train`, while it was learned from, and
    of `validation` after it. NAME.importance has how far a feature moves the answer: the mean, over the training rows, of how far the
    value of the network's last layer is moved by the feature's distance from its mean, by its gradient.
    A row of `weight` 2 counts as two in what is minimized and measured, and where numbers are standardized; a batch has it once.
    Numbers are standardized by the training rows inside; a missing one counts as their mean. A category (`categorical`) is an
    embedding, that of a missing one its own; one that no training row has adds nothing. With early stopping the model is that of the best
    round, else of the last. The same rows give the same model however they are divided: one task takes them in the order of the key.
    A feature named in `text` is the mean of what its n-grams become: runs of words (in small letters, of letters, digits and `_`), each
    hashed into one of `ngrams.buckets` rows of an embedding, by a hash that stays the same. A missing text is one without words: zeros; an
    n-gram that no training row has adds nothing. NAME.ngrams then has those that move the answer most, class by class.
    The feature of `image` (a list or an array of numbers, or bytes, row by row) goes through `convolutions`, which keep its size, each
    followed by the activation and the greatest of each pool; `augment` has training see it a little changed in every round. Its pixels are
    standardized channel by channel; NAME.importance has each of them, as COLUMN[row,pixel], and NAME.mistakes the images of test and
    validation rows that were taken for another class, the surest first. On GPUs give a list: cuDF reads neither arrays nor bytes.
    `parallel` trains over several devices: the same way down as one device goes, but for rounding and `compress`. The metrics then say
    what a step takes, in milliseconds: of computing, and of exchanging; and the bytes that all devices together send in it.
    `parallel: {asynchronous: N, staleness: S}` is the one way of training whose model is not the same from run to run, as it depends on
    who is the faster: N learners (tasks of all workers; threads where there is one, or on GPUs) take parameters from a server, and give it
    gradients of their share of a batch. The server steps when all shares of a batch are there, while a learner that is no more than S steps
    ahead goes on with the parameters that there are. With S of 0 (the default) all go in step, as `data: N` does, and the model is
    the same again. The metrics say how many steps behind the parameters were, at most and in the mean.

    Example:
        {use: network, from: features, as: risk, target: disease, key: sample_id, objective: binary, rounds: 100, early_stopping_rounds: 10}
    """

    suffix = "safetensors"
    exports = ("onnx",)
    counts: ClassVar[Mapping[str, Count]] = {
        "features": Count("features"),
        "rounds_used": Count("rounds used"),
        "rows_*": Count("rows, *"),
        "skipped_steps": Count("steps skipped, with gradients beyond float16", aside=True),
        "rounds_found": Count("rounds that were there when training went on", aside=True),
        "missing_values": Count("missing values taken as the mean", aside=True),
    }

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Predictions, importance and history.

        Raises StageError for a feature, target, split or classes that cannot be used; PlaceError where JAX is not installed.
        """
        schema = schemas["rows"]
        need_neural()
        self.check_columns(schema)
        self.check_weight(schema)
        self.check_features(schema)
        self.check_split(schema)
        self.check_stopping()
        self.check_target(schema.columns[self.target])
        self.check_shares()
        importance = {"feature": pl.String(), "influence": pl.Float64()}
        return {
            "": self.predictions_schema(schema),
            "importance": Schema(pl.Schema(importance)),
            "history": Schema(pl.Schema(HISTORY)),
            **{name: Schema(pl.Schema(columns)) for name, columns in shown_columns(self).items()},
        }

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
        """The network."""
        return read(description, content, backend)

    @classmethod
    def graph(cls, description: Mapping[str, Any], content: bytes) -> Graph:
        """The layers, behind what they take of the features."""
        return graph_of_network(description, content)

    @classmethod
    def need(cls) -> None:
        """JAX, Flax, Optax and safetensors."""
        need_neural()

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One training task."""
        rows, session = tables["rows"].named(context.name), context.session
        assert rows.schema is not None
        columns, arrays = self.feature_columns(rows.schema), tuple(rows.schema.arrays)
        types = tuple(str(rows.schema.columns[name]) for name in columns)
        learning: Learning[DeepLearning] = Learning(
            context.name, self, tuple(columns), types, arrays, context.seed, session.backend, session.threads, session.lean, self.unfolded
        )
        given = Given.of(rows, arrays, rows.futures())
        if over_workers(self, session):
            trained = train_by_learners(learning, given, session)
        else:
            kept = learning if self.by_learners else learning.kept_in(context)
            made = fit_over_workers(kept, given, context) if self.parallel and self.parallel.workers > 1 else None
            trained = session.submit(train, kept, made, given.parts, given.axes, given.steps, given.states, stage=context.name)
        found = outcome(learning, trained, context)
        more = {"history": session.submit(attrgetter("history"), trained, stage=context.name)}
        shown = session.submit(attrgetter("shown"), trained, stage=context.name)
        more |= {name: session.submit(itemgetter(name), shown, stage=context.name) for name in shown_columns(self)}
        tables = {**found.tables, **{name: Table.of(session, context.name, [part]) for name, part in more.items()}}
        warnings = None if self.reproducible else session.submit(not_reproducible, stage=context.name)
        measures = session.submit(step_cost, trained, stage=context.name)
        return replace(found, tables=tables, warnings=warnings, measures=measures)
