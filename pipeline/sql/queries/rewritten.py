"""Forms that Polars' SQL does not take, or takes otherwise, as those that it has: before names and types are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import ExpressionError

if TYPE_CHECKING:
    from sqlglot import exp

PARTS = {"dayofmonth": "day"} | {name: name for name in ("millisecond", "microsecond", "isoyear", "century", "decade", "millennium")}


def rewritten(query: exp.Query, dialect: str) -> exp.Query:
    """The same query. Raises ExpressionError for GROUPING SETS, ROLLUP, CUBE and DISTINCT ON."""
    from sqlglot import exp

    for node in list(query.find_all(exp.Anonymous, exp.DayOfMonth, exp.WithinGroup, exp.Window, exp.Between))[::-1]:
        if isinstance(node, exp.WithinGroup):
            _within(node, dialect)
        elif isinstance(node, exp.Window):
            _over(node, dialect)
        elif not isinstance(node, exp.Between):
            _part(node)
        elif isinstance(node.parent, exp.Join | exp.And) and isinstance(node.find_ancestor(exp.Join, exp.Select), exp.Join):
            low, high = node.args["low"], node.args["high"]
            node.replace(exp.And(this=exp.GTE(this=node.this.copy(), expression=low), expression=exp.LTE(this=node.this, expression=high)))
    for exists in query.find_all(exp.Exists):
        inner = exists.this
        if isinstance(inner, exp.Select) and inner.is_star and not inner.args.get("distinct"):  # or all columns would be read
            inner.set("expressions", [exp.Literal.number(1)])
    for select in list(query.find_all(exp.Select))[::-1]:
        _check_groups(select, dialect)
        if select.args.get("having") and not select.args.get("group"):
            query = _asked_of_all(select, query)
    return query


def _part(node: exp.Expr) -> None:
    """Parts of a date by EXTRACT, and mean by its other name."""
    from sqlglot import exp

    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    given = node.expressions or [node.this]
    if name in PARTS and len(given) == 1:
        node.replace(exp.Extract(this=exp.var(PARTS[name]), expression=given[0]))
    elif name in {"date_part", "datepart"} and len(given) == 2 and isinstance(given[0], exp.Literal):
        node.replace(exp.Extract(this=exp.var(given[0].name), expression=given[1]))
    elif name == "mean" and len(given) == 1:
        node.replace(exp.Avg(this=given[0]))
    elif name in {"prefix", "suffix"} and len(given) == 2:
        kind = exp.StartsWith if name == "prefix" else exp.EndsWith
        node.replace(kind(this=given[0], expression=given[1]))


def _within(node: exp.WithinGroup, dialect: str) -> None:
    """percentile_cont(q) within group (order by x) is quantile_cont(x, q)."""
    from sqlglot import exp

    function, order = node.this, node.expression.expressions
    if not isinstance(function, exp.PercentileCont) or len(order) != 1 or not isinstance(function.this, exp.Literal):
        text = "WITHIN GROUP is there for percentile_cont, of a number between 0 and 1 and one column. The stage aggregate has others"
        raise ExpressionError(f"{node.sql(dialect)}: {text}")
    share: exp.Expr = function.this
    if order[0].args.get("desc"):
        share = exp.Literal.number(repr(1 - float(share.name)))
    node.replace(exp.PercentileCont(this=order[0].this, expression=share))


def _over(node: exp.Window, dialect: str) -> None:
    """OVER () of all rows, and a FILTER within the function: Polars makes one row of the former, and does not take the latter."""
    from sqlglot import exp

    if isinstance(node.this, exp.Sum | exp.Avg) and isinstance(node.this.this, exp.Distinct):
        raise ExpressionError(f"{node.sql(dialect)} counts each value once, and has no window. Aggregate by the keys, and join that")
    if not node.args.get("partition_by") and not node.args.get("order"):
        node.set("partition_by", [exp.Literal.number(1)])
    if isinstance(node.this, exp.Filter) and isinstance(node.this.this, exp.AggFunc):
        function, asked = node.this.this, node.this.expression.this
        value = exp.Literal.number(1) if isinstance(function.this, exp.Star) else function.this
        target = value.expressions[0] if isinstance(value, exp.Distinct) else value
        chosen = exp.Case().when(asked.copy(), target.copy())
        if isinstance(value, exp.Distinct):
            target.replace(chosen)
        else:
            function.set("this", chosen)
        node.set("this", function)


def _check_groups(select: exp.Select, dialect: str) -> None:
    from sqlglot import exp

    group, distinct = select.args.get("group"), select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise ExpressionError("DISTINCT ON depends on the order in which rows come. Use the stage top_n, which has an order")
    if group is None:
        return
    if any(isinstance(key, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets) for key in group.expressions):
        text = "groups in several ways. Write a SELECT for each of them, with UNION ALL between, and null for what it does not group by"
        raise ExpressionError(f"{group.sql(dialect).strip()} {text}")


def _asked_of_all(select: exp.Select, query: exp.Query) -> exp.Query:
    """HAVING of all rows: the one row in a query inside, with the condition as a column."""
    from sqlglot import exp

    for place, output in enumerate(select.expressions):
        if not output.alias_or_name:
            output.replace(exp.alias_(output.copy(), f"_col_{place}"))
    condition = select.args["having"].this
    inner = select.copy()
    inner.set("having", None)
    inner.set("with_", None)
    inner.set("expressions", [*inner.expressions, exp.alias_(condition.copy(), "_having")])
    outer = exp.select(*(exp.column(name, "_all", quoted=True) for name in select.named_selects))
    outer = outer.from_(inner.subquery("_all")).where(exp.column("_having", "_all", quoted=True))
    outer.set("with_", select.args.get("with_"))
    if select is query:
        return outer
    select.replace(outer)
    return query
