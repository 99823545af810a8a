"""The casts of an expression: exact, or rounded as the page says; a value that does not fit fails the run, or is null in `try_cast`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import polars as pl

from pipeline.sql.alike import dated
from pipeline.sql.checks import checked, counted
from pipeline.sql.conversion import converted, infinite_in, loses, lost
from pipeline.sql.dates import zone_of
from pipeline.sql.tree import Node, call, cast, guarded_size, strptime

Unit = Literal["ns", "us", "ms"]
TIME_UNITS: dict[Unit, str] = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds"}  # from the finest
HOLE = "value that is cast"
TRY = "try_cast makes it null"


def cast_value(child: Node, old: pl.DataType, dtype: Node, new: pl.DataType, *, strict: bool) -> Node:
    """The cast of a node of the type `old` to `new`, which is `dtype` as Polars writes it."""
    if old.base_type() in {pl.Categorical, pl.Enum}:  # whose numbers are those of a list that nobody sees
        child, old = cast(child, "String", "NonStrict"), pl.String()
    if old == pl.String and new.is_temporal():
        return cast_text(child, dtype, {"format": None, "strict": strict})
    if not loses(old, new):
        return made(child, lambda value: converted(value, old, new))
    if strict and not new.is_float():
        return _fitting(child, old, new, f"{TRY}.")
    answer = made(child, lambda value: converted(value, old, new))
    infinite = infinite_in(pl.col(HOLE), old, new)
    if infinite is not None:
        answer = counted(answer, made(child, lambda _: infinite))
    test = made(child, lambda value: lost(value, converted(value, old, new), old, new))
    return checked(answer, test, f"cast to {new}: a value does not fit", f"{TRY}.") if strict else answer


def at_one_unit(nodes: Sequence[Node], dtypes: Sequence[pl.DataType], what: str) -> list[Node]:
    """Timestamps and intervals that meet, all in the finest unit of them: Polars would take the coarsest. One beyond it fails the run."""
    timed = [dtype for dtype in dtypes if isinstance(dtype, pl.Datetime | pl.Duration)]
    units = {dtype.time_unit for dtype in timed}
    finest: Unit = next((unit for unit in TIME_UNITS if unit in units), "us")
    if len(units) < 2 and finest != "ns":
        return list(nodes)
    found = []
    for node, dtype in zip(nodes, dtypes, strict=True):
        to = dtype
        if isinstance(dtype, pl.Datetime) or (dtype == pl.Date and any(isinstance(other, pl.Datetime) for other in timed)):
            to = pl.Datetime(finest, zone_of(dtype))
        elif isinstance(dtype, pl.Duration):
            to = pl.Duration(finest)
        remedy = f"{what} counts {TIME_UNITS[finest]} here: cast those that do, as in cast(s as timestamp)."
        found.append(node if to == dtype else _fitting(node, dtype, to, remedy))
    return found


def _fitting(child: Node, old: pl.DataType, new: pl.DataType, remedy: str) -> Node:
    answer = made(child, lambda value: converted(value, old, new))
    test = made(child, lambda value: lost(value, converted(value, old, new), old, new))
    return checked(answer, test, f"cast to {new}: a value does not fit", remedy)


def cast_text(child: Node, dtype: Node, options: Node) -> Node:
    """Text as a date or timestamp; where `options` are strict, text that does not fit fails the run."""
    answer = _all_read(strptime(child, dtype, {**options, "strict": False}))
    if not options["strict"] or "Literal" in answer:
        return answer
    what, layout = ("date", "2020-06-01") if dtype == "Date" else ("timestamp", "2020-06-01 10:20:30")
    test = {"BinaryExpr": {"left": _boolean("IsNotNull", child), "op": "And", "right": _boolean("IsNull", answer)}}
    form = options["format"] or layout
    return checked(answer, test, f"a text is no {what} as {form}", f"{TRY}; strptime(t, '...') takes another form.")


def _all_read(node: Node) -> Node:
    """A text read in a stated format, all of it; any other node as it is."""
    match node:
        case {"Function": {"input": [text, *others], "function": {"StringExpr": {"Strptime": [_, {"format": str(layout)}]}} as function}}:
            return call(function, made(text, lambda value: dated(value, layout)), *others)
    return node


def _boolean(name: str, node: Node) -> Node:
    return {"Function": {"input": [node], "function": {"Boolean": name}}}


def made(child: Node, rule: Callable[[pl.Expr], pl.Expr]) -> Node:
    """What a rule makes of a node."""
    guarded_size(child)
    return filled(json.loads(rule(pl.col(HOLE)).meta.serialize(format="json")), {HOLE: child})


def filled(tree: Any, children: Mapping[str, Node]) -> Node:
    """A tree with nodes in the place of some of its columns."""
    match tree:
        case {"Column": str(name)} if name in children:
            return children[name]
        case dict():
            return {key: filled(value, children) for key, value in tree.items()}
        case list():
            return [filled(value, children) for value in tree]
    return tree
