"""Whole numbers that never wrap round: sums, differences and products of Int64 or UInt64, checked against the same ones of floats.

Arithmetic modulo 2**64 is off by 2**64 or more where it wraps, and floats of such sizes by a few thousand, so that both together tell
for certain. Where the types of the operands say that nothing can wrap (Int32 * Int32) nothing is checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pipeline.sql.checks import checked
from pipeline.sql.tree import Node, call, cast, literal, operator, signs

FAR = 2**100  # floats of such numbers are less than 2**62 off
APART = 2.0**62
ROUNDED = "Cast to double first, as in cast(x as double), where a rounded number will do."


@dataclass(frozen=True)
class Whole:
    """Integer arithmetic on its way: as it wraps, as floats, the tests of what is inside, and the least and greatest it can be."""

    wrapped: Node
    about: Node
    tests: tuple[Node, ...]
    least: int
    most: int
    dtype: str

    @staticmethod
    def of(node: Node, given: pl.DataType, dtype: str) -> Whole:
        """A column or any other integers of the type `given`, as numbers of `dtype`: Int64 or UInt64."""
        low, high = limits(given)
        return Whole(
            node if str(given) == dtype else cast(node, dtype, "NonStrict"), cast(node, "Float64", "NonStrict"), (), low, high, dtype
        )

    @staticmethod
    def literal(value: int, dtype: str) -> Whole:
        """A whole number as it was written."""
        return Whole(number(value, dtype), literal(float(value)), (), value, value, dtype)

    def combined(self, op: str, other: Whole) -> Whole:
        """Plus, Minus or Multiply of both."""
        a, b, c, d = self.least, self.most, other.least, other.most
        products = (a * c, a * d, b * c, b * d)
        low, high = {"Plus": (a + c, b + d), "Minus": (a - d, b - c)}.get(op, (min(products), max(products)))
        wrapped, about = operator(self.wrapped, op, other.wrapped), operator(self.about, op, other.about)
        both = Whole(wrapped, about, self.tests + other.tests, low, high, self.dtype)
        if max(-low, high) <= FAR:
            return both
        least, most = limits(getattr(pl, self.dtype)())
        return Whole(wrapped, about, (*both.tests, both._wraps()), least, most, self.dtype)

    def node(self, op: str) -> Node:
        """The numbers, with an error where they wrapped."""
        least, most = limits(getattr(pl, self.dtype)())
        outgrows = self.least < least or self.most > most
        tests = (*self.tests, self._wraps()) if outgrows else self.tests
        if not tests:
            return self.wrapped
        any_of = tests[0]
        for test in tests[1:]:
            any_of = operator(any_of, "Or", test)
        return outgrown(self.wrapped, any_of, op, self.dtype)

    def _wraps(self) -> Node:
        apart = call("Abs", operator(cast(self.wrapped, "Float64", "NonStrict"), "Minus", self.about))
        return operator(apart, "Gt", literal(APART))


def outgrown(value: Node, test: Node, op: str, what: str) -> Node:
    """The value, and an error in the run where the test says that the operator's result is beyond `what`."""
    return checked(value, test, f"the result of `{signs(op)}` is beyond {what}", ROUNDED)


def number(value: int, dtype: str) -> Node:
    """A whole number as a literal of an integer type."""
    return {"Literal": {"Scalar": {dtype: value}}}


def limits(dtype: pl.DataType) -> tuple[int, int]:
    """Least and greatest value of an integer type, from its name: Int8 holds -128 to 127."""
    name = str(dtype)
    bits = int(name.removeprefix("U").removeprefix("Int"))
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
