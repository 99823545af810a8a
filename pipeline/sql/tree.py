"""Trees of expressions: the JSON that Polars writes of them, every node {kind: body}, read, written and put together."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl

from pipeline.errors import ExpressionError

Node = Any
"""A node of a tree, {kind: body}, as Polars writes it."""

MAX_STEPS = 3_000
MAX_LEVELS = 120  # of nested JSON, two or three a level of the expression; Polars reads back 128
MAX_GUARDED = 40_000  # characters of what a guard repeats
TOO_DEEP = (
    "the expression is nested too deeply or is too long a chain of operators: use `in (...)`, or derive a part of it in a stage before"
)

NULL: Node = {"Literal": {"Scalar": {"Null": "Null"}}}
TRUE: Node = {"Literal": {"Scalar": {"Boolean": True}}}
FALSE: Node = {"Literal": {"Scalar": {"Boolean": False}}}
SIGNS = {"Plus": "+", "Minus": "-", "Multiply": "*", "TrueDivide": "/", "FloorDivide": "//", "Modulus": "%", "RustDivide": "/"}


@contextmanager
def polars_errors() -> Iterator[None]:
    """Whatever Polars makes of an expression, its panics included, as an ExpressionError of one line."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        first = re.sub(r" as Expr$", "", str(error).strip().partition("\n")[0])
        first = re.sub(r"^(expression|value) (\w+)\W.*", r"\2 is not supported", first)
        raise ExpressionError(f"Polars refuses the expression: {first[:300]}") from error


def to_tree(text: str) -> Node:
    """Polars' tree of the text, if it is small: a few dozen nested nullif would be billions of nodes."""
    with polars_errors():
        expr = pl.sql_expr(text)
        waiting, steps = [(expr, 1)], 0
        while waiting:
            part, level = waiting.pop()
            steps += 1
            if steps > MAX_STEPS or level > MAX_LEVELS:
                raise ExpressionError(TOO_DEEP)
            waiting.extend((child, level + 1) for child in part.meta.pop())
        return json.loads(expr.meta.serialize(format="json"))


def from_tree(tree: Node) -> pl.Expr:
    """The tree as an expression; raises ExpressionError where it is too deep to be read back."""
    text = json.dumps(tree)
    level = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text)):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    if deepest > MAX_LEVELS:
        raise ExpressionError(TOO_DEEP)
    with polars_errors():
        return pl.Expr.deserialize(io.StringIO(text), format="json")


def integer(node: Node) -> Node:
    """A whole number as Int64, where it would otherwise take the narrowest type at hand and overflow."""
    match node:
        case {"Literal": {"Dyn": {"Int": int(value)}}}:
            return {"Literal": {"Scalar": {"Int64": value}}}
    return node


def written(node: Node) -> int | None:
    """The value of a whole number that stands in the expression, None for any other node."""
    match node:
        case {"Literal": {"Dyn": {"Int": int(value)}}} | {"Literal": {"Scalar": {"Int64": int(value)} | {"UInt64": int(value)}}}:
            return value
    return None


def literal(value: dt.date | str | float) -> Node:
    """A value."""
    return json.loads(pl.lit(value).meta.serialize(format="json"))


def call(function: Node, *inputs: Node) -> Node:
    """A function of its inputs."""
    return {"Function": {"input": list(inputs), "function": function}}


def cast(node: Node, dtype: Node, options: str = "Strict") -> Node:
    """A cast; Strict fails on a value that does not fit, NonStrict makes it null."""
    return {"Cast": {"expr": node, "dtype": {"Literal": dtype}, "options": options}}


def operator(left: Node, op: str, right: Node) -> Node:
    """An operator between two nodes."""
    return {"BinaryExpr": {"left": left, "op": op, "right": right}}


def where(condition: Node, value: Node) -> Node:
    """`value` where the condition holds, else null; both hold the same part twice, so its size is bounded."""
    guarded_size(value)
    return where_else(condition, value, NULL)


def plain(node: Node) -> Node:
    """The tree without its checks, as any engine takes it."""
    match node:
        case {"Checked": {"value": value}} | {"Counted": {"value": value}} | {"Loose": value}:
            return plain(value)
        case {"Either": {"anywhere": value}}:
            return plain(value)
        case dict():
            return {key: plain(child) for key, child in node.items()}
        case list():
            return [plain(child) for child in node]
    return node


