"""Texts cut to characters or pieces, by numbers that may be missing, 0, below 0 or beyond the end: Polars' SQL answers these otherwise."""

from __future__ import annotations

import json
import re

import polars as pl

from pipeline.errors import ExpressionError
from pipeline.sql.arguments import need_arguments, need_text
from pipeline.sql.casts import filled
from pipeline.sql.tree import NULL, Node, call, guarded_size, integer, literal, operator, shown, simple, to_tree, where, where_else

TEXT, NUMBER, BY = "cut text", "cut number", "cut by"
# What strftime writes as DuckDB does; %f and %g are other fractions there, %c, %x and %X other orders.
LAYOUT = re.compile(r"(?:[^%]|%-?[YmdHMSyjI]|%[bBaApUWuwVG%])*")
HOURS = re.compile(r"%-?[HMSIp]")


def left(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """The first n characters; all but the last -n where n is below 0."""
    number = _number("left(t, 2)", nodes, dtypes)
    if number is not None and number > 0:
        return call({"StringExpr": "Slice"}, nodes[0], literal(0), literal(number))
    count = pl.col(NUMBER)
    fewer = pl.col(TEXT).str.len_chars().cast(pl.Int64) + count
    return _cut(pl.col(TEXT).str.slice(0, pl.when(count >= 0).then(count).when(fewer > 0).then(fewer).otherwise(0)), nodes)


def right(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """The last n characters; all but the first -n where n is below 0."""
    number = _number("right(t, 2)", nodes, dtypes)
    if number:
        return call({"StringExpr": "Slice"}, nodes[0], literal(-number), {"Literal": {"Scalar": {"Null": "Null"}}})
    count = pl.col(NUMBER)
    before = pl.col(TEXT).str.len_chars().cast(pl.Int64) - count
    return _cut(pl.col(TEXT).str.slice(pl.when(count < 0).then(-count).when(before > 0).then(before).otherwise(0)), nodes)


def split_part(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """The n-th piece between separators; null where one of the three is."""
    need_arguments("split_part(t, '-', 2)", nodes, 3)
    for node, dtype in zip(nodes[:2], dtypes[:2], strict=True):
        need_text(node, dtype)
    names = (TEXT, BY, NUMBER)
    tree = to_tree("split_part({}, {}, {})".format(*(f'"{name}"' for name in names)))
    found = filled(tree, dict(zip(names, (*nodes[:2], integer(nodes[2])), strict=True)))
    for node in nodes[1:]:
        found = found if "Literal" in node else where(call({"Boolean": "IsNotNull"}, node), found)
    return found


def of_known(function: Node, inputs: list[Node]) -> Node:
    """A function of a text: null where one of its other arguments is, nothing replaced where what to replace is empty."""
    text, *others = inputs
    match function, others:
        case {"Replace": _}, [{"Literal": {"Scalar": {"String": ""}}}, _]:
            return text
        case {"Replace": _}, [old, new] if "Literal" not in old or new == NULL:
            raise ExpressionError(f"replace replaces one text, in quotes, by another, not {shown(old if 'Literal' not in old else new)}")
        case "Slice", [start, length] if "Literal" not in start:  # a start before the first character is that one
            before = operator(start, "Lt", literal(0))
            inputs = [text, where_else(before, literal(0), start), length]
    found = simple(function, inputs)
    for node in others:
        found = found if "Literal" in node else where(call({"Boolean": "IsNotNull"}, node), found)
    return found


def check_layout(layout: str, dtype: pl.DataType) -> None:
    """Raise ExpressionError for parts of a layout that DuckDB writes otherwise, or that a date does not have."""
    if not LAYOUT.fullmatch(layout):
        known = "%Y %m %d %H %M %S %y %j %b %B %a %A %I %p %U %W %u %w %V %G %%"
        raise ExpressionError(f"strftime writes {known}, of numbers also without zeros as in %-d, and {layout!r} has others")
    if dtype == pl.Date and HOURS.search(layout):
        raise ExpressionError(f"a date has no hours, which {layout!r} has: write strftime(cast(d as timestamp), ...)")


def _number(form: str, nodes: list[Node], dtypes: list[pl.DataType]) -> int | None:
    """The number of characters, where it stands there as it is."""
    need_arguments(form, nodes, 2)
    need_text(nodes[0], dtypes[0])
    match nodes[1]:
        case {"Literal": {"Dyn": {"Int": int(number)}}}:
            return number
    if not (dtypes[1].is_integer() or dtypes[1] == pl.Null):
        raise ExpressionError(f"the number of characters is a whole number, and {shown(nodes[1])} is {dtypes[1]}")
    return None


def _cut(expr: pl.Expr, nodes: list[Node]) -> Node:
    guarded_size(nodes[0])
    guarded_size(nodes[1])
    whole = pl.when(pl.col(TEXT).is_not_null() & pl.col(NUMBER).is_not_null()).then(expr)
    return filled(json.loads(whole.meta.serialize(format="json")), {TEXT: nodes[0], NUMBER: integer(nodes[1])})
