"""What boosted trees are told: XGBoost's parameters as a frozen value, and which columns XGBoost takes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import polars as pl
from pydantic import Field

from pipeline.backend.boosting import xgboost_device
from pipeline.backend.devices import Backend
from pipeline.errors import StageError, near
from pipeline.stage import ColumnName, need_columns, need_keys
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._trees.parameters import check_metric, check_parameters
from pipeline.tables.part import Schema

FORBIDDEN = ("[", "]", "<")  # in a feature's name, by XGBoost
OBJECTIVES = {
    "regression": ("reg:squarederror", "rmse"),
    "binary": ("binary:logistic", "logloss"),
    "multiclass": ("multi:softprob", "mlogloss"),
    "quantile": ("reg:quantileerror", "quantile"),
    "ranking": ("rank:ndcg", "ndcg@10"),
}


class BoostedTrees(Supervised):
    """Learns by boosted trees."""

    objective: Literal["regression", "binary", "multiclass", "quantile", "ranking"] = Field(
        description="What the target is; quantile: numbers, of which `quantiles` are predicted; ranking: how relevant a row of its `group` "
        "is, 0 to 31."
    )
    quantiles: tuple[float, ...] = Field((), description="Quantiles to predict, from low to high: [0.1, 0.5, 0.9].")
    group: ColumnName | None = Field(
        None, description="Column of the group (a query, a customer) within which rows are ranked; no feature."
    )

    max_depth: int = Field(6, ge=1, le=30, description="Depth of a tree.")
    learning_rate: float = Field(0.1, gt=0, le=1, description="Shrinkage of each tree.")
    subsample: float = Field(1.0, gt=0, le=1, description="Share of rows a tree sees.")
    colsample: float = Field(1.0, gt=0, le=1, description="Share of features a tree sees.")
    min_child_weight: float = Field(1.0, ge=0, description="Least weight of a leaf.")
    reg_lambda: float = Field(1.0, ge=0, description="L2 penalty on leaf values.")
    memory: Literal["auto", "whole", "external"] = Field(
        "auto",
        description="Where the binned rows lie: whole in memory (on a GPU its own), or external, on the worker's disk (beside a GPU in the "
        "host's memory), which is slower; auto: external where the features, in 32 bits, are more than three tenths of that memory less "
        "400 MB (half where the table is beyond memory, and on a GPU).",
    )
    watch: Literal["validation", "both"] = Field(
        "validation",
        description="Rows whose metric is measured every round, for NAME.history: those of validation, or of train as well, which takes "
        "a fifth more time, and with auc twice as much.",
    )
    max_bin: int = Field(256, ge=2, le=65_536, description="Most bins a feature is cut into.")
    explain: bool = Field(False, description="Give NAME.shap: what each feature adds to each row's margin (SHAP values of trees).")
    metric: str | None = Field(
        None, description="XGBoost's metric that early stopping watches (auc, aucpr, mae, error@0.7); by default rmse, logloss or mlogloss."
    )
    monotone: dict[ColumnName, Literal[1, -1]] = Field(
        default_factory=dict, description="Features that predictions may only rise (1) or only fall (-1) with."
    )
    interactions: tuple[tuple[ColumnName, ...], ...] = Field(
        (), description="Sets of features that may stand together on a tree's path; others may not."
    )
    parameters: dict[str, bool | int | float | str] = Field(
        default_factory=dict,
        description="More of XGBoost's parameters, by its own names and checked by XGBoost: {gamma: 1, grow_policy: lossguide}.",
    )

    @property
    def more_tables(self) -> tuple[str, ...]:
        """The tables beside predictions and importance, by the names behind NAME."""
        return ("history", "shap") if self.explain else ("history",)

    @property
    def outputs_of_model(self) -> Sequence[str | float | None]:
        """What the model predicts of a row: its classes, its quantiles, or one value without a name."""
        return tuple(self.class_names) or self.quantiles or (None,)

    @property
    def output_column(self) -> dict[str, pl.DataType]:
        """The column that tells outputs apart where there are several, and its type."""
        return {"class": pl.String()} if self.classes else {"quantile": pl.Float64()} if self.quantiles else {}

    @property
    def prediction_columns(self) -> list[str]:
        """Names of the columns with predictions: one a class or quantile; a ranking's has no unit, and a name that says so."""
        quantiles = [f"prediction_{quantile:g}" for quantile in self.quantiles]
        return quantiles or (["prediction_score"] if self.objective == "ranking" else super().prediction_columns)

    @property
    def row_columns(self) -> list[str]:
        """Key, split, group and target: what predictions keep of a row."""
        return [name for name in (self.key, self.split, self.group, self.target) if name]

    def native(self, seed: int, backend: Backend, threads: int) -> dict[str, Any]:
        """XGBoost's training parameters, by its own names."""
        objective, metric = OBJECTIVES[self.objective]
        return {
            "objective": objective,
            "eval_metric": self.metric or metric,
            "tree_method": "hist",
            "device": xgboost_device(backend),
            "seed": seed,
            "max_depth": self.max_depth,
            "learning_rate": self.learning_rate,
            "subsample": self.subsample,
            "min_child_weight": self.min_child_weight,
            "reg_lambda": self.reg_lambda,
            "max_bin": self.max_bin,
            "colsample_bytree": self.colsample,
            "nthread": threads,
            **({"num_class": len(self.classes)} if self.classes else {}),
            **({"quantile_alpha": list(self.quantiles)} if self.quantiles else {}),
            **({"monotone_constraints": dict(self.monotone)} if self.monotone else {}),
            **({"interaction_constraints": [list(names) for names in self.interactions]} if self.interactions else {}),
            **self.parameters,
        }

    def feature_types(self, names: list[str]) -> list[str]:
        """XGBoost's feature types: c for categories, q for numbers."""
        return ["c" if name in self.categorical else "q" for name in names]

    def check_objective(self, schema: Schema) -> None:
        """Raise StageError where quantiles or a group are missing, of no use, or not what they must be."""
        if (self.objective == "quantile") != bool(self.quantiles):
            raise StageError("quantiles between 0 and 1 of a quantile objective, and of no other: [0.1, 0.5, 0.9]", key="quantiles")
        rising = all(low < high for low, high in pairwise((0.0, *self.quantiles, 1.0)))
        if self.quantiles and not (rising and len({*self.prediction_columns}) == len(self.quantiles)):
            raise StageError(f"{list(self.quantiles)} must be between 0 and 1, from low to high, each once", key="quantiles")
        if (self.objective == "ranking") != bool(self.group):
            raise StageError("the column of the groups within which a ranking orders rows, and of no other objective", key="group")
        if self.group:
            need_keys(schema, [self.group], key="group")
            if self.group in (self.key, self.target, self.split):
                raise StageError(f"{self.group!r} is the key, the target or the split already. Give a column of its own.", key="group")
            if self.weight:
                raise StageError("a ranking weighs groups alike, and takes no weights of rows. Leave it out.", key="weight")

    def check_features(self, schema: Schema) -> None:
        """Raise StageError for a feature that XGBoost does not take, and where there is none."""
        super().check_features(schema)
        for name in self.feature_columns(schema):
            if any(sign in name for sign in FORBIDDEN):
                key = "features" if self.features else ""
                raise StageError(f"feature {name!r}: XGBoost takes no name with {' '.join(FORBIDDEN)}. Rename it.", key=key)

    def check_constraints(self, schema: Schema) -> None:
        """Raise StageError where monotone or interactions name what is no feature, or no number where order counts."""
        features = self.feature_columns(schema)
        named = {"monotone": [*self.monotone], "interactions": [name for names in self.interactions for name in names]}
        for key, names in named.items():
            need_columns(schema, names, key=key)
            if outside := [name for name in names if name not in features]:
                raise StageError(f"{outside[0]!r} is no feature of the model.{near(outside[0], features)}", key=key)
        if codes := [name for name in self.monotone if name in self.categorical]:
            raise StageError(f"{codes[0]!r} is categorical: its codes have no order to rise or fall with. Leave it out.", key="monotone")
        if () in self.interactions:
            raise StageError("a set of features has one at least", key="interactions")

    def check_native(self, schema: Schema) -> None:
        """Raise StageError for a metric or a parameter that XGBoost does not take. Where some are given, XGBoost is imported for it."""
        if self.metric:
            check_metric(self.metric, self.objective)
            if not self.early_stopping_rounds:
                raise StageError("it is what early stopping watches: give early_stopping_rounds too, or leave it out", key="metric")
        if self.parameters:
            constraints = ("monotone_constraints", "interaction_constraints")
            native = {name: value for name, value in self.native(0, "cpu", 1).items() if name not in constraints}
            check_parameters(self.parameters, native, self.feature_types(self.feature_columns(schema)) or ["q"])