def guarded_size(value: Node) -> None:
    """Raise ExpressionError where a part is too large to be repeated in a guard."""
    if len(json.dumps(plain(value))) > MAX_GUARDED:
        raise ExpressionError(TOO_DEEP)


def where_else(condition: Node, value: Node, other: Node) -> Node:
    """`value` where the condition holds, else `other`."""
    return {"Ternary": {"predicate": condition, "truthy": value, "falsy": other}}


def shown(node: Node) -> str:
    """What an error calls a node."""
    match node:
        case {"Column": name}:
            return f"the column {name!r}"
        case {"Literal": {"Scalar": scalar} | {"Dyn": scalar}}:
            return repr(next(iter(scalar.values())))
    return "a part of it"


def signs(op: str) -> str:
    """How an operator is written."""
    return SIGNS.get(op, op.lower())


def divisor(node: Node) -> Node:
    """A divisor, null where it is 0."""
    match node:
        case {"Literal": {"Scalar": {"Int64": int(value)} | {"UInt64": int(value)}} | {"Dyn": {"Float": float(value)}}} if value:
            return node
    return where(operator(node, "NotEq", literal(0)), node)


def simple(function: Node, inputs: list[Node]) -> Node:
    """A text function in a form that cuDF has too, where there is one: like by its ends."""
    match function, inputs:
        case {"Contains": _}, [text, {"Literal": {"Scalar": {"String": str(pattern)}}}]:
            like = re.fullmatch(r"\^\(\?s\)(\.\*)?((?:[^\\.*+?()\[\]{}|^$]|\\[\W_])*?)(\.\*)?\$", pattern, re.DOTALL)
            if like and (like[1] or like[3]):
                kind = "StartsWith" if not like[1] else "EndsWith" if not like[3] else {"Contains": {"literal": True, "strict": True}}
                return call({"StringExpr": kind}, text, literal(re.sub(r"\\(.)", r"\1", like[2])))
            if pattern.startswith("^(?s)"):  # like again: cuDF has no flags, and its '.' no ends of lines
                anything = re.sub(r"(\\.)|\.", lambda found: found[1] or r"[\s\S]", "^" + pattern.removeprefix("^(?s)"), flags=re.DOTALL)
                return call({"StringExpr": function}, text, literal(anything))
    return call({"StringExpr": function}, *inputs)


def place(text: Node, other: Node) -> Node:
    """Characters before the other text, as it is written; null where it does not occur: Polars counts bytes, of a regular expression."""
    none = literal(0)
    match other:
        case {"Literal": {"Scalar": {"String": ""}}}:
            before = _slice(text, none)
        case {"Literal": {"Scalar": {"String": _}}}:
            before = _before(text, other)
        case _:  # by a column cuDF neither splits nor slices, and says so of the slice alone before it runs
            length = call({"StringExpr": "LenChars"}, other)
            start = _slice(other, operator(length, "Minus", length))
            text = call({"StringExpr": {"ConcatHorizontal": {"delimiter": "", "ignore_nulls": False}}}, start, text)
            before = where_else(operator(other, "Eq", literal("")), start, _before(text, other))
    found = call({"StringExpr": {"Contains": {"literal": True, "strict": True}}}, text, other)
    return where(found, cast(call({"StringExpr": "LenChars"}, before), "Int64"))


def _slice(text: Node, length: Node) -> Node:
    return call({"StringExpr": "Slice"}, text, literal(0), length)


def _before(text: Node, other: Node) -> Node:
    return call({"StructExpr": {"FieldByName": "field_0"}}, call({"StringExpr": {"SplitN": 2}}, text, other))


def strptime(child: Node, dtype: Node, options: Node) -> Node:
    """Text to date or timestamp in a stated format: never one guessed from a part's first row, and without the cache that cuDF has not."""
    match child:
        case {"Literal": {"Scalar": {"String": str(text)}}} if options["format"] is None:
            kind, example = (dt.date, "2020-06-01") if dtype == "Date" else (dt.datetime, "2020-06-01 10:20:30")
            try:
                return literal(kind.fromisoformat(text))
            except ValueError:
                raise ExpressionError(f"{text!r} is no {'date' if dtype == 'Date' else 'timestamp'}: write it as '{example}'") from None
    stated = {"format": options["format"] or ("%Y-%m-%d" if dtype == "Date" else "%Y-%m-%d %H:%M:%S"), "exact": True, "cache": False}
    return call({"StringExpr": {"Strptime": [{"Literal": dtype}, options | stated]}}, child, literal("raise"))
