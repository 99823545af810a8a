"""Lists and structures in an expression: a text split into a list, a list's values, a structure's fields."""

from __future__ import annotations

import polars as pl

from pipeline.errors import ExpressionError, near
from pipeline.sql.arguments import need_arguments, need_text, stated_text
from pipeline.sql.casts import made
from pipeline.sql.kinds import family
from pipeline.sql.spelling import NO_TABLE
from pipeline.sql.tree import Node, call, cast, integer, shown, where


def string_split(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """The pieces of a text between separators, its characters where the separator is empty; an empty text is one empty piece."""
    need_arguments("string_split(t, ',')", nodes, 2)
    need_text(nodes[0], dtypes[0])
    by = stated_text(nodes[1], "the separator of string_split")
    if by:
        return made(nodes[0], lambda text: text.str.split(by))
    return made(nodes[0], lambda text: pl.when(text == "").then(text.str.split(",")).otherwise(text.str.split("")))


def list_extract(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """A list's n-th value, counted from 1, from its end where n is below 0; null where there is none."""
    need_arguments("list_extract(l, 1)", nodes, 2)
    inner = _of_list(nodes[0], dtypes[0])
    if not dtypes[1].is_integer():
        raise ExpressionError(f"the place in a list is a whole number, and {shown(nodes[1])} is {dtypes[1]}")
    place = made(
        integer(nodes[1]),
        lambda n: pl.when(n > 0).then(n.cast(pl.Int64, strict=False) - 1).when(n < 0).then(n.cast(pl.Int64, strict=False)).otherwise(None),
    )
    return _finite(call({"ListExpr": {"Get": True}}, nodes[0], place), inner)


def list_contains(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """Whether a list holds a value; null where one of both is."""
    need_arguments("list_contains(l, 'a')", nodes, 2)
    inner, (values, value), other = _of_list(nodes[0], dtypes[0]), nodes, dtypes[1]
    if inner.is_integer() and other.is_integer():
        common: Node = "Int128"
    elif inner.is_numeric() and other.is_numeric():
        common = "Float64"
    elif family(inner) == family(other) == "text":
        common = "String"
    elif inner == other or other == pl.Null:
        return where(call({"Boolean": "IsNotNull"}, value), _holds(values, value))
    else:
        raise ExpressionError(f"list_contains looks for {shown(value)} ({other}) in a list of {inner}: cast it to that type")
    return where(call({"Boolean": "IsNotNull"}, value), _holds(cast(values, {"List": common}), cast(value, common)))


def field(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """A structure's field."""
    (owner, _), dtype, name = nodes, dtypes[0], stated_text(nodes[1], "the name of a field")
    if not isinstance(dtype, pl.Struct):
        raise ExpressionError(f"{shown(owner)} is {dtype} and has no fields; {NO_TABLE}")
    fields = pl.Schema(dtype.to_schema())
    if name not in fields:
        raise ExpressionError(f"{shown(owner)} has no field {name!r}.{near(name, fields)}")
    return _finite(call({"StructExpr": {"FieldByName": name}}, owner), fields[name])


def _of_list(node: Node, dtype: pl.DataType) -> pl.DataType:
    """The type of a list's values; ExpressionError for what is no list."""
    match dtype:
        case pl.List(inner=pl.DataType() as inner) | pl.Array(inner=pl.DataType() as inner):
            return inner
    raise ExpressionError(f"{shown(node)} is {dtype}, which is no list: string_split(t, ',') makes one of a text")


def _holds(values: Node, value: Node) -> Node:
    return call({"ListExpr": {"Contains": {"nulls_equal": False}}}, values, value)


def _finite(value: Node, dtype: pl.DataType) -> Node:
    """The values with null for NaN and infinities, which lists and structures of a file may hold."""
    return where(call({"Boolean": "IsFinite"}, value), value) if dtype.is_float() else value
