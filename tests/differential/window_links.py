"""Random stages that look at other rows of a chain's tables, each with its SQL: window and top_n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pipeline.stages.relational.top_n import TopN
from pipeline.stages.relational.window import Window
from tests.differential.keyed_stages import ordering
from tests.differential.known import Known, Said
from tests.differential.oracle import quoted
from tests.differential.tables import some

FUNCTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "lag": ("lag({0}) over {1}", {"function": "lag"}),
    "lead": ("lead({0}, 2) over {1}", {"function": "lead", "rows": 2}),
    "cum_count": ("count({0}) over {1}", {"function": "cum_count"}),
    "rolling_max": ("max({0}) over {2}", {"function": "rolling_max", "rows": 3}),
    "rolling_count": ("count({0}) over {2}", {"function": "rolling_count", "rows": 3}),
    "last": ("last_value({0}) over {3}", {"function": "last"}),
}


def _order(draw: st.DrawFn, rows: Known, keys: Sequence[str]) -> list[str]:
    """An order without ties."""
    exact = [name for name in rows.exact if name not in (*keys, *rows.unique)]
    return [*(draw(st.sampled_from(["", "-"])) + name for name in draw(some(exact))), *(name for name in rows.unique if name not in keys)]


def _fits(rows: Known) -> bool:
    return bool(rows.unique and rows.keys) and len(rows.exact) > len(rows.unique) + 2


@st.composite
def _windowed(draw: st.DrawFn, rows: Known) -> Said:
    keys = draw(rows.some_keys(rows.keys))
    order = _order(draw, rows, keys)
    start = f"partition by {', '.join(map(quoted, keys))} order by {ordering(order)}"
    ends = ("rows between 2 preceding and current row", "rows between unbounded preceding and unbounded following")
    frames = [f"({start})", *(f"({start} {end})" for end in ends)]
    compute, listed = {}, []
    for number, function in enumerate(draw(some(sorted(FUNCTIONS)))):
        column = draw(st.sampled_from([name for name in rows.exact if name not in keys]))
        sql, said = FUNCTIONS[function]
        compute[f"{rows.name}_w{number}"] = {**said, "of": column if column.isidentifier() else quoted(column)}
        listed.append(f"{sql.format(quoted(column), *frames)} as {rows.name}_w{number}")
    stage = Window.model_validate({"by": keys, "order": order, "compute": compute})
    return Said(stage, {"rows": rows.name}, f"select *, {', '.join(listed)} from {rows.name}", rows)


def windowed(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """Columns of rows before and after, once a chain: another window of the same table would give them the same names."""
    return _windowed(rows) if _fits(rows) and f"{rows.name}_w0" not in rows.schema else None


@st.composite
def _topped(draw: st.DrawFn, rows: Known) -> Said:
    keys, n = draw(rows.some_keys(rows.keys)), draw(st.sampled_from([1, 2, 3]))
    order = _order(draw, rows, keys)
    over = f"partition by {', '.join(map(quoted, keys))} order by {ordering(order)}"
    text = f"select * from {rows.name} qualify row_number() over ({over}) <= {n}"
    return Said(TopN.model_validate({"by": keys, "n": n, "order": order}), {"rows": rows.name}, text, rows)


def topped(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """The first rows of each group."""
    return _topped(rows) if _fits(rows) else None
