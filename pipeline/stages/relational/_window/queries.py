"""The functions that are a query over sorted rows: rows before and after, ranks, what adds up, and what is of a whole group."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from pipeline.sql.checks import failing
from pipeline.stages.relational._ordered.groups import AT, END, START, is_other, row_before
from pipeline.stages.relational._sums import DIGITS, as_float, fits, halves, is_wide, may_outgrow, sum_type, whole
from pipeline.stages.relational._window.columns import Column
from pipeline.stages.relational._window.functions import CUMULATIVE, RANKED, SHIFTED
from pipeline.tables.infinities import counted, made_finite

PEER, DENSE = "__peer__", "__dense__"  # the first row that ties with a row, and how many orders of its group there were up to it
TAKEN = {"lag", "lead", "min", "max", "first", "last"}  # values as they are: no infinity among them


def computed(rows: pl.LazyFrame, columns: list[Column], peers: list[str]) -> pl.LazyFrame:
    """Sorted rows with the results of those columns that are queries; `peers` are the columns by which rows tie."""
    return results(rows.with_columns([*shifted(columns), *asides(columns, peers)]), columns)


def results(rows: pl.LazyFrame, columns: list[Column]) -> pl.LazyFrame:
    """The rows with the results, of what stands aside."""
    found = []
    for column in columns:
        expr = RESULTS.get(column.windowed.function, _of_group)(column)
        if column.windowed.function not in TAKEN:
            dtype = rows.select(expr.alias("x")).collect_schema()["x"]
            expr = counted(rows, made_finite(expr, dtype))
        found.append(expr.alias(column.result))
    return rows.with_columns(found)


def shifted(columns: list[Column]) -> list[pl.Expr]:
    """The values before (after) of those functions that take one."""
    rows = {column: column.windowed.rows or 1 for column in columns if column.windowed.function in SHIFTED}
    return [
        row_before(pl.col(column.value), -number if column.windowed.function == "lead" else number).alias(column.aside("before"))
        for column, number in rows.items()
    ]


def asides(columns: list[Column], peers: list[str]) -> list[pl.Expr]:
    """What is a column before results are made of it: checks of sums, in the streaming engine, are of columns alone."""
    found = []
    if any(column.windowed.function in RANKED for column in columns):
        other = is_other(peers) | (pl.col(AT) == pl.col(START))
        found += [pl.when(other).then(pl.col(AT)).otherwise(0).cum_max().alias(PEER), _up_to(other.cast(pl.Int64)).alias(DENSE)]
    for column in columns:
        value, function = pl.col(column.value), column.windowed.function
        if function in {"std", "var"}:
            found.append((value - value.mean().over(START)).alias(column.aside("apart")))
        elif column.windowed.taken in {"sum", "mean", "count"} and not column.windowed.in_kernel:
            found += [expr.alias(column.aside(part)) for part, expr in running(column).items()]
    return found


def running(column: Column) -> dict[str, pl.Expr]:
    """The sums and the count of values, running up to each row or of its whole group."""
    value = pl.col(column.value)
    if column.windowed.taken == "count":
        given = {}
    elif not may_outgrow(column.dtype):
        given = {"total": value.fill_null(0)}
    elif is_wide(column.dtype):
        given = {"about": value.fill_null(0).cast(pl.Float64), **({"total": value.fill_null(0)} if column.windowed.taken == "sum" else {})}
    else:
        given = halves(value.fill_null(0), column.wide)
    adds = column.windowed.function in CUMULATIVE
    given["count"] = value.is_not_null().cast(pl.Int64)
    if not adds:
        return {part: expr.sum().over(START) for part, expr in given.items()}
    exact = column.wide.is_integer() or column.windowed.taken == "count"
    return {part: _up_to(expr) if exact or part == "count" else expr.cum_sum().over(START) for part, expr in given.items()}


def _up_to(expr: pl.Expr) -> pl.Expr:
    """The sum of whole numbers from a group's first row on: that of all rows less that of those before, exact though it wraps."""
    running = expr.cum_sum()
    return running - (running - expr).gather(pl.col(START).clip(lower_bound=0))


def _lag(column: Column) -> pl.Expr:
    return pl.col(column.aside("before"))


def _difference(column: Column) -> pl.Expr:
    """The value less that before; an error where no type holds it."""
    value, before, dtype = pl.col(column.value), pl.col(column.aside("before")), column.dtype
    if dtype == pl.UInt64:
        problem = column.problem("a negative result", "Cast the column to int64, or to double where rounded numbers will do.")
        return pl.when(failing(value, value < before, problem) >= before).then(value - before).otherwise(None)
    if dtype == pl.Int64:
        apart = value.cast(pl.Float64) - before.cast(pl.Float64)
        least, most = -(2.0**63), 2.0**63
        # Floats round: near the ends the wrapped difference tells by its sign.
        beyond = (apart > most * 0.75) & (value - before < 0) | (apart < least * 0.75) & (value - before >= 0)
        return failing(value - before, beyond, column.problem("a result beyond Int64", "Cast the column to double before."))
    if dtype.is_integer() or dtype == pl.Boolean:
        return value.cast(pl.Int64) - before.cast(pl.Int64)
    if isinstance(dtype, pl.Decimal):
        to = sum_type(dtype)
        apart = value.cast(pl.Float64) - before.cast(pl.Float64)
        if dtype.precision < DIGITS:
            return value.cast(to) - before.cast(to)
        beyond = ~fits(apart, to)
        within = pl.when(~beyond).then(value).otherwise(None) - before
        return failing(within, beyond, column.problem("a result of more than 38 digits", "Cast the column to double before."))
    return value.cast(pl.Float64) - before.cast(pl.Float64) if dtype.is_float() else value - before


