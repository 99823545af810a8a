"""Checks within an expression: a value that would be lost fails the run by name, an infinity is null and counted.

While an expression is checked and changed, a `Checked` node holds a value and the test of the rows in which it is lost, a `Counted` node
one and the test of the rows in which it would be infinite. `lowered` takes them out of the finished tree. Only rows whose answer needs the
value count: those that take the branch of a `case`, those where the values before it in a `coalesce` are null, those where the left side of
an `and` is not false. What is left are plain values, which fail nowhere by themselves, and one check before them all.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import polars as pl

from pipeline.errors import ExpressionError
from pipeline.sql.tree import (
    FALSE,
    NULL,
    TOO_DEEP,
    TRUE,
    Node,
    call,
    cast,
    divisor,
    from_tree,
    guarded_size,
    literal,
    operator,
    plain,
    where_else,
)

MARK = "check failed: "  # how the text of the error begins, for those who find it in an engine's own
MAX_BYTES = 400_000  # of the tests of an expression
SHOWN_COLUMNS = 4
Asked = tuple[str, ...]  # conditions of rows, as text


@dataclass(frozen=True)
class Problem:
    """What a check that failed says: what is wrong, the remedy, and the columns whose values show it."""

    what: str
    remedy: str
    columns: tuple[str, ...]
    key: str = ""  # of the stage's parameter, where it is known

    def __str__(self) -> str:
        return f"{self.what}. {self.remedy}"

    def text(self) -> str:
        """The problem as one text, which comes through an engine's error as it is."""
        return MARK + "|".join(re.sub(r'[%|"\s]', _escaped, piece) for piece in (self.key, self.what, self.remedy, *self.columns)).replace(
            "%20", " "
        )

    @staticmethod
    def found(error: str) -> Problem | None:
        """The problem in the text of an engine's error; None where it is of something else."""
        match = re.search(re.escape(MARK) + r'([^"\n]*)', error)
        if match is None:
            return None
        key, what, remedy, *columns = map(unquote, match[1].split("|"))
        return Problem(what, remedy, tuple(columns), key)


def checked(value: Node, test: Node, what: str, remedy: str) -> Node:
    """The value, and an error in the run where the test is true and the row's answer needs the value."""
    return {"Checked": {"value": value, "test": test, "what": what, "remedy": remedy}}


def counted(value: Node, test: Node) -> Node:
    """The value, null in the rows where the test finds an infinity that a float would be; such rows are counted."""
    return {"Counted": {"value": value, "test": test}}


def either(on_a_cpu: Node, anywhere: Node) -> Node:
    """One value in two forms: for Polars on a CPU, and for any engine."""
    return {"Either": {"on_a_cpu": on_a_cpu, "anywhere": anywhere}}


def loose(value: Node) -> Node:
    """A value that may be infinite, or NaN."""
    return {"Loose": value}


def tight(node: Node) -> Node:
    """The value without infinities: null in their place, and counted. Only sums, products and quotients take one as it is."""
    if "Loose" not in node:
        return node
    value = node["Loose"]
    guarded_size(value)
    finite = call({"Boolean": "IsFinite"}, value)
    return counted(where_else(finite, value, NULL), call({"Boolean": "Not"}, finite))


def dividing(node: Node) -> Node:
    """A divisor: null where it is 0, or infinite."""
    if "Loose" not in node:
        return divisor(node)
    value = node["Loose"]
    guarded_size(value)
    ends = [{"Literal": {"Scalar": {"Float64": end}}} for end in (math.ulp(0.0), sys.float_info.max)]
    within = call({"Boolean": {"IsBetween": {"closed": "Both"}}}, call("Abs", value), *ends)
    return counted(where_else(within, value, NULL), call({"Boolean": "Not"}, call({"Boolean": "IsFinite"}, value)))


def unmarked(node: Node) -> Node:
    """The value, infinities and all."""
    return node.get("Loose", node)


def core(node: Node) -> Node:
    """The node itself, without what is checked and counted of it."""
    match node:
        case {"Checked": {"value": value}} | {"Counted": {"value": value}} | {"Loose": value}:
            return core(value)
    return node


def expression(tree: Node) -> pl.Expr:
    """The tree as an expression, without its checks: for its type."""
    return from_tree(plain(tree))


