"""Dates and timestamps in expressions: by the local clock where a column has a zone, and refused where an answer would lose its hours."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from pipeline.errors import ExpressionError
from pipeline.sql.tree import Node, call, cast, literal, operator, shown

PARTS = re.compile("(Iso)?Year|Century|Millennium|Quarter|Month|Week(Day)?|(Ordinal)?Day|Hour|Minute|(Milli|Micro|Nano)?[Ss]econd")
WITHIN_A_DAY = re.compile(r"\d(s|ms|us|ns)")  # hours and minutes come as seconds


def local(node: Node, dtype: pl.DataType) -> Node:
    """A timestamp with a zone as what its local clock shows; any other node as it is."""
    if zone_of(dtype) is None:
        return node
    return call({"TemporalExpr": {"ReplaceTimeZone": [None, "Raise"]}}, node, literal("raise"))


def zone_of(dtype: pl.DataType) -> str | None:
    """The time zone of a type; None for one that has none."""
    return dtype.time_zone if isinstance(dtype, pl.Datetime) else None


def check_one_clock(nodes: Sequence[Node], dtypes: Sequence[pl.DataType], what: str) -> None:
    """Refuse timestamps of one zone beside dates, or timestamps of another zone or of none: which clock is meant is not known."""
    typed = zip(nodes, dtypes, strict=bool(dtypes))  # there are no types where there is no schema
    dated = [(node, dtype) for node, dtype in typed if dtype == pl.Date or isinstance(dtype, pl.Datetime)]
    if len({zone_of(dtype) for _, dtype in dated}) > 1:
        listed = " and ".join(f"{_named(node)} ({zone_of(dtype) or 'no zone'})" for node, dtype in dated)
        raise ExpressionError(f"{what} would mix clocks: {listed}. Cast those with a zone, as in cast(s as timestamp): the local clock")


def check_whole_days(nodes: Sequence[Node], dtypes: Sequence[pl.DataType]) -> None:
    """Refuse a date with hours, minutes or a difference of timestamps added to it: it would be the same date."""
    parts = pl.Duration in dtypes
    match nodes:
        case [_, {"Literal": {"Scalar": {"String": str(interval)}}}]:
            parts = WITHIN_A_DAY.search(interval) is not None
    if parts and pl.Date in dtypes:
        date = nodes[list(dtypes).index(pl.Date())]
        raise ExpressionError(
            f"{_named(date)} is a date, which has no hours to add an interval to: write cast(... as timestamp) + interval, or count days, "
            "as in cast(cast(d as int) + 30 as date)"
        )


def _named(node: Node) -> str:
    return shown(node) if "Column" in node else "a value"


def for_cast(node: Node, old: pl.DataType, to: str) -> Node:
    """What is cast: local clocks for dates and timestamps; raises ExpressionError for what is no date."""
    if to in {"Date", "Datetime"}:
        if not (old in {pl.Date, pl.String, pl.Null} or isinstance(old, pl.Datetime) or old.is_integer()):
            raise ExpressionError(
                f"{shown(node)} is {old}, which is no {'date' if to == 'Date' else 'timestamp'}: cast it to bigint first, "
                f"{'days' if to == 'Date' else 'microseconds'} since 1970"
            )
        return local(node, old)
    if to == "String" and old == pl.Date:
        return call({"TemporalExpr": {"ToString": "%Y-%m-%d"}}, node)  # cuDF has no such cast
    return node


def epoch(node: Node, dtype: pl.DataType) -> Node:
    """Seconds since 1970 in UTC, as floats."""
    is_fine = isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns"
    unit, ticks = ("Nanoseconds", 1e9) if is_fine else ("Microseconds", 1e6)
    moment = cast(node, {"Datetime": ["Microseconds", None]}) if dtype == pl.Date else node
    return operator(cast(call({"TemporalExpr": {"TimeStamp": unit}}, moment), "Float64"), "TrueDivide", literal(ticks))
