"""What a job says of one column of an aggregate's result."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.sql.expression import Sql
from pipeline.stage import ColumnName, Share

Name = Literal[
    "sum",
    "mean",
    "weighted_mean",
    "min",
    "max",
    "count",
    "size",
    "n_unique",
    "std",
    "var",
    "corr",
    "covar",
    "median",
    "quantile",
    "approx_quantile",
    "mode",
    "first",
    "last",
    "arg_min",
    "arg_max",
    "any",
    "all",
    "list",
    "histogram",
]
Interpolation = Literal["linear", "lower", "higher", "nearest", "midpoint"]
Edges = Annotated[tuple[int | float, ...], Field(min_length=1)]


class Asked(BaseModel):
    """One column of the result."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: Name
    of: str | None = Field(None, description="A column or an SQL expression; size takes none.")
    where: Sql | None = Field(None, description="SQL: the rows that count; all where it is not given.")
    order_by: ColumnName | None = Field(
        None, description="first, last, arg_min, arg_max: the column that orders a key's rows. list: its order, by value where not given."
    )
    ties: Literal["greatest", "none"] = Field(
        "greatest",
        description="first and last, of rows that tie in order_by: the greatest value. `none` promises that no rows tie; it saves a pass.",
    )
    q: Share | None = Field(None, description="quantile: which one, 0 to 1; 0.5 is the median.")
    interpolation: Interpolation = Field("linear", description="quantile: what it is between two values.")
    other: str | None = Field(None, description="corr, covar: the second column or SQL expression; rows count that have both.")
    weights: str | None = Field(None, description="weighted_mean: a column or an SQL expression; rows count that have both.")
    edges: Edges | None = Field(None, description="histogram: where its bins begin and end, from low to high.")
