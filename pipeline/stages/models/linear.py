"""Linear models: least squares, ridge, lasso, logistic, multinomial, Poisson and gamma regression, fitted by sums over the parts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import polars as pl

from pipeline.backend.devices import Backend
from pipeline.stage import Context, Outcome
from pipeline.stages.models._exported.graph import Graph
from pipeline.stages.models._exported.of_linear import graph_of_linear
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._linear.learning import learn
from pipeline.stages.models._linear.model import LinearModel, LinearPredictor
from pipeline.stages.models._linear.tables import HISTORY, coefficient_schema
from pipeline.stages.models._linear.terms import LinearTerms
from pipeline.stages.models._predictor import Predictor
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Linear(LinearTerms, name="linear", version=1):
    """Fit a linear model to the rows of split `train` by sums over the parts, which are never gathered, and predict every row.

    Gives predictions (key, split, target and `prediction`: a value, or the probability of a binary target; one column prediction_CLASS a
    class for several), the model as models/NAME.npz with models/NAME.json beside it, and metrics per split, all in 64 bits.
    NAME.coefficients has a row a column of the features (a block a class for several): feature, code and its value, the coefficient on the
    feature's own scale and, where there is no penalty and all rows weigh the same, standard_error, statistic and p_value (Student's t for
    least squares, else normal); scale is the column's standard deviation. NAME.importance has the standard deviation of what a feature
    adds to the linear predictor, NAME.history a metric round by round.

    A row of `weight` 2 counts as two wherever rows are summed, so the model is that of the row repeated; one of 0 is predicted only.
    A missing number counts as the mean of training. A category (`categorical`) has a coefficient for each code but the most frequent of
    training, the base, which a code that is missing or that training did not have counts as. Without a penalty a feature that does not
    vary, or is a sum of those before it, has no coefficient, with a warning; classes that a feature separates are refused.

    It minimizes the mean over training rows of half the squared error, the log loss or half the deviance, plus l1 times the sum of absolute
    coefficients and l2 times half the sum of their squares, of standardized columns without the intercept: scikit-learn's ElasticNet(alpha)
    has l1 = alpha l1_ratio and l2 = alpha (1 - l1_ratio), Ridge(alpha) l2 = alpha / n, LogisticRegression(C) l2 = 1 / (C n). Several
    classes without a penalty have the first as their base. Least squares is solved at once (`rounds` and early stopping have no effect);
    other models take Newton's steps, or those of L-BFGS beyond 1,000 coefficients where l1 is 0. Early stopping takes the best round's
    model where it ends the search before the solver has converged.

    Example:
        {use: linear, from: features, as: risk, target: disease, key: sample_id, objective: binary, categorical: [centre], l2: 0.01}
    """

    exports = ("onnx",)
    counts: ClassVar[Mapping[str, Count]] = {
        "features": Count("features"),
        "coefficients": Count("coefficients"),
        "rounds_used": Count("rounds used"),
        "rows_*": Count("rows, *"),
        "missing_values": Count("missing values taken as the mean", aside=True),
        "unknown_codes": Count("codes missing, or not in training, taken as the most frequent", aside=True),
    }

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Predictions, coefficients, importance and history.

        Raises StageError for a feature, target, split, classes or family that cannot be used.
        """
        schema = schemas["rows"]
        self.check_columns(schema)
        self.check_weight(schema)
        self.check_features(schema)
        self.check_split(schema)
        self.check_stopping()
        self.check_target(schema.columns[self.target])
        self.check_family()
        importance = pl.Schema({"feature": pl.String(), "influence": pl.Float64()})
        return {
            "": self.predictions_schema(schema),
            "coefficients": Schema(coefficient_schema(self)),
            "importance": Schema(importance),
            "history": Schema(HISTORY),
        }

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
        """The coefficients."""
        return LinearPredictor(LinearModel.read(content), description["family"], backend)

    @classmethod
    def graph(cls, description: Mapping[str, Any], content: bytes) -> Graph:
        """The coefficients and their family's link."""
        return graph_of_linear(LinearModel.read(content), description["family"])

    def prepare(self, *, lean: bool = False) -> None:
        """Load SciPy's solvers and functions."""
        for name in ("scipy.linalg", "scipy.special"):
            import_module(name)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Passes over the parts, whose sums a task solves; other models than least squares are waited for round by round."""
        rows, session = tables["rows"].named(context.name), context.session
        assert rows.schema is not None
        columns, arrays = self.feature_columns(rows.schema), tuple(rows.schema.arrays)
        types = tuple(str(rows.schema.columns[name]) for name in columns)
        learning: Learning[LinearTerms] = Learning(
            context.name, self, tuple(columns), types, arrays, context.seed, session.backend, session.threads, session.lean
        )
        return learn(learning, rows, context)
