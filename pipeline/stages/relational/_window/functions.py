"""The functions of a window as a job writes them, and what each of them needs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self, get_args

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from pipeline.errors import StageError, near
from pipeline.sql.expression import Value, value_of
from pipeline.stage import Share
from pipeline.stages.relational._sums import sum_type

Shifted = Literal["lag", "lead", "difference", "pct_change"]
Ranked = Literal["row_number", "rank", "dense_rank", "percent_rank", "ntile"]
Cumulative = Literal["cum_sum", "cum_mean", "cum_min", "cum_max", "cum_count", "cum_std", "cum_var", "cum_median", "cum_quantile"]
Rolling = Literal[
    "rolling_sum",
    "rolling_mean",
    "rolling_min",
    "rolling_max",
    "rolling_count",
    "rolling_std",
    "rolling_var",
    "rolling_median",
    "rolling_quantile",
]
OfGroup = Literal["sum", "mean", "min", "max", "count", "size", "n_unique", "std", "var", "median", "quantile", "first", "last", "share"]
Function = Literal[Shifted, Ranked, Cumulative, Rolling, OfGroup]
Closed = Literal["right", "left", "both", "none"]

FUNCTIONS = frozenset(get_args(Function))
SHIFTED, RANKED, CUMULATIVE, ROLLING = (frozenset(get_args(kind)) for kind in (Shifted, Ranked, Cumulative, Rolling))
BARE = {*RANKED, "size"}  # take no column
UNORDERED = frozenset(get_args(OfGroup)) - {"first", "last"}
ADDING = {"cum_sum", "cum_mean", "cum_count"}  # others that run are worked out as those that roll, from the first row of the group on
NUMERIC = {"difference", "pct_change", "sum", "mean", "std", "var", "median", "share", "quantile"}
ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SHIFTED, ("rows",)),
    **dict.fromkeys(ROLLING, ("window",)),
    "rolling_quantile": ("window", "quantile"),
    "quantile": ("quantile",),
    "cum_quantile": ("quantile",),
    "ntile": ("buckets",),
}
"""What stands behind the column in the short way to write a function: a window is `rows` where it is a number, else `span`."""

SHORT = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)


def written_out(value: Any) -> Any:
    """`rolling_mean(speed, 1h)` as {function: rolling_mean, of: speed, span: 1h}."""
    if not isinstance(value, str):
        return value
    if not (match := SHORT.fullmatch(value)):
        raise ValueError(f"{value!r} is not function(column), as in lag(speed, 4) or rolling_mean(speed, 1h)")
    function, given = match[1], _arguments(match[2])
    if function not in FUNCTIONS:
        raise ValueError(f"{value!r}: there is no function {function!r}.{near(function, FUNCTIONS)}")
    names = ARGUMENTS.get(function, ()) if function in BARE else ("of", *ARGUMENTS.get(function, ()))
    if len(given) > len(names):
        raise ValueError(f"{value!r}: {function} takes {', '.join(names) or 'nothing'}, and here are {len(given)}. Put more in a mapping.")
    found = dict(zip(names, given, strict=False))
    if "window" in found:
        window = found.pop("window")
        found["rows" if window.isdecimal() else "span"] = window
    return {"function": function, **found}


def _arguments(text: str) -> list[str]:
    """The text cut at its commas, but for those within brackets and quotes."""
    pieces, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        depth += 0 if quote else (sign == "(") - (sign == ")")
        if sign == "," and not depth and not quote:
            pieces.append("")
        else:
            pieces[-1] += sign
    return [piece.strip() for piece in pieces] if text.strip() else []


class Windowed(BaseModel):
    """One column of the result."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: Function
    of: str | None = Field(None, min_length=1, description="A column or an SQL expression; ranks and size take none.")
    rows: int | None = Field(
        None, ge=1, description="lag, lead, difference, pct_change: how many rows away (1). rolling: rows of a window."
    )
    span: str | None = Field(None, description="rolling: a stretch of the order's one column: 15m, 1h, 7d, or a whole number of its own.")
    closed: Closed = Field("right", description="rolling: whether a window has its last row (or time), its first, both or none.")
    center: bool = Field(
        False, description="rolling: whether a window is moved later by half its length, so that its row stands in the midst."
    )
    min_values: int = Field(1, ge=1, description="rolling: null where a window has fewer values.")
    quantile: Share | None = Field(
        None, description="Of quantiles: which one, 0 to 1, between two values on the line from one to the other."
    )
    buckets: int | None = Field(None, ge=1, description="ntile: how many.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        bare, rolls = self.function in BARE, self.function in ROLLING
        if (self.of is None) != bare:
            raise ValueError(f"{self.function} takes no column" if bare else f"{self.function} needs `of`: a column or an expression")
        if rolls and (self.rows is None) == (self.span is None):
            raise ValueError(f"{self.function} needs a window: either rows (a number of them) or span (of time, such as 1h)")
        if not rolls and (self.span is not None or self.closed != "right" or self.center or self.min_values != 1):
            raise ValueError(f"span, closed, center and min_values are of rolling windows, and {self.function} has none")
        if self.rows is not None and not rolls and self.function not in SHIFTED:
            raise ValueError(f"{self.function} takes no rows")
        for name, owners in (("quantile", {"quantile", "cum_quantile", "rolling_quantile"}), ("buckets", {"ntile"})):
            if (getattr(self, name) is not None) != (self.function in owners):
                raise ValueError(f"{self.function} {'needs' if self.function in owners else 'takes no'} {name}")
        return self

    @property
    def ordered(self) -> bool:
        """Whether it looks at rows before or after its own."""
        return self.function not in UNORDERED

    @property
    def in_kernel(self) -> bool:
        """Whether it is worked out over arrays, once the rows are in order."""
        return self.function in (ROLLING | CUMULATIVE) - ADDING

    @property
    def taken(self) -> str:
        """What it takes of values: sum of cum_sum, rolling_sum and sum."""
        return self.function.split("_", 1)[1] if self.function in ROLLING | CUMULATIVE else self.function

    def value(self, schema: pl.Schema) -> Value:
        """The values that it is of; a column by its name, whatever it is, else the expression. Raises where they do not fit."""
        assert self.of is not None
        value = Value(pl.col(self.of), schema[self.of], None) if self.of in schema else value_of(self.of, schema)
        dtype = value.dtype
        times = dtype.is_temporal() and self.function == "difference"
        if self.taken in NUMERIC and not (dtype.is_numeric() or dtype == pl.Boolean or times):
            raise StageError(f"{self.function}({self.of}) needs numbers, and that is {dtype}. Cast it.")
        if self.taken in {"min", "max", "n_unique"} and dtype.is_nested():
            raise StageError(f"{self.function}({self.of}): values of {dtype} have no order. Take a part of them.")
        return value

    def wide(self, dtype: pl.DataType) -> pl.DataType:
        """The type that its values have as it works on them."""
        if self.taken in {"sum", "mean"} and self.function != "share":
            return sum_type(dtype)
        return pl.Float64() if self.taken in NUMERIC - {"difference"} else dtype


Compute = Annotated[Windowed, BeforeValidator(written_out)]


def need_order(name: str, windowed: Windowed, order: tuple[str, ...] | None) -> None:
    """Raise StageError where a function needs an order and there is none, or its span one that has a distance."""
    key = f"compute.{name}"
    if windowed.ordered and not order:
        raise StageError(f"{windowed.function} needs `order`, the columns by which the rows of a group follow one another", key=key)
    if windowed.span is not None and (len(order or ()) != 1 or (order or ("",))[0].startswith("-")):
        raise StageError("a span needs an order of one column, from low to high. Give `rows`, or another order.", key=f"{key}.span")
