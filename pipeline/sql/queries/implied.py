"""What alternatives ask of one table alone, said of it beside them: `(a.x = 1 and b.y = 2) or (a.x = 2 and b.y = 1)` has a.x at 1 or 2.

Where a row passes, one of the alternatives holds, and with it all that this one asks of the table. So the condition takes no row away that
stays, and fewer rows are joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def with_implied(asked: list[exp.Expr]) -> list[exp.Expr]:
    """The conditions of a WHERE, and what those with alternatives ask of single tables."""
    return [*asked, *(found for part in asked for found in _implied(part))]


def picks(part: exp.Expr) -> str:
    """The table of which a condition keeps some values of a column, and so most likely few rows; else nothing."""
    from sqlglot import exp

    part = part.unnest()
    few = isinstance(part, exp.EQ | exp.In) or (isinstance(part, exp.Or) and all(picks(one) for one in part.flatten()))
    return _table(part) if few else ""


def _implied(part: exp.Expr) -> list[exp.Expr]:
    from sqlglot import exp

    part = part.unnest()
    if not isinstance(part, exp.Or):
        return []
    branches = [_by_table(branch.unnest()) for branch in part.flatten()]
    tables = [table for table in branches[0] if all(table in branch for branch in branches)] if len(_tables(part)) > 1 else []
    return [exp.or_(*(exp.and_(*branch[table]) for branch in branches)) for table in tables]


def _by_table(branch: exp.Expr) -> dict[str, list[exp.Expr]]:
    """Of what an alternative asks, plain comparisons of single tables' columns, which fail on no row, by the table."""
    from sqlglot import exp

    found: dict[str, list[exp.Expr]] = {}
    for part in branch.flatten() if isinstance(branch, exp.And) else [branch]:
        plain = part.unnest()
        if table := _table(plain):
            found.setdefault(table, []).append(plain.copy())
    return found


def _table(part: exp.Expr) -> str:
    """The one table whose columns are compared with what is written there; nothing where it is otherwise."""
    from sqlglot import exp

    kinds = exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.In | exp.Between | exp.Or | exp.And
    plain = kinds | exp.Column | exp.Identifier | exp.Literal | exp.Paren | exp.Cast | exp.DataType
    if not isinstance(part, kinds) or not all(isinstance(node, plain) for node in part.walk()):
        return ""
    if any(not isinstance(cast.this, exp.Literal) for cast in part.find_all(exp.Cast)):
        return ""
    names = _tables(part)
    return names.pop() if len(names) == 1 else ""


def _tables(part: exp.Expr) -> set[str]:
    from sqlglot import exp

    return {column.table for column in part.find_all(exp.Column)}
