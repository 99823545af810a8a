"""The nodes of an expression, checked one by one and changed where Polars would answer otherwise than docs/expressions.md says.

A division by zero, a logarithm of 0 and the like are null; lengths, date parts and whole numbers in arithmetic are Int64. Kinds of nodes
that are not named here are refused: nothing that looks at other rows gets through, and nothing that a later Polars learns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from pipeline.errors import ExpressionError
from pipeline.sql.alike import rounded
from pipeline.sql.arithmetic import Arithmetic, aligned, beyond
from pipeline.sql.casts import at_one_unit, cast_text, cast_value, made
from pipeline.sql.checks import core, counted, expression, tight
from pipeline.sql.conversion import is_fine
from pipeline.sql.cut import check_layout, of_known
from pipeline.sql.dates import PARTS, check_one_clock, check_whole_days, epoch, for_cast, local
from pipeline.sql.kinds import COMPARISONS, LOGIC, TYPES, family
from pipeline.sql.own import OWN
from pipeline.sql.spelling import MARK
from pipeline.sql.tree import SIGNS, Node, call, cast, integer, operator, place, polars_errors, shown, where
from pipeline.sql.whole import number
from pipeline.sql.windows import OF_OTHER_ROWS

NUMERIC = {"Abs", "Sign", "Ceil", "Floor", "Round", "Truncate", "Exp", "Log", "Log1p", "Pow", "Trigonometry", "Atan2"}
OUTGROWING = {"Exp", "Generic", "Degrees"}
UNBOUNDED = OUTGROWING | {"Log", "Log1p", "Sqrt", "ArcSin", "ArcCos", "Cot"}
ROWWISE: list[Node] = [{"Boolean": "IsNull"}, {"Boolean": "IsNotNull"}, {"ListExpr": {"Get": True}}]
ONE_KIND = {"Coalesce", "MaxHorizontal", "MinHorizontal", "FillNull"}


@dataclass(frozen=True)
class Checker:
    """Checks the nodes of a tree from the leaves up and gives them back as they shall run; by the types of a schema."""

    schema: pl.Schema
    arithmetic: Arithmetic = field(default_factory=Arithmetic)

    def node(self, node: Node) -> Node:
        """The node as it shall run, without infinities; raises ExpressionError."""
        return tight(self._node(node))

    def _node(self, node: Node) -> Node:
        match node:
            case {"Column": _} | {"Literal": {"Dyn": _}}:
                return node
            case {"Literal": {"Scalar": scalar}} if "Binary" not in scalar:
                return node
            case {"Cast": {"expr": child, "dtype": {"Literal": dtype}, "options": options}}:
                return self._cast(self.node(child), dtype, options)
            case {"BinaryExpr": _}:
                return self._operator(node)
            case {"Ternary": {"predicate": predicate, "truthy": yes, "falsy": no}}:
                predicate, yes, no = self.node(predicate), integer(self.node(yes)), integer(self.node(no))
                self._need("a condition", {"condition"}, predicate)
                yes, no = self._one_kind("the values of case, if or nullif", yes, no)
                return {"Ternary": {"predicate": predicate, "truthy": yes, "falsy": no}}
            case {"Function": {"input": [child, {"Literal": {"Series": _}} as values], "function": {"Boolean": {"IsIn": _}} as function}}:
                child = self.node(child)
                check_one_clock((child, values), [self._dtype(child), pl.Date()], "`in`")
                child = self._in_microseconds(child)
                return call(function, child, values)
            case {"Function": {"input": [{"Literal": {"Scalar": {"String": str(name)}}}, *inputs], "function": "Coalesce"}} if (
                name[:1] == MARK
            ):
                nodes = [self.node(child) for child in inputs]
                return OWN[name[1:]](nodes, self._dtypes(*nodes))
            case {"Function": {"input": inputs, "function": function}}:
                return self._function(function, [self.node(child) for child in inputs])
            case {"Alias": _}:
                raise ExpressionError(
                    "a value has no name here: take away what follows it (`as ...`, or a word where an operator or comma is missing)"
                )
            case {"Agg": _} | {"Over": _} | "Len":
                raise ExpressionError(f"it looks at other rows: {OF_OTHER_ROWS}")
            case {"Selector": _}:
                raise ExpressionError("it stands for many columns, and an expression is one value: name the column")
        raise ExpressionError("lists, bytes, queries and the like are not supported in an expression: docs/expressions.md says what is")

    def _in_microseconds(self, child: Node) -> Node:
        """A timestamp as those of a list, which count microseconds."""
        dtype = self._dtype(child)
        if is_fine(dtype):
            raise ExpressionError("`in` compares microseconds, and that has nanoseconds: cast it, as in cast(s as timestamp), or write `=`")
        return at_one_unit((child, child), (dtype, pl.Datetime("us")), "`in`")[0] if isinstance(dtype, pl.Datetime) else child

    def _operator(self, node: Node) -> Node:
        match node:
            case {"BinaryExpr": {"left": {"Cast": {"dtype": to}} as left, "op": "Plus", "right": {"Cast": {"dtype": also}} as right}} if (
                to == also == {"Literal": "String"}  # this is how `||` comes
            ):
                return operator(self.node(left), "Plus", self.node(right))
            case {
                "BinaryExpr": {"left": {"BinaryExpr": {"left": {"Function": {"input": [moment], "function": function}}}}, "op": "Plus"}
            } if (
                function == {"TemporalExpr": {"TimeStamp": "Nanoseconds"}}  # this is how date_part('epoch') comes
            ):
                moment = self.node(moment)
                self._need("a date or timestamp", {"date", "null"}, moment)
                return epoch(moment, self._dtype(moment))
        left, op, right = (node["BinaryExpr"][part] for part in ("left", "op", "right"))
        given = self._node if op in SIGNS else self.node
        return self._binary(given(left), op, given(right))

    @cached_property
    def _rows(self) -> pl.LazyFrame:
        """No rows of these columns; to make them takes longer than to ask them for a type."""
        return pl.LazyFrame(schema=self.schema)

    def _dtype(self, node: Node) -> pl.DataType:
        with polars_errors():
            return self._rows.select(value=expression(node)).collect_schema()["value"]

    def _need(self, what: str, wanted: set[str], *nodes: Node) -> None:
        """Refuse nodes of other families than those wanted."""
        for node in nodes:
            dtype = self._dtype(node)
            if family(dtype) not in wanted:
                raise ExpressionError(
                    f"{what} is needed where {shown(node)} stands, which is {dtype}: compare or cast it, as in cast(x as double)"
                )

    def _dtypes(self, *nodes: Node) -> list[pl.DataType]:
        """The nodes' types."""
        return [self._dtype(node) for node in nodes]

    def _one_kind(self, what: str, *nodes: Node) -> list[Node]:
        """Refuse nodes of different families, null aside; beside UInt64 whole numbers become it."""
        dtypes = self._dtypes(*nodes)
        families = {family(dtype) for dtype in dtypes} - {"null"}
        if len(families) > 1:
            listed = " and ".join(f"{shown(node)} ({dtype})" for node, dtype in zip(nodes, dtypes, strict=True))
            remedy = "write a date as date '2020-06-01'" if families == {"date", "text"} else "cast one of them, as in cast(x as double)"
            raise ExpressionError(f"{what} must be of one kind, and are {listed}: {remedy}")
        check_one_clock(nodes, dtypes, what)
        return aligned(at_one_unit(nodes, dtypes, what), dtypes, what)

    def _cast(self, child: Node, dtype: Node, options: str) -> Node:
        name = dtype if isinstance(dtype, str) else next(iter(dtype))
        if not TYPES.fullmatch(name):
            raise ExpressionError(
                f"a cast to {name} is not supported: cast to int, bigint, double, varchar, boolean, date, timestamp or decimal(p, s)"
            )
        match core(child), name:
            case {"Literal": {"Scalar": {"String": digits}}}, "UInt64" if digits.isdecimal():
                return number(int(digits), "UInt64")  # how the text of a number beyond Int64 comes
            case {"BinaryExpr": {"op": "FloorDivide"}}, "Int64" if options == "NonStrict" and self._dtypes(child) == [pl.UInt64()]:
                return child
        old = self._dtype(child)
        if name == "Boolean" and family(old) == "text":
            raise ExpressionError(f"{shown(child)} is a text, and no cast makes a condition of it: compare it, as in t = 'true'")
        child = for_cast(integer(child), old, name)
        return cast_value(child, self._dtype(child), dtype, self._dtype(cast(child, dtype, "NonStrict")), strict=options == "Strict")

    def _binary(self, left: Node, op: str, right: Node) -> Node:
        if op in LOGIC:
            self._need(f"a condition beside `{LOGIC[op]}`", {"condition", "null"}, left, right)
        elif op in COMPARISONS:
            if (known := beyond(left, op, right, self._dtypes(left, right))) is not None:
                return known
            left, right = self._one_kind(f"both sides of `{COMPARISONS[op]}`", left, right)
        elif op in SIGNS:
            self._need(f"a number beside `{SIGNS[op]}`", {"number", "date", "duration", "null"}, left, right)
            one, two = self._dtypes(left, right)
            check_one_clock((left, right), (one, two), f"`{SIGNS[op]}`")
            check_whole_days((left, right), (one, two))
            if one.is_temporal() and two.is_temporal():
                left, right = at_one_unit((left, right), (one, two), f"`{SIGNS[op]}`")
            return self.arithmetic.operator(left, op, right, (one, two))
        else:
            raise ExpressionError(f"the operator {op} is not supported")
        return operator(left, op, right)

    def _function(self, function: Node, inputs: list[Node]) -> Node:
        group, detail = (function, function) if isinstance(function, str) else next(iter(function.items()))
        if group in NUMERIC:
            return self._numeric(function, detail, inputs)
        if group in ONE_KIND:
            inputs = [integer(node) for node in inputs]
            inputs = self._one_kind("the values of coalesce, ifnull, greatest or least", *inputs)
            return call(function, *inputs)
        if group == "StringExpr":
            return self._text(detail, inputs)
        if group == "TemporalExpr":
            return self._temporal(function, detail, inputs)
        if group == "Boolean" and detail == "Not":
            match inputs:
                case [{"Cast": {"expr": child, "dtype": {"Literal": "Boolean"}}}]:
                    self._need("a condition after `not`", {"condition", "null"}, child)
        elif function not in ROWWISE and group != "Clip":  # substr of a column's numbers clips them
            raise ExpressionError(f"{detail if isinstance(detail, str) else group} is not supported: docs/expressions.md says what is")
        return call(function, *inputs)

    def _numeric(self, function: Node, detail: Node, inputs: list[Node]) -> Node:
        """Null where the answer is no finite number: a logarithm of 0, a root of -1."""
        self._need("a number", {"number", "null"}, *inputs)
        if function == "Abs" and (dtypes := self._dtypes(*inputs)):
            return self.arithmetic.absolute(inputs[0], dtypes[0])
        if detail == "Generic":
            inputs = [cast(inputs[0], "Float64"), *inputs[1:]]
        match function:
            case {"Round": {"decimals": decimals}} if (dtype := self._dtype(inputs[0])).is_float():
                return made(inputs[0], lambda value: rounded(value, decimals, dtype))
        answer = call(function, *inputs)
        if str(detail) not in UNBOUNDED:
            return answer
        answer = where(call({"Boolean": "IsFinite"}, answer), answer)
        return counted(answer, call({"Boolean": "IsInfinite"}, call(function, *inputs))) if str(detail) in OUTGROWING else answer

    def _text(self, detail: Node, inputs: list[Node]) -> Node:
        match detail:
            case {"ConcatHorizontal": _}:
                return call({"StringExpr": detail}, *inputs)
            case {"Strptime": [{"Literal": dtype}, options]}:
                self._need("a text", {"text", "null"}, inputs[0])
                return cast_text(inputs[0], dtype, options)
        if detail == "LenChars" and isinstance(self._dtype(inputs[0]), pl.List):
            return cast(call({"ListExpr": "Length"}, inputs[0]), "Int64")
        self._need("a text", {"text", "null"}, inputs[0])
        if "Find" in detail:
            return place(*inputs)
        answer = of_known(detail, inputs)
        return cast(answer, "Int64") if detail in ("LenChars", "LenBytes") else answer

    def _temporal(self, function: Node, detail: Node, inputs: list[Node]) -> Node:
        self._need("a date or timestamp", {"date", "null"}, inputs[0])
        if detail == "OffsetBy":
            check_whole_days(inputs, self._dtypes(*inputs))
        if isinstance(detail, str) and PARTS.fullmatch(detail):
            return self.arithmetic.small(cast(call(function, local(inputs[0], self._dtype(inputs[0]))), "Int64"))
        if "ToString" in detail:
            check_layout(str(detail["ToString"]), self._dtype(inputs[0]))
        if detail == "OffsetBy" or "ToString" in detail or "TimeStamp" in detail:
            return call(function, *inputs)
        raise ExpressionError(f"the part {detail} of a date is not supported: docs/expressions.md says what is")
