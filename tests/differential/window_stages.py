"""Stages that look at other rows, as SQL: window and top_n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pipeline.stages.relational.top_n import TopN
from pipeline.stages.relational.window import Window
from tests.differential.cases import Case
from tests.differential.keyed_stages import KEYS, ordering
from tests.differential.oracle import quoted
from tests.differential.tables import ANY, some, tables

COUNTED = ("key", "small", "ratio", "int8", "int16", "int32", "uint8", "uint16", "uint32", "flag", "price")
SUMMED = (*COUNTED, "int64", "uint64")
SPREAD = ("key", "small", "int8", "int16", "uint8", "uint16")  # of others DuckDB loses the digits, far from 0
ORDERED = tuple(name for name in ANY if name != "share")
TIMES = {
    "clock": ("epoch_us(clock)", {"1h": 3_600_000_000, "30d": 2_592_000_000_000, "250ms": 250_000}),
    "moment": ("epoch_us(moment)", {"1h": 3_600_000_000, "52w": 31_449_600_000_000}),
    "day": ("(day - date '1970-01-01')", {"1d": 1, "52w": 364}),
    "small": ("small", {"1": 1, "7": 7}),
    "key": ("key", {"2": 2, "30": 30}),
}
RANGES = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}
SPREADS = {"std": "stddev_samp({})", "var": "var_samp({})", "median": "median({})", "quantile": "quantile_cont({}, 0.75)"}
WHOLE = "rows between unbounded preceding and unbounded following"
RUNNING = "rows between unbounded preceding and current row"


@dataclass(frozen=True)
class Groups:
    """The partition of a window in SQL, its order with ties broken and without, and a column of times where the order is one."""

    partition: str
    order: str
    tied: str
    time: str = ""

    def over(self, frame: str = "") -> str:
        """What follows `over`, rows in order."""
        return f"({self.partition} order by {self.order} {frame})"


Made = tuple[dict[str, Any], str, str]  # a function, its SQL, and what of a row says that it fails


def _number(name: str) -> str:
    return f"cast({name} as int)" if name == "flag" else name


def _beyond(value: str, name: str) -> str:
    low, high = RANGES.get(name, (0, 0))
    return f"{value} not between {low} and {high}" if name in RANGES else ""


def _floated(value: str, name: str) -> str:
    return f"cast({value} as double)" if name == "ratio" else value


@st.composite
def _shifted(draw: st.DrawFn, groups: Groups) -> Made:
    function, rows = draw(st.sampled_from(["lag", "lead", "difference", "pct_change"])), draw(st.integers(1, 3))
    name = draw(st.sampled_from(ORDERED if function in {"lag", "lead"} else SUMMED))
    other = f"{'lead' if function == 'lead' else 'lag'}({{}}, {rows}) over {groups.over()}"
    value = _number(name)
    sql, fails = other.format(name), ""
    if function == "difference":
        wide = f"cast({value} as hugeint)" if name in RANGES else value
        sql = (
            f"{wide} - {other.format(wide)}"
            if name in {"ratio", "price", *RANGES}
            else f"{value}::bigint - {other.format(f'{value}::bigint')}"
        )
        fails = _beyond(f"({sql})", name)
    if function == "pct_change":
        value, before = f"cast({value} as double)", other.format(f"cast({value} as double)")
        sql = f"finite(({value} - {before}) / nullif({before}, 0))"
    return {"function": function, "of": name, "rows": rows}, sql, fails


@st.composite
def _ranked(draw: st.DrawFn, groups: Groups) -> Made:
    function = draw(st.sampled_from(["row_number", "rank", "dense_rank", "percent_rank", "ntile"]))
    buckets = draw(st.sampled_from([1, 2, 3, 10]))
    if function == "ntile":
        return {"function": function, "buckets": buckets}, f"ntile({buckets}) over {groups.over()}", ""
    over = groups.over() if function == "row_number" else f"({groups.partition} order by {groups.tied})"
    return {"function": function}, f"{function}() over {over}", ""


@st.composite
def _adding(draw: st.DrawFn, groups: Groups) -> Made:
    taken = draw(st.sampled_from(["sum", "mean", "min", "max", "count", *SPREADS]))
    name, over = draw(st.sampled_from(_fitting(taken))), f"over {groups.over(RUNNING)}"
    return _of_values(f"cum_{taken}", taken, name, over)


def _fitting(taken: str) -> Sequence[str]:
    """The columns that a function is of."""
    if taken in {"sum", "mean"}:
        return SUMMED
    return SPREAD if taken in {"std", "var", "share"} else COUNTED if taken in {"median", "quantile"} else ORDERED


def _of_values(function: str, taken: str, name: str, over: str, **more: Any) -> Made:
    """A function of the values of a window."""
    if taken not in SPREADS:
        return _taken(function, taken, name, over, **more)
    quantile = {"quantile": 0.75} if taken == "quantile" else {}
    return {"function": function, "of": name, **quantile, **more}, f"{SPREADS[taken].format(f'{_number(name)}::double')} {over}", ""


def _taken(function: str, taken: str, name: str, over: str, **more: Any) -> Made:
    value = _number(name) if taken in {"sum", "mean"} else name
    call = {"mean": "avg({})", "n_unique": "count(distinct {})"}.get(taken, f"{taken}({{}})")
    if taken == "mean" and name not in RANGES:  # of 64 bits DuckDB adds up exactly, as we do
        value = f"{value}::double"
    elif taken == "sum" and name == "ratio":
        value = name
    sql = f"{call.format(value)} {over}"
    return {"function": function, "of": name, **more}, sql, _beyond(sql, name) if taken == "sum" else ""


@st.composite
def _of_group(draw: st.DrawFn, groups: Groups) -> Made:
    taken = draw(
        st.sampled_from(["sum", "mean", "min", "max", "count", "n_unique", "std", "var", "median", "quantile", "first", "last", "share"])
    )
    over, name = f"over ({groups.partition})", draw(st.sampled_from(_fitting(taken)))
    value = f"{_number(name)}::double"
    listed = {
        "first": f"first_value({name}) over {groups.over(WHOLE)}",
        "last": f"last_value({name}) over {groups.over(WHOLE)}",
        "share": f"{value} / nullif(sum({value}) {over}, 0)",
    }
    if taken in listed:
        return {"function": taken, "of": name}, listed[taken], ""
    made, sql, fails = _of_values(taken, taken, name, over)
    return made, f"coalesce({sql}, 0)" if taken == "sum" else sql, fails


@st.composite
def _rolling(draw: st.DrawFn, groups: Groups) -> Made:
    taken = draw(st.sampled_from(["sum", "mean", "min", "max", "count", *SPREADS]))
    name, least = draw(st.sampled_from(_fitting(taken))), draw(st.sampled_from([1, 1, 2, 3]))
    frame, more = draw(_frames(groups))
    made, sql, fails = _of_values(f"rolling_{taken}", taken, name, f"over {frame}", min_values=least, **more)
    enough = f"count({name}) over {frame} >= {least if taken != 'count' or least > 1 else 0}"
    known = f"{groups.time} is not null and " if "span" in more else ""
    return made, f"case when {known}{enough} then {sql} end", f"{known}{enough} and {fails}" if fails else ""


@st.composite
def _frames(draw: st.DrawFn, groups: Groups) -> tuple[str, dict[str, Any]]:
    """A window in SQL and as a stage has it."""
    closed, size, center = draw(st.sampled_from(["right", "left", "both", "none"])), draw(st.sampled_from([2, 3, 10])), draw(st.booleans())
    spanned = bool(groups.time) and draw(st.booleans())
    number, spans = TIMES[groups.time] if spanned else ("", {})
    text, units = draw(st.sampled_from(sorted(spans.items()))) if spanned else ("", size)
    if units == 1 and closed == "none":  # no window of DuckDB ends before it begins
        closed = "both"
    later = (units if spanned else units - 1) // 2 if center else 0
    ends = [later - units + (closed in {"right", "none"}), later - (closed in {"left", "none"})]
    frame = " and ".join(f"{abs(end)} {'following' if end > 0 else 'preceding'}" for end in ends)
    if not spanned:
        return groups.over(f"rows between {frame}"), {"rows": size, "closed": closed, "center": center}
    over = f"({groups.partition} order by {number} nulls last range between {frame})"
    return over, {"span": text, "closed": closed, "center": center}


KINDS: tuple[Callable[[Groups], st.SearchStrategy[Made]], ...] = (_shifted, _ranked, _adding, _of_group, _rolling, _rolling)


@st.composite
def window(draw: st.DrawFn) -> Case:
    """Three columns of any kind, by no key, one or two, in an order whose ties the other columns break."""
    keys = draw(st.just([]) | some(KEYS, most=2))
    time = draw(st.sampled_from([*TIMES, ""]))
    by = (
        [time]
        if time and time not in keys
        else [draw(st.sampled_from(["", "-"])) + name for name in draw(some([n for n in ANY if n not in keys], most=2))]
    )
    rows = draw(tables())
    named = {*keys, *(name.removeprefix("-") for name in by)}
    whole = [*by, *(name for name in rows.columns if name not in named)]
    partition = f"partition by {', '.join(map(quoted, keys))}" if keys else ""
    groups = Groups(partition, ordering(whole), ordering(by), by[0] if by[0] in TIMES and len(by) == 1 else "")
    made = [draw(draw(st.sampled_from(KINDS))(groups)) for _ in range(3)]
    listed = ", ".join(f"{sql} as c{number}" for number, (_, sql, _) in enumerate(made))
    sql = f"select *, {listed} from rows order by {ordering([*keys, *whole])}"
    tests = [f"coalesce({fails}, false) as f{number}" for number, (_, _, fails) in enumerate(made) if fails]
    any_of = " or ".join(test.rsplit(" ", 1)[1] for test in tests)
    fails = f"select coalesce(bool_or({any_of}), false) from (select {', '.join(tests)} from rows)" if tests else ""
    stage = Window.model_validate(
        {"by": keys, "order": by, "compute": {f"c{number}": function for number, (function, _, _) in enumerate(made)}}
    )
    return Case(stage, {"rows": rows}, sql, ordered=True, fails=fails, apart=1e-5)


@st.composite
def top_n(draw: st.DrawFn) -> Case:
    """The first rows of each group, those that tie with the last one too or not."""
    keys, rows, n = draw(st.just([]) | some(KEYS, most=2)), draw(tables()), draw(st.sampled_from([1, 2, 5]))
    by = [draw(st.sampled_from(["", "-"])) + name for name in draw(some([n for n in ANY if n not in keys], most=2))]
    named = {*keys, *(name.removeprefix("-") for name in by)}
    whole, ties = ordering([*by, *(name for name in rows.columns if name not in named)]), draw(st.booleans())
    partition = f"partition by {', '.join(map(quoted, keys))}" if keys else ""
    taken = f"rank() over ({partition} order by {ordering(by)})" if ties else f"row_number() over ({partition} order by {whole})"
    sql = f"select * from rows qualify {taken} <= {n} order by {f'{ordering(keys)}, ' if keys else ''}{whole}"
    return Case(TopN.model_validate({"by": keys, "n": n, "order": by, "with_ties": ties}), {"rows": rows}, sql, ordered=True)
