"""Operators between numbers, by their types: integers in 64 bits, decimals exact, all else in floats.

Polars' own choice of a type would wrap round (Int32 * Int32), go through floats (UInt64 % 10) or cut digits (decimals * decimals).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.errors import ExpressionError
from pipeline.sql.alike import remainder
from pipeline.sql.checks import dividing, either, loose, tight, unmarked
from pipeline.sql.scaled import DIGITS, Scaled
from pipeline.sql.tree import NULL, TRUE, Node, call, cast, divisor, integer, literal, operator, plain, shown, signs, where_else, written
from pipeline.sql.whole import Whole, limits, number, outgrown

LEAST = -(2**63)
NEAR = 2**62  # a divisor up to here, added to what it leaves, is no more than Int64 holds
SLASHES = {"TrueDivide", "RustDivide"}
TURNED = {"Lt": "Gt", "Gt": "Lt", "LtEq": "GtEq", "GtEq": "LtEq"}
FAINT = 1e29  # what is added to a finite float, of 32 bits too, and cannot make it infinite


def beyond(left: Node, op: str, right: Node, dtypes: Sequence[pl.DataType]) -> Node | None:
    """A comparison with a whole number below all of UInt64, or above all of a signed type, as it is in every row; None for any other."""
    if written(right) is None:
        left, op, right, dtypes = right, TURNED.get(op, op), left, dtypes[::-1]
    value, dtype = written(right), dtypes[0]
    if value is None or written(left) is not None or not (dtype.is_signed_integer() or dtype == pl.UInt64):
        return None
    below, above = dtype == pl.UInt64 and value < 0, dtype != pl.UInt64 and value > -LEAST - 1
    if not (below or above):
        return None
    least = number(0, "UInt64") if below else number(LEAST, "Int64")
    never = operator(left, "Lt", least)  # and null where the other side is
    if op.endswith("Validity"):
        return operator(never, op, TRUE)
    return operator(left, "GtEq", least) if op in {"NotEq", *(("Gt", "GtEq") if below else ("Lt", "LtEq"))} else never


def aligned(nodes: Sequence[Node], dtypes: Sequence[pl.DataType], what: str) -> list[Node]:
    """Values that meet in one place: decimals of one scale; beside UInt64 whole numbers are UInt64 too, and signed columns are refused."""
    decimals = {dtype for dtype in dtypes if isinstance(dtype, pl.Decimal)}
    if len(decimals) > 1:  # Polars takes the greatest scale and the greatest count of digits, which together hold neither
        to = {"Decimal": [DIGITS, max(dtype.scale for dtype in decimals)]}
        return [cast(node, to) if dtype in decimals else node for node, dtype in zip(nodes, dtypes, strict=True)]
    if pl.UInt64 not in dtypes:
        return list(nodes)
    for node, dtype in zip(nodes, dtypes, strict=True):
        value = written(node)
        if dtype.is_signed_integer() and (value is None or value < 0):
            other = nodes[list(dtypes).index(pl.UInt64())]
            raise ExpressionError(
                f"{what} would mix {shown(other)} (UInt64) and {shown(node)} ({dtype}), which no integer type holds: "
                "cast one of them, as in cast(x as bigint), or both to double where rounded numbers will do"
            )
    return [_unsigned(node, dtype) for node, dtype in zip(nodes, dtypes, strict=True)]


def _unsigned(node: Node, dtype: pl.DataType) -> Node:
    value = written(node)
    if value is not None:
        return number(value, "UInt64")
    return cast(node, "UInt64", "NonStrict") if dtype.is_unsigned_integer() and dtype != pl.UInt64 else node


class Arithmetic:
    """The operators of one expression; remembers what it made, so that chains of them are checked once."""

    def __init__(self) -> None:
        self._wholes: dict[int, tuple[Node, Whole]] = {}
        self._digits: dict[int, tuple[Node, int]] = {}
        self._scaled: dict[int, Scaled] = {}  # of nodes that have digits

    def small(self, node: Node) -> Node:
        """The node, remembered as integers that 32 bits hold: a part of a date."""
        return self._remembered(node, Whole(node, cast(node, "Float64", "NonStrict"), (), *limits(pl.Int32()), "Int64"))

    def operator(self, left: Node, op: str, right: Node, dtypes: tuple[pl.DataType, pl.DataType]) -> Node:
        """The operator between numbers of these types, as it shall run; raises ExpressionError where no type holds both."""
        decimal = any(dtype.is_decimal() for dtype in dtypes)
        if op in SLASHES:
            return _floats(left, op, right, dtypes)
        if decimal and all(dtype.is_decimal() or dtype.is_integer() for dtype in dtypes):
            return self._decimals(left, op, right, dtypes)
        if all(dtype.is_integer() for dtype in dtypes):
            return self._integers(left, op, right, dtypes)
        return _floats(left, op, right, dtypes)

    def absolute(self, node: Node, dtype: pl.DataType) -> Node:
        """The number without its sign; the least of Int64 has none and fails."""
        if not dtype.is_signed_integer():
            return call("Abs", node)
        whole = self._whole(integer(node), dtype, "Int64")
        answer = call("Abs", whole.node("Abs"))
        if whole.least > LEAST:
            return answer
        return outgrown(answer, operator(whole.wrapped, "Eq", number(LEAST, "Int64")), "abs", "Int64")

    def _integers(self, left: Node, op: str, right: Node, dtypes: tuple[pl.DataType, pl.DataType]) -> Node:
        if op == "Minus" and written(left) == 0 and written(right) == -LEAST:
            return number(LEAST, "Int64")  # -9223372036854775808, whose digits alone are UInt64
        left, right = aligned((left, right), dtypes, f"`{signs(op)}`")
        dtype = "UInt64" if pl.UInt64 in dtypes else "Int64"
        one, two = self._whole(left, dtypes[0], dtype), self._whole(right, dtypes[1], dtype)
        if op in {"Plus", "Minus", "Multiply"}:
            both = one.combined(op, two)
            return self._remembered(both.node(op), both)
        by = two.node(op)
        known = written(right)
        if op == "Modulus" and (known is None or abs(known) > NEAR):
            return remainder(one.node(op), divisor(by))
        answer = operator(one.node(op), op, divisor(by))
        if op == "FloorDivide" and one.least == LEAST and two.least <= -1 <= two.most:
            alone = operator(operator(one.wrapped, "Eq", number(LEAST, dtype)), "And", operator(by, "Eq", number(-1, dtype)))
            return outgrown(answer, alone, op, dtype)
        return answer

    def _decimals(self, left: Node, op: str, right: Node, dtypes: tuple[pl.DataType, pl.DataType]) -> Node:
        if op not in {"Plus", "Minus", "Multiply"}:
            raise ExpressionError(f"`{signs(op)}` is not there for decimals: cast both sides, as in cast(x as double) or cast(x as bigint)")
        scales = [dtype.scale if isinstance(dtype, pl.Decimal) else 0 for dtype in dtypes]
        digits = [self._digits_of(node, dtype) for node, dtype in _pairs(left, right, dtypes)]
        if op == "Multiply":
            scale, needed = sum(scales), sum(digits)
            if needed > DIGITS:
                return operator(cast(left, "Float64", "NonStrict"), op, cast(right, "Float64", "NonStrict"))
        else:
            scale = max(scales)
            needed = max(count - own for count, own in zip(digits, scales, strict=True)) + scale + 1
        to = {"Decimal": [DIGITS, scale]}
        answer = operator(cast(left, to, "NonStrict"), op, cast(right, to, "NonStrict"))
        if needed > DIGITS:
            answer = _within_digits(left, op, right, scale)
        elif (both := self._both_scaled(left, op, right, dtypes)) is not None:
            answer = either(both.decimals(), answer) if both.multiplied else answer
            self._scaled[id(answer)] = both
        self._digits[id(answer)] = (answer, min(needed, DIGITS))
        return answer

    def _both_scaled(self, left: Node, op: str, right: Node, dtypes: tuple[pl.DataType, pl.DataType]) -> Scaled | None:
        one, two = (self._scaled.get(id(node)) or Scaled.of(node, dtype) for node, dtype in _pairs(left, right, dtypes))
        return None if one is None or two is None else one.combined(op, two)

    def _digits_of(self, node: Node, dtype: pl.DataType) -> int:
        """The most digits that numbers of a node can have, as decimals."""
        if id(node) in self._digits:
            return self._digits[id(node)][1]
        value = written(node)
        if value is not None:
            return len(str(abs(value)))
        return dtype.precision if isinstance(dtype, pl.Decimal) else len(str(limits(dtype)[1]))

    def _whole(self, node: Node, given: pl.DataType, dtype: str) -> Whole:
        value = written(node)
        if value is not None:
            return Whole.literal(value, dtype)
        known = self._wholes.get(id(node))
        if known and known[1].dtype == dtype:
            return known[1]
        return Whole.of(node, given, dtype)

    def _remembered(self, node: Node, whole: Whole) -> Node:
        self._wholes[id(node)] = (node, whole)
        return node


def _within_digits(left: Node, op: str, right: Node, scale: int) -> Node:
    """A sum or difference of decimals, and an error in the run where it, or a side at its scale, has more than 38 digits."""
    sides = [cast(plain(side), "Float64", "NonStrict") for side in (left, right)]
    most = literal(float(10 ** (DIGITS - scale)) * (1 - 1e-15))
    one, two, three = (operator(call("Abs", about), "GtEq", most) for about in (*sides, operator(sides[0], op, sides[1])))
    outgrows = operator(operator(one, "Or", two), "Or", three)
    to = {"Decimal": [DIGITS, scale]}
    answer = operator(cast(where_else(outgrows, NULL, left), to, "NonStrict"), op, cast(right, to, "NonStrict"))
    return outgrown(answer, outgrows, op, f"{DIGITS} digits")


def _floats(left: Node, op: str, right: Node, dtypes: tuple[pl.DataType, pl.DataType]) -> Node:
    """An operator in floats (of dates and intervals too): what may be infinite is marked so."""
    outgrows = any(dtype.is_float() for dtype in dtypes) and _may_outgrow(left, op, right)
    one, two = (cast(node, "Float64", "NonStrict") if dtype.is_decimal() else integer(node) for node, dtype in _pairs(left, right, dtypes))
    if op in SLASHES:
        one, two = unmarked(one), dividing(two)
    elif op in {"FloorDivide", "Modulus"}:
        one, two = tight(one), dividing(two)
    if op == "Modulus" and not any(dtype.is_temporal() for dtype in dtypes):
        return remainder(one, two)
    answer = operator(unmarked(one), op, unmarked(two))
    return loose(answer) if outgrows else answer


def _may_outgrow(left: Node, op: str, right: Node) -> bool:
    """Whether an operator of finite floats can give an infinity: not where a number that stands there forbids it."""
    sizes = [abs(size) if (size := _size(node)) is not None else None for node in (left, right)]
    if "Loose" in left or "Loose" in right:
        return op in {"Plus", "Minus", "Multiply", *SLASHES}
    match op:
        case "Plus" | "Minus":
            return not any(size is not None and size < FAINT for size in sizes)
        case "Multiply":
            return not any(size is not None and size <= 1 for size in sizes)
        case "TrueDivide":
            return sizes[1] is None or sizes[1] < 1
    return False


def _size(node: Node) -> float | None:
    match node:
        case {"Literal": {"Dyn": {"Float": float(value)}}} | {"Literal": {"Scalar": {"Float64": float(value)}}}:
            return value
    return written(node)


def _pairs(left: Node, right: Node, dtypes: tuple[pl.DataType, pl.DataType]) -> list[tuple[Node, pl.DataType]]:
    return [(left, dtypes[0]), (right, dtypes[1])]
