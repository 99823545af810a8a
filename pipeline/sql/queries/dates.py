"""Dates and timestamps of a query, where Polars' SQL answers otherwise than DuckDB or not at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipeline.errors import ExpressionError
from pipeline.sql.queries.answered import TEXTS
from pipeline.sql.queries.filled import filled
from pipeline.sql.queries.parsed import DIALECT
from pipeline.sql.queries.typed import LONG, MOMENTS, NARROW, as_type, kind_of

if TYPE_CHECKING:
    from sqlglot import exp

EPOCH = "cast(cast(cast(t as timestamp) as bigint) as double) / 1000000"
WRITTEN = "rtrim(rtrim(_strftime(t, '%Y-%m-%d %H:%M:%S.%6f'), '0'), '.')"
HOURS = re.compile("HOUR|MINUTE|SECOND|hour|minute|second")
FINE = {"MILLISECOND", "MILLISECONDS", "MS", "MICROSECOND", "MICROSECONDS", "US"}
NAMES = """year month day quarter week doy dayofyear dow dayofweek isodow isoyear decade century millennium hour minute second"""
PARTS = FINE | set(NAMES.upper().split())


def extracted(node: exp.Expr) -> exp.Expr | None:
    """A part of a date: seconds since 1970 of any year, and milliseconds without what is behind the point."""
    part = node.this.name.upper()
    if part == "EPOCH":
        return epoch(node)
    if part not in PARTS:
        raise ExpressionError(f"{node.sql(DIALECT)}: there is no part {part.lower()}. There are epoch, {', '.join(sorted(PARTS)).lower()}")
    return filled("cast(floor(t) as bigint)", t=node) if part in FINE else None


def epoch(node: exp.Expr) -> exp.Expr:
    """Seconds since 1970: Polars goes by nanoseconds, which end in 2262."""
    return filled(EPOCH, t=node.expression if node.args.get("expression") else node.this)


def day(node: exp.Expr) -> exp.Expr | None:
    """date(x) of a date or timestamp; Polars' own is of texts."""
    return as_type(node.this, "DATE") if kind_of(node.this) in MOMENTS | {"DATE"} else None


def as_text(node: exp.Expr) -> exp.Expr | None:
    """A timestamp as text, without zeros at the end; None for what is none."""
    from sqlglot import exp

    if kind_of(node) not in MOMENTS:
        return None
    found = filled(WRITTEN, t=node)
    for call in found.find_all(exp.Anonymous):
        call.set("this", "STRFTIME")
    return found


def cast_to_text(node: exp.Expr) -> exp.Expr | None:
    """cast(s as varchar)."""
    return as_text(node.this) if kind_of(node) in TEXTS else None


def joined(node: exp.Expr) -> None:
    """Timestamps in a text that is put together."""
    for child in [node.args.get("this"), node.args.get("expression"), *node.args.get("expressions", [])]:
        found = as_text(child) if child else None
        if found is not None:
            child.replace(found)


def later(node: exp.Expr) -> exp.Expr | None:
    """A date and a whole number of days."""
    from sqlglot import exp

    kinds = (kind_of(node.this), kind_of(node.expression))
    intervals = [side for side in (node.this, node.expression) if side.find(exp.Interval)]
    if "DATE" in kinds and any(HOURS.search(side.sql(DIALECT)) for side in intervals):
        raise ExpressionError(f"{node.sql(DIALECT)}: a date has no hours. Cast it, as in cast(x as timestamp)")
    sign = "-" if node.key == "sub" else "+"
    if kinds[0] == "DATE" and kinds[1] in NARROW | LONG:
        return filled(f"cast(cast(t as int) {sign} n as date)", t=node.this, n=node.expression)
    if kinds[1] == "DATE" and kinds[0] in NARROW | LONG and sign == "+":
        return filled("cast(cast(t as int) + n as date)", t=node.expression, n=node.this)
    return None
