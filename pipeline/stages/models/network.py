"""A multi-layer perceptron on a table: trained by JAX in one task, in the order of the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
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
from pipeline.stages.models._network.over_workers import fit_over_workers
from pipeline.stages.models._network.training import Train, read, step_cost
from pipeline.stages.models._predictor import Predictor
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Network(DeepLearning, name="network", version=1):
    """Train a network of dense layers on the rows of split `train`, stop early on `validation`, and predict every row.

    Gives what xgboost gives: predictions (key, split, target and `prediction`: a value, or the probability of a binary target; one column
    prediction_CLASS a class for several), the model as models/NAME.safetensors with models/NAME.json beside it, and metrics per split.
    NAME.history has for every round (a pass over the training rows) the log loss or rmse of `train`, while it was learned from, and
    of `validation` after it. NAME.importance has how far a feature moves the answer: the mean, over the training rows, of how far the
    value of the network's last layer is moved by the feature's distance from its mean, by its gradient.
    Numbers are standardized by the training rows inside; a missing one counts as their mean. A category (`categorical`) is an
    embedding, that of a missing one its own; one that no training row has adds nothing. With early stopping the model is that of the best
    round, else of the last. The same rows give the same model however they are divided: one task takes them in the order of the key.
    `parallel` trains over several devices: the same way down as one device goes, but for rounding and `compress`. The metrics then say
    what a step takes, in milliseconds: of computing, and of exchanging; and the bytes that all devices together send in it.

    Example:
        {use: network, from: features, as: risk, target: disease, key: sample_id, objective: binary, rounds: 100, early_stopping_rounds: 10}
    """

    suffix = "safetensors"
    exports = ("onnx",)
    counts: ClassVar[Mapping[str, Count]] = {
        "features": Count("features"),
        "rounds_used": Count("rounds used"),
        "rows_*": Count("rows, *"),
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
            context.name, self, tuple(columns), types, arrays, context.seed, session.backend, session.threads, session.lean
        )
        learning, given = learning.kept_in(context), Given.of(rows, arrays, rows.futures())
        made = fit_over_workers(learning, given, context) if self.parallel and self.parallel.workers > 1 else None
        trained = session.submit(Train(learning), made, given.parts, given.axes, given.steps, given.states, stage=context.name)
        found = outcome(learning, trained, context)
        history = session.submit(attrgetter("history"), trained, stage=context.name)
        measures = session.submit(step_cost, trained, stage=context.name)
        return replace(found, tables={**found.tables, "history": Table.of(session, context.name, [history])}, measures=measures)
