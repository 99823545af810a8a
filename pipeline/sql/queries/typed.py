"""Types of what stands in a query: their names, and casts to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

DIGITS = 38
NARROW = {"TINYINT", "SMALLINT", "INT", "UTINYINT", "USMALLINT", "UINT"}
LONG = {"BIGINT", "UBIGINT", "INT128"}
MOMENTS = {"TIMESTAMP", "TIMESTAMPNTZ"}
DAY_US = 86_400_000_000
FLOATS = {"FLOAT", "DOUBLE"}


def kind_of(node: exp.Expr) -> str:
    """The name of a node's type; '' where it is not known."""
    return str(node.type.this.value) if node.type is not None else ""


def as_type(node: exp.Expr, to: str) -> exp.Expr:
    """A copy of the node as another type."""
    from sqlglot import exp

    found = exp.Cast(this=node.copy(), to=exp.DataType.build(to, dialect="duckdb"))
    found.type = found.to
    return found


def decimal_of(scale: int) -> exp.DataType:
    """The widest decimal type of so many digits behind the point."""
    from sqlglot import exp

    return exp.DataType.build(f"DECIMAL({DIGITS},{scale})")


def float_type() -> exp.DataType:
    """Floats of 64 bits."""
    from sqlglot import exp

    return exp.DataType.build("DOUBLE")
