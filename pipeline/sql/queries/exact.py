"""Numbers of a query kept whole: Polars' SQL wraps sums and products of 64-bit integers round and cuts digits off decimals."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pipeline.errors import ExpressionError
from pipeline.sql.queries.answered import check_compared
from pipeline.sql.queries.digits import added, floats_told, found_in, scale_in, scale_of
from pipeline.sql.queries.parsed import DIALECT
from pipeline.sql.queries.typed import DAY_US, DIGITS, FLOATS, LONG, MOMENTS, NARROW, as_type, decimal_of, float_type, kind_of

if TYPE_CHECKING:
    from sqlglot import exp


def made_exact(query: exp.Query, *, wide: str = "INT128") -> exp.Query:
    """The typed query whose sums, differences and products are exact or fail, whose division by zero is null, and whose casts round.

    `wide` is the type that 64-bit integers are added up and multiplied in. Raises ExpressionError where no type holds a product.
    """
    from sqlglot.optimizer.scope import Scope, traverse_scope

    for scope in traverse_scope(query):  # what is inside first
        for column in scope.columns:
            source = scope.sources.get(column.table)
            if isinstance(source, Scope) and kind_of(column) == "DECIMAL":
                is_float = any(kind_of(found) in FLOATS for found in found_in(source.expression, column.name))
                column.type = float_type() if is_float else decimal_of(scale_in(source.expression, column.name))
        for node in list(scope.walk())[::-1]:
            _made_exact(node, wide)
    return query


def _made_exact(node: exp.Expr, wide: str) -> None:
    from sqlglot import exp

    floats_told(node)
    if isinstance(node, exp.Sum):
        _sum(node, wide)
    elif isinstance(node, exp.Count):
        _around(node, "BIGINT")
    elif isinstance(node, exp.Avg):
        _mean(node)
    elif isinstance(node, exp.Add | exp.Sub | exp.Mul):
        _arithmetic(node, wide)
    elif isinstance(node, exp.Neg):
        _negative(node, wide)
    elif isinstance(node, exp.Div):
        _quotient(node)
    elif isinstance(node, exp.Mod | exp.IntDiv):
        _remainder(node, wide)
    elif isinstance(node, exp.Literal) and not node.is_string and "e" in node.name.lower():
        node.replace(as_type(exp.Literal.string(node.name), "DOUBLE"))
    elif isinstance(node, exp.Cast):
        _rounded(node)
    elif isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        check_compared(node)


def _sum(node: exp.Sum, wide: str) -> None:
    """Integers are added up in more digits, and then again of 64 bits: a sum that is beyond fails. Decimals have 38 digits."""
    value = added(node)
    kind = kind_of(value)
    if kind in LONG | NARROW | {"BOOLEAN"}:
        value.replace(as_type(value, wide if kind in LONG else "BIGINT"))
        _around(node, "UBIGINT" if kind == "UBIGINT" else "BIGINT")


def _around(node: exp.Expr, to: str) -> None:
    """Cast a function, with its window and its filter."""
    from sqlglot import exp

    while isinstance(node.parent, exp.Window | exp.Filter) and node.arg_key == "this":
        node = node.parent
    node.replace(as_type(node, to))


def _mean(node: exp.Avg) -> None:
    value = added(node)
    if kind_of(value) in LONG | NARROW | {"DECIMAL"}:
        value.replace(as_type(value, "DOUBLE"))


def _arithmetic(node: exp.Binary, wide: str) -> None:
    """`+ - *` of integers in 64 bits, of decimals with all digits; the days between dates."""
    from sqlglot import exp

    kinds = {kind_of(node.left), kind_of(node.right)}
    if node.key == "sub" and kinds == {"DATE"}:  # days; Polars has a duration
        node.replace(exp.IntDiv(this=as_type(node, "BIGINT"), expression=exp.Literal.number(DAY_US)))
    if "UBIGINT" in kinds and kinds <= NARROW | LONG:
        raise ExpressionError(f"{node.sql(DIALECT)}: arithmetic of UInt64. Cast it: cast(x as bigint), or to double where rounded will do")
    if kinds <= NARROW | LONG:
        short = kinds <= NARROW
        _both(node, "BIGINT" if short else wide)
        if not short:
            _around(node, "BIGINT")
    elif "DECIMAL" in kinds and kinds <= NARROW | LONG | {"DECIMAL"}:
        left, right = scale_of(node.left), scale_of(node.right)
        scale = left + right if node.key == "mul" else max(left, right)
        if scale > DIGITS:
            raise ExpressionError(f"{node.sql(DIALECT)} has {scale} digits behind the point, and {DIGITS} are the most. Cast one to fewer")
        _both(node, f"DECIMAL({DIGITS},{scale})")
    elif "DECIMAL" in kinds and kinds & FLOATS:
        _both(node, "DOUBLE")


def _both(node: exp.Binary, to: str) -> None:
    """Both operands, and the result, of one type."""
    node.set("this", as_type(node.left, to))
    node.set("expression", as_type(node.right, to))
    node.type = node.left.type


def _negative(node: exp.Neg, wide: str) -> None:
    from sqlglot import exp

    node.type = node.this.type
    if kind_of(node.this) in LONG and not isinstance(node.this, exp.Literal):
        node.set("this", as_type(node.this, wide))
        _around(node, "BIGINT")


def _quotient(node: exp.Div) -> None:
    """A float, null where it divides by zero."""
    _both(node, "DOUBLE")
    node.set("expression", _not_zero(node.right))


def _not_zero(node: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    return exp.Nullif(this=node.copy(), expression=exp.Literal.number(0))


def _remainder(node: exp.Binary, wide: str) -> None:
    """`%` has the sign of what is divided and `//` is cut towards 0, as SQL has them; both are null where they divide by zero."""
    from sqlglot import exp

    kinds = {kind_of(node.left), kind_of(node.right)}
    whole = kinds <= NARROW | LONG
    if "DECIMAL" in kinds:
        raise ExpressionError(f"{node.sql(DIALECT)}: `%` and `//` are not there for decimals. Cast them, as in cast(x as double)")
    if isinstance(node, exp.IntDiv) and not whole:
        raise ExpressionError(f"{node.sql(DIALECT)} is of whole numbers only. Write floor(a / b), or cast both to bigint")
    left, right = (as_type(side, wide) if whole else side.copy() for side in (node.left, node.right))
    sizes = type(node)(this=exp.Abs(this=left), expression=_not_zero(exp.Abs(this=right)))
    signed: exp.Expr = exp.LT(this=left.copy(), expression=exp.Literal.number(0))
    if isinstance(node, exp.IntDiv):
        other = exp.LT(this=right.copy(), expression=exp.Literal.number(0))
        signed = exp.NEQ(this=exp.paren(signed), expression=exp.paren(other))
    found = exp.Case().when(signed, exp.Neg(this=exp.paren(sizes))).else_(sizes.copy())
    found.type = left.type
    node.replace(as_type(found, "BIGINT") if whole else found)


def _rounded(node: exp.Cast) -> None:
    """A fraction becomes the nearest whole number, a half the even one; a text is read as a date by its format, which Polars wants."""
    from sqlglot import exp

    if kind_of(node.this) == "VARCHAR" and kind_of(node) in {"DATE", *MOMENTS}:
        found = _moment(node)
        found.type = node.type
        node.replace(found)
    if kind_of(node) in NARROW | LONG and kind_of(node.this) in FLOATS | {"DECIMAL"}:
        node.set("this", exp.Round(this=as_type(node.this, "DOUBLE") if kind_of(node.this) == "FLOAT" else node.this.copy()))


def _moment(node: exp.Cast) -> exp.Expr:
    """A date or timestamp that the query writes, as a number; of other texts a date by its format. Polars' cast of texts goes away."""
    from sqlglot import exp

    is_date = kind_of(node) == "DATE"
    if not isinstance(node.this, exp.Literal):
        if is_date:
            return exp.func("DATE", node.this.copy(), exp.Literal.string("%Y-%m-%d"))
        raise ExpressionError(f"{node.sql(DIALECT)}: say how it is written, as in strptime(x, '%Y-%m-%d %H:%M:%S')")
    try:
        moment = datetime.fromisoformat(node.this.name)
    except ValueError as error:
        text = f"{node.sql(DIALECT)} is none ({error}). Write it as in date '2026-01-31' or timestamp '2026-01-31 10:30:00'"
        raise ExpressionError(text) from error
    since = moment.replace(tzinfo=None) - datetime(1970, 1, 1)
    number = since.days if is_date else since // timedelta(microseconds=1)
    return exp.Cast(this=exp.Literal.number(number), to=exp.DataType.build("DATE" if is_date else "TIMESTAMP", dialect="duckdb"))
