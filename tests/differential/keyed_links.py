"""Random stages that bring rows of a chain's tables together, each with its SQL: join, aggregate, sort, drop_duplicates and union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.drop_duplicates import DropDuplicates
from pipeline.stages.relational.join import Join
from pipeline.stages.relational.sort import Sort
from pipeline.stages.relational.union import Union
from tests.differential.keyed_stages import ordering
from tests.differential.known import Known, Said
from tests.differential.oracle import quoted
from tests.differential.tables import some


@st.composite
def _joined(draw: st.DrawFn, left: Known, others: Sequence[Known]) -> Said:
    right = draw(st.sampled_from(list(others)))
    shared = [name for name in left.keys if name in right.keys and left.schema[name] == right.schema[name]]
    keys = draw(left.some_keys(shared))
    hows = (
        ["semi", "anti"] if left.joined or right.joined or left.name == right.name else ["inner", "left", "right", "full", "semi", "anti"]
    )
    how = draw(st.sampled_from(hows))
    method = draw(st.sampled_from(["auto", "exchange"]))
    stage = Join.model_validate({"on": keys, "how": how, "suffix": f"_{right.name}", "method": method})
    same = " and ".join(f"l.{quoted(name)} = r.{quoted(name)}" for name in keys)
    reads = {"left": left.name, "right": right.name}
    if how in {"semi", "anti"}:
        text = f"select * from {left.name} l where {'not ' * (how == 'anti')}exists (select 1 from {right.name} r where {same})"
        return Said(stage, reads, text, left)
    names = {name: f"{name}_{right.name}" if name in left.schema else name for name in right.schema if name not in keys}
    added = "".join(f", r.{quoted(name)} as {quoted(new)}" for name, new in names.items())
    unique = (*left.unique, *(names.get(name, name) for name in right.unique)) if left.unique and right.unique else ()
    either = "".join(f", coalesce(l.{quoted(name)}, r.{quoted(name)}) as {quoted(name)}" for name in keys)
    kept = f"l.* replace ({either.removeprefix(', ')})" if how in {"right", "full"} else "l.*"
    text = f"select {kept}{added} from {left.name} l {how} join {right.name} r on {same}"
    drawn = left.drawn | {new for name, new in names.items() if name == new and name in right.drawn}
    return Said(stage, reads, text, replace(left, unique=unique, drawn=drawn, joined=True))


def joined(left: Known, others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """Rows beside those of another table; once a chain with all pairs, whose number may grow as a square."""
    fit = [right for right in others if any(right.schema.get(name) == left.schema[name] and name in right.keys for name in left.keys)]
    return _joined(left, fit) if fit else None


@st.composite
def _aggregated(draw: st.DrawFn, rows: Known) -> Said:
    keys = draw(rows.some_keys(rows.keys))
    numbers = [name for name in ("key", "small", "int8", "int32", "uint16") if name in rows.drawn]
    taken = [name for name in rows.exact if name not in keys and not rows.schema[name].is_float()]
    compute: dict[str, Any] = {"rows": {"function": "size"}}
    listed = ["count(*) as rows"]
    for number in range(draw(st.integers(1, 3))):
        function = draw(st.sampled_from(["min", "max", "count", "n_unique", *(["sum", "mean"] if numbers else [])]))
        column = draw(st.sampled_from(numbers if function in {"sum", "mean"} else taken))
        name, call = f"{rows.name}_c{number}", function.replace("mean", "avg").replace("n_unique", "count(distinct")
        compute[name] = {"function": function, "of": quoted(column) if not column.isidentifier() else column}
        value = f"{call}{' ' if '(' in call else '('}{quoted(column)})"
        listed.append(f"{f'cast(coalesce({value}, 0) as bigint)' if function == 'sum' else value} as {name}")
    names = ", ".join(map(quoted, keys))
    text = f"select {names}, {', '.join(listed)} from {rows.name} group by {names}"
    return Said(
        Aggregate.model_validate({"by": keys, "compute": compute}),
        {"rows": rows.name},
        text,
        Known("", rows.schema, tuple(keys), frozenset(keys) & rows.drawn, rows.joined, rows.ordered_by),
    )


def aggregated(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """One row a key."""
    return _aggregated(rows) if rows.keys and "rows" not in rows.schema and len(rows.exact) > 3 else None


@st.composite
def _sorted(draw: st.DrawFn, rows: Known) -> Said:
    by = [draw(st.sampled_from(["", "-"])) + name for name in draw(some([n for n in rows.exact if n not in rows.unique]))]
    by, limit = [*by, *rows.unique], draw(st.sampled_from([None, 1, 4, 9]))
    text = f"select * from {rows.name} order by {ordering(by)}" + (f" limit {limit}" if limit else "")
    return Said(Sort.model_validate({"by": by, "limit": limit}), {"rows": rows.name}, text, rows)


def ordered(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """The first rows in an order without ties."""
    return _sorted(rows) if rows.unique and len(rows.exact) > len(rows.unique) else None


@st.composite
def _deduplicated(draw: st.DrawFn, rows: Known) -> Said:
    keys = draw(rows.some_keys(rows.keys))
    by = [draw(st.sampled_from(["", "-"])) + name for name in draw(some([n for n in rows.exact if n not in (*keys, *rows.unique)]))]
    order = ordering([*by, *(name for name in rows.unique if name not in keys)])
    stage = DropDuplicates.model_validate({"columns": keys, "order_by": [*by, *(n for n in rows.unique if n not in keys)]})
    names = ", ".join(map(quoted, keys))
    text = f"select * from {rows.name} qualify row_number() over (partition by {names} order by {order}) = 1"
    return Said(stage, {"rows": rows.name}, text, rows)


def deduplicated(rows: Known, _others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """One row of each key."""
    return _deduplicated(rows) if rows.unique and rows.keys and len(rows.exact) > len(rows.unique) + 2 else None


def united(rows: Known, others: Sequence[Known]) -> st.SearchStrategy[Said] | None:
    """The rows of two tables of the same columns, or twice of the same; nothing tells them apart afterwards."""
    alike = [other for other in others if dict(other.schema) == dict(rows.schema)]
    if not alike:
        return None
    return st.sampled_from(alike).map(
        lambda other: Said(
            Union(),
            {"one": rows.name, "two": other.name},
            f"select * from {rows.name} union all by name select * from {other.name}",
            replace(rows, unique=(), drawn=rows.drawn & other.drawn, joined=rows.joined or other.joined),
        )
    )
