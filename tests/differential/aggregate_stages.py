"""What an aggregate computes beside sums and means, and of all rows at once, as SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from pipeline.stages.relational.aggregate import Aggregate
from tests.differential.cases import Case
from tests.differential.expressions import conditions
from tests.differential.keyed_stages import KEYS, NUMBERS, ORDERED
from tests.differential.oracle import quoted
from tests.differential.tables import some, tables

SMALL = ("key", "small", "int8", "int16", "uint8", "flag")
EDGES = (-5, 0, 0.5, 7, 100)
SHARES = (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)
Said = tuple[dict[str, Any], str]


def _number(name: str) -> str:
    return "cast(cast(flag as int) as double)" if name == "flag" else f"cast({name} as double)"


def _quantile(draw: st.DrawFn, where: str) -> Said:
    name, q = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(SHARES))
    function = draw(st.sampled_from(["quantile", "approx_quantile"]))
    return {"function": function, "of": name, "q": q}, f"quantile_cont({_number(name)}, {q}) filter (where {where})"


def _picked(draw: st.DrawFn, where: str) -> Said:
    name, function = draw(st.sampled_from(ORDERED)), draw(st.sampled_from(["arg_min", "arg_max"]))
    return {"function": function, "of": name, "order_by": "row"}, f'{function}({name}, "row") filter (where {where})'


def _logical(draw: st.DrawFn, where: str) -> Said:
    (ours, theirs), function = draw(conditions()), draw(st.sampled_from(["any", "all"]))
    return {"function": function, "of": ours}, f"bool_{'or' if function == 'any' else 'and'}({theirs}) filter (where {where})"


def _listed(draw: st.DrawFn, where: str) -> Said:
    name, by = draw(st.sampled_from(ORDERED)), draw(st.sampled_from([None, "row", "key"]))
    order = f"{by} asc nulls last, {name}" if by else name
    of = {"function": "list", "of": name, **({"order_by": by} if by else {})}
    return of, f"coalesce(list({name} order by {order}) filter (where {name} is not null and ({where})), [])"


def _binned(draw: st.DrawFn, where: str) -> Said:
    name, edges = draw(st.sampled_from(NUMBERS)), sorted(draw(some([str(edge) for edge in EDGES], most=4)), key=float)
    value = _number(name)
    bins = [f"{value} < {edges[0]}", *(f"{value} >= {a} and {value} < {b}" for a, b in pairwise(edges))]
    counts = ", ".join(f"count(*) filter (where ({each}) and ({where}))" for each in [*bins, f"{value} >= {edges[-1]}"])
    return {"function": "histogram", "of": name, "edges": [float(edge) for edge in edges]}, f"[{counts}]"


def _of_two(draw: st.DrawFn, where: str) -> Said:
    one, other = draw(some(SMALL, 2, 2))
    function = draw(st.sampled_from(["corr", "covar", "weighted_mean"]))
    a, b, there = _number(one), _number(other), f"filter (where {one} is not null and {other} is not null and ({where}))"
    if function == "weighted_mean":
        return {"function": function, "of": one, "weights": other}, f"sum({a} * {b}) {there} / nullif(sum({b}) {there}, 0)"
    call = {"corr": f"finite(corr({a}, {b}) {there})", "covar": f"covar_samp({a}, {b}) {there}"}[function]
    return {"function": function, "of": one, "other": other}, call


def _mode(draw: st.DrawFn, where: str) -> Said:
    name = draw(st.sampled_from(ORDERED))
    return {"function": "mode", "of": name}, _mode_of(name, where)


def _mode_of(name: str, where: str) -> str:
    """Of the values in a list, in order, the first of those that are there most often."""
    values = f"list({name} order by {name}) filter (where {name} is not null and ({where}))"
    distinct = f"list_sort(list_distinct({values}))"
    times = f"list_transform({distinct}, lambda x: len(list_filter({values}, lambda y: y = x)))"
    return f"{distinct}[list_position({times}, list_max({times}))]"


KINDS: Sequence[Callable[[st.DrawFn, str], Said]] = (_quantile, _picked, _logical, _listed, _binned, _of_two, _mode)


@st.composite
def aggregate(draw: st.DrawFn) -> Case:
    """Up to three columns a key, or of all rows; some of the results."""
    keys = draw(st.just([]) | some(KEYS, most=2))
    names = "".join(f"{quoted(key)}, " for key in keys)
    compute: dict[str, Any] = {"rows": "size()", "total": "sum(key)", "sd": "std(small)"}
    listed = ["count(*) as rows", "cast(coalesce(sum(key), 0) as bigint) as total", "stddev_samp(small) as sd"]
    for number in range(draw(st.integers(1, 3))):
        ours, theirs = draw(conditions()) if draw(st.booleans()) else ("", "true")
        asked, sql = draw(st.sampled_from(KINDS))(draw, theirs)
        compute[f"c{number}"] = {**asked, **({"where": ours} if ours else {})}
        listed.append(f"{sql} as c{number}")
    having = draw(st.sampled_from([None, "rows > 2", "total >= 0 or rows = 0"]))
    sql = f"select {names}{', '.join(listed)} from rows" + (f" group by {', '.join(map(quoted, keys))}" if keys else "")
    sql = f"select * from ({sql})" + (f" where {having}" if having else "")
    return Case(Aggregate.model_validate({"by": keys, "compute": compute, "having": having}), {"rows": draw(tables())}, sql)


@st.composite
def of_distinct(draw: st.DrawFn) -> Case:
    """What wants each value but once, with what parts add up, a key or of all rows."""
    keys, name = draw(st.just([]) | some(KEYS, most=2)), draw(st.sampled_from(ORDERED))
    (ours, theirs), names = draw(st.just(("", "true")) | conditions()), "".join(f"{quoted(key)}, " for key in keys)
    given = {"of": name, **({"where": ours} if ours else {})}
    mode = _mode_of(name, theirs)
    said = {
        "kinds": ({"function": "n_unique", **given}, f"count(distinct {name}) filter (where {theirs})"),
        "often": ({"function": "mode", **given}, mode),
        "least": ({"function": "min", **given}, f"min({name}) filter (where {theirs})"),
        "total": ({"function": "sum", "of": "key"}, "cast(coalesce(sum(key), 0) as bigint)"),
        "sd": ({"function": "std", "of": "small"}, "stddev_samp(small)"),
        "last": ({"function": "last", "of": name, "order_by": "row"}, f'arg_max({name}, "row")'),
        "rows": ({"function": "size"}, "count(*)"),
    }
    chosen = draw(some(["kinds", "often"], 1, 2)) + draw(st.just([]) | some(["least", "total", "sd", "last", "rows"]))
    listed = ", ".join(f"{said[each][1]} as {each}" for each in chosen)
    sql = f"select {names}{listed} from rows" + (f" group by {', '.join(map(quoted, keys))}" if keys else "")
    return Case(Aggregate.model_validate({"by": keys, "compute": {each: said[each][0] for each in chosen}}), {"rows": draw(tables())}, sql)
