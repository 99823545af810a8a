"""Gradient boosted trees: trained in one task that streams the parts, or in several that XGBoost's collective joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.backend.boosting import import_xgboost, need_xgboost
from pipeline.backend.devices import Backend
from pipeline.errors import StageError
from pipeline.stage import Context, Outcome
from pipeline.stages.models._exported.graph import Graph
from pipeline.stages.models._exported.of_trees import graph_of_trees
from pipeline.stages.models._exported.treelite import forest_of
from pipeline.stages.models._predictor import Predictor
from pipeline.stages.models._smaller.forms import Ladder
from pipeline.stages.models._smaller.tree_pruning import fewer_leaves, fewer_rounds
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._trees.booster import HISTORY, BoosterPredictor, Trees
from pipeline.stages.models._trees.explained import MEAN, shap_schema
from pipeline.stages.models._trees.over_workers import train_over_workers
from pipeline.stages.models._trees.training import train_here
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Xgboost(BoostedTrees, name="xgboost", version=4):
    """Train boosted trees on the rows of split `train`, stop early on `validation`, and predict every row.

    Gives predictions (key, split, group, target and `prediction`: a value, or the probability of a binary target; of several classes one
    column prediction_CLASS, of quantiles prediction_0.1 and so on, of a ranking prediction_score, by which rows of a group are ordered),
    NAME.importance, NAME.history (round, split, metric, value: how validation went, and training with `watch: both`), the model as
    models/NAME.ubj with models/NAME.json beside it (features in order, classes, and the fitted state of the stages before, which scoring
    needs), and metrics per split. With early stopping the model ends with its best round. Null is missing; rows with no target are
    predicted only. `explain` gives NAME.shap: a column a feature and `bias`, which sum to a row's margin (a binary target's log odds); of
    several classes or quantiles the rows of one stand below those of another.
    Training does not depend on how the rows are divided: one task takes them in the order of the key. With `workers: all` every worker has
    some of the rows, and the model is the same but for the order in which gradients are summed.

    Example:
        {use: xgboost, from: features, as: risk, target: disease, key: sample_id, objective: binary, early_stopping_rounds: 20}
    """

    suffix = "ubj"
    exports = ("onnx", "treelite")
    smaller = ("prune_trees", "prune_leaves")
    counts: ClassVar[Mapping[str, Count]] = {
        "features": Count("features"),
        "trees_used": Count("trees used"),
        "rows_*": Count("rows, *"),
        "rounds_found": Count("rounds that were there when training went on", aside=True),
        "external_rows": Count("rows trained from external memory", aside=True),
    }

    workers: Literal["one", "all"] = Field(
        "one", description="one: a task of its own; all: each worker trains on some of the rows, where they are too many for one."
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Predictions, importance and history.

        Raises StageError for a feature, target, split or classes that cannot be used; PlaceError where xgboost is not installed.
        """
        schema = schemas["rows"]
        need_xgboost()
        self.check_columns(schema)
        self.check_objective(schema)
        self.check_weight(schema)
        self.check_features(schema)
        self.check_split(schema)
        if self.workers == "all" and self.memory == "external":
            raise StageError("external memory is of one task. Leave out workers: all, or memory: external.", key="memory")
        if self.workers == "all" and self.group:
            raise StageError("a ranking is learned in one task, where all rows of a group are. Leave it out.", key="workers")
        if self.workers == "all" and self.quantiles:
            why = "quantiles are learned in one task: of several, XGBoost takes the mean of theirs"
            raise StageError(f"{why}. Leave it out; memory: external is for rows too many for its memory.", key="workers")
        self.check_stopping()
        self.check_target(schema.columns[self.target])
        self.check_constraints(schema)
        self.check_native(schema)
        importance = {"feature": pl.String(), "gain": pl.Float64(), "weight": pl.Float64(), "cover": pl.Float64()}
        importance |= {MEAN: pl.Float64()} if self.explain else {}
        tables = {"importance": Schema(pl.Schema(importance)), "history": Schema(pl.Schema(HISTORY))}
        if self.explain:
            tables |= {"shap": shap_schema(self, schema)}
        return {"": self.predictions_schema(schema), **tables}

    @classmethod
    def predictor(cls, _description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
        """The booster."""
        return BoosterPredictor.of(content, backend)

    @classmethod
    def graph(cls, _description: Mapping[str, Any], content: bytes) -> Graph:
        """The trees, and the link of their objective."""
        return graph_of_trees(content)

    @classmethod
    def forest(cls, content: bytes, *, logistic: bool) -> bytes:
        """The trees, and the link of their objective."""
        return forest_of(content, logistic=logistic)

    @classmethod
    def ladder(cls, description: Mapping[str, Any], content: bytes, method: str) -> Ladder:
        """Fewer rounds, or trees with fewer leaves."""
        return fewer_rounds(content) if method == "prune_trees" else fewer_leaves(content, description["parameters"]["learning_rate"])

    @classmethod
    def need(cls) -> None:
        """XGBoost."""
        need_xgboost()

    def explained(self, schemas: Mapping[str, Schema]) -> str:
        """Where the binned rows will lie; over several workers each has its own in memory."""
        if self.workers == "all":
            return "memory: whole, each worker's own rows"
        features = len(self.feature_columns(schemas["rows"]))
        arrays = " and those of arrays" if schemas["rows"].arrays else ""
        room = "three tenths of a worker's memory less 400 MB (half where the table is beyond memory; on a GPU of its own)"
        size = f"{features} features{arrays} of 32 bits a row are more than {room}"
        return f"memory: {self.memory}" + (f", which is external where {size}, else whole" if self.memory == "auto" else "")

    def prepare(self, *, lean: bool = False) -> None:
        """Import XGBoost."""
        import_xgboost(lean=lean)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One training task; or one on every worker, where that is asked for and there are several workers and parts."""
        rows, session = tables["rows"].named(context.name), context.session
        assert rows.schema is not None
        columns = self.feature_columns(rows.schema)
        learning: Trees = Trees(
            context.name,
            self,
            columns=tuple(columns),
            types=tuple(str(rows.schema.columns[name]) for name in columns),
            arrays=tuple(rows.schema.arrays),
            seed=context.seed,
            backend=session.backend,
            threads=session.threads,
            lean=session.lean,
            asked=context.asked,
        )
        spread = self.workers == "all" and session.workers > 1 and len(rows.blocks) > 1
        return (train_over_workers if spread else train_here)(learning, rows, context)
