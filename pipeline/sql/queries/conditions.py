"""What WHERE asks, condition by condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def conditions(select: exp.Select) -> list[exp.Expr]:
    """The conditions of a query's WHERE that must hold together; none where it has no WHERE."""
    from sqlglot import exp

    where = select.args.get("where")
    if where is None:
        return []
    return list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