def _pct_change(column: Column) -> pl.Expr:
    value, before = pl.col(column.value), pl.col(column.aside("before"))
    return pl.when(before != 0).then((value - before) / before).otherwise(None)


def _rank(column: Column) -> pl.Expr:
    place, size = pl.col(AT) - pl.col(START), pl.col(END) - pl.col(START) + 1
    rank = pl.col(PEER) - pl.col(START)
    match column.windowed.function:
        case "row_number":
            return place + 1
        case "rank":
            return rank + 1
        case "dense_rank":
            return pl.col(DENSE)
        case "percent_rank":
            others = (size - 1).cast(pl.Float64)
            return pl.when(size > 1).then(rank.cast(pl.Float64) / others).otherwise(0.0)
    buckets = column.windowed.buckets or 1
    rest, small = size % buckets, size // buckets  # the first `rest` buckets have a row more
    in_large = rest * (small + 1)
    after = rest + (place - in_large) // pl.max_horizontal(small, pl.lit(1, dtype=pl.Int64))
    return pl.when(place < in_large).then(place // (small + 1)).otherwise(after) + 1


def _sum(column: Column) -> pl.Expr:
    """A sum that is exact, or fails; of no values null where it runs, 0 of a group, as aggregate has it."""
    total, beyond = pl.col(column.aside("total")), None
    if is_wide(column.dtype):
        beyond = ~fits(pl.col(column.aside("about")), column.wide)
    elif may_outgrow(column.dtype):
        total = whole(pl.col(column.aside("high")), pl.col(column.aside("low")), column.wide)
        beyond = total.is_null()
    if column.windowed.function == "cum_sum":
        total = pl.when(_count(column) > 0).then(total).otherwise(None)
    if beyond is None:
        return total
    problem = column.problem(f"a result beyond {column.wide}", "Take cast(... as double) of the column, or the mean.")
    return failing(total, beyond, problem)  # outermost: within another `when` Polars gives it nulls where that does not hold


def _mean(column: Column) -> pl.Expr:
    count = _count(column)
    if not may_outgrow(column.dtype):
        total = pl.col(column.aside("total")).cast(pl.Float64)
    elif is_wide(column.dtype):
        total = pl.col(column.aside("about"))
    else:
        total = as_float(pl.col(column.aside("high")), pl.col(column.aside("low")), column.wide)
    return pl.when(count > 0).then(total / count).otherwise(None)


def _count(column: Column) -> pl.Expr:
    return pl.col(column.aside("count"))


def _share(column: Column) -> pl.Expr:
    value, total = pl.col(column.value), pl.col(column.value).sum().over(START)
    share = pl.when(total != 0).then(value / total).otherwise(None)
    if not column.wide.is_float():
        return share
    return pl.when(total.is_finite() | value.is_null()).then(share).otherwise(float("inf"))  # counted: nothing is a share of that


def _end(column: Column) -> pl.Expr:
    at = pl.col(START).clip(lower_bound=0) if column.windowed.function == "first" else pl.col(END).clip(upper_bound=pl.len() - 1)
    return pl.col(column.value).gather(at)


def _of_group(column: Column) -> pl.Expr:
    value, apart = pl.col(column.value), pl.col(column.aside("apart"))
    match column.windowed.function:
        case "min":
            return value.min().over(START)
        case "max":
            return value.max().over(START)
        case "std":
            return apart.std().over(START)
        case "var":
            return apart.var().over(START)
        case "median":
            return value.median().over(START)
        case "quantile":
            return value.quantile(column.windowed.quantile or 0.0, "linear").over(START)
        case "n_unique":
            missing = value.is_null().cast(pl.Int64).max().over(START)
            return value.n_unique().over(START).cast(pl.Int64) - missing
    return pl.col(END) - pl.col(START) + 1  # size


RESULTS: dict[str, Callable[[Column], pl.Expr]] = {
    **dict.fromkeys(("lag", "lead"), _lag),
    "difference": _difference,
    "pct_change": _pct_change,
    **dict.fromkeys(RANKED, _rank),
    **dict.fromkeys(("sum", "cum_sum"), _sum),
    **dict.fromkeys(("mean", "cum_mean"), _mean),
    **dict.fromkeys(("count", "cum_count"), _count),
    "share": _share,
    **dict.fromkeys(("first", "last"), _end),
}