def lowered(tree: Node, *, on_a_cpu: bool = False) -> tuple[pl.Expr, pl.Expr | None]:
    """The tree as an expression that fails where one of its checks does, and the rows in which it met an infinity; None where it cannot.

    `on_a_cpu`: for Polars there, and not for any engine. Raises ExpressionError where it is too deep or too large.
    """
    found = _Found({}, on_a_cpu)
    value = _lowered(tree, (), found)
    tests = list(found.tests())
    if sum(len(json.dumps(test)) for test, _ in tests) > MAX_BYTES:
        raise ExpressionError(TOO_DEEP)
    infinities = [from_tree(test) for test, problem in tests if problem is None]
    infinite = pl.any_horizontal(*infinities) if infinities else None
    texts = [where_else(test, literal(problem.text()), NULL) for test, problem in tests if problem is not None]
    if not texts:
        return from_tree(value), infinite
    fine = operator(cast(call("Coalesce", *texts, literal("0")), "Int8"), "Eq", {"Literal": {"Scalar": {"Int8": 0}}})
    return from_tree(where_else(fine, value, NULL)), infinite


def failing(value: pl.Expr, test: pl.Expr, problem: Problem) -> pl.Expr:
    """The values, and an error in the run where the test is true: a strict cast of a text that is no number, on a GPU too."""
    text = pl.when(test).then(pl.lit(problem.text())).otherwise(pl.lit("0"))
    return pl.when(text.cast(pl.Int8) == 0).then(value).otherwise(None)


@dataclass(frozen=True)
class _Found:
    """The tests of an expression, as text, with what is wrong there ('' for an infinity) and the conditions of the rows that ask for it."""

    asked: dict[tuple[str, str, str], list[Asked]]
    on_a_cpu: bool = False

    def add(self, test: Node, asked: Asked, what: str = "", remedy: str = "") -> None:
        """A test in the rows for which these conditions hold; nothing new where it is made in more rows already."""
        places = self.asked.setdefault((json.dumps(plain(test)), what, remedy), [])
        if not any(set(place) <= set(asked) for place in places):
            places.append(asked)

    def tests(self) -> Iterator[tuple[Node, Problem | None]]:
        """Every test with what its failing says; None for one of infinities."""
        for (text, what, remedy), places in self.asked.items():
            for place in places:
                test = json.loads(text)
                for condition in reversed(place):
                    test = operator(json.loads(condition), "And", test)
                columns = tuple(dict.fromkeys(from_tree(test).meta.root_names()))[:SHOWN_COLUMNS]
                yield test, Problem(what, remedy, columns) if what else None


def _lowered(node: Node, asked: Asked, found: _Found) -> Node:
    """The value without its checks, which are added to `found`; `asked` are the conditions of the rows that need it."""
    match node:
        case {"Checked": {"value": value, "test": test, "what": what, "remedy": remedy}}:
            value = _lowered(value, asked, found)
            found.add(test, asked, what, remedy)
            return value
        case {"Counted": {"value": value, "test": test}}:
            found.add(test, asked)
            return _lowered(value, asked, found)
        case {"Loose": value}:
            return _lowered(value, asked, found)
        case {"Either": {"on_a_cpu": here, "anywhere": anywhere}}:
            return _lowered(here if found.on_a_cpu else anywhere, asked, found)
        case {"Ternary": {"predicate": predicate, "truthy": yes, "falsy": no}}:
            predicate = _lowered(predicate, asked, found)
            yes, no = _lowered(yes, _with(asked, predicate), found), _lowered(no, _with(asked, _not(predicate)), found)
            return where_else(predicate, yes, no)
        case {"BinaryExpr": {"left": left, "op": "And" | "Or" as op, "right": right}}:
            left = _lowered(left, asked, found)
            decides = _not(call({"Boolean": "Not"}, left)) if op == "And" else _not(left)
            return operator(left, op, _lowered(right, _with(asked, decides), found))
        case {"Function": {"input": inputs, "function": "Coalesce"}}:
            values = list[Node]()
            for child in inputs:
                values.append(_lowered(child, asked, found))
                asked = _with(asked, call({"Boolean": "IsNull"}, values[-1]))
            return call("Coalesce", *values)
        case {"Literal": _}:
            return node
        case dict():
            return {key: _lowered(child, asked, found) for key, child in node.items()}
        case list():
            return [_lowered(child, asked, found) for child in node]
    return node


def _with(asked: Asked, condition: Node) -> Asked:
    return (*asked, json.dumps(condition))


def _not(condition: Node) -> Node:
    """True where the condition is false or null."""
    return where_else(condition, FALSE, TRUE)


def _escaped(match: re.Match[str]) -> Any:
    return f"%{ord(match[0]):02X}" if match[0].isascii() else " "
