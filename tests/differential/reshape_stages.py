"""Stages that change a table's shape, as SQL: pivot, unpivot, explode, unnest, and union of tables that lack columns."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
from hypothesis import strategies as st

from pipeline.stages.relational.explode import Explode
from pipeline.stages.relational.pivot import Pivot
from pipeline.stages.relational.union import Union
from pipeline.stages.relational.unnest import Unnest
from pipeline.stages.relational.unpivot import Unpivot
from tests.differential.cases import Case
from tests.differential.keyed_stages import KEYS
from tests.differential.oracle import quoted
from tests.differential.tables import ANY, COLUMNS, some, tables

PIVOTED: dict[str, list[Any]] = {
    "key": [1, 2, -4, None],
    "word": ["a", "a'b", "b ", "Zürich", None],
    "flag": [True, False, None],
    "day": ["2000-02-29", "1969-12-31"],
}
CELLS = {
    "n": ("size()", "count(*) {0}"),
    "s": ("sum(small)", "cast(coalesce(sum(small) {0}, 0) as bigint)"),
    "x": ("max(clock)", "max(clock) {0}"),
    "m": ("median(int16)", "median(cast(int16 as double)) {0}"),
}


def _is(name: str, value: Any) -> str:
    if value is None:
        return f"{name} is null"
    text = "'" + str(value).replace("'", "''") + "'"
    return f"{name} = {str(value).lower() if isinstance(value, bool) else value if isinstance(value, int) else text}"


@st.composite
def pivot(draw: st.DrawFn) -> Case:
    """Some values of a column as columns; others fail, or are left out."""
    on = draw(st.sampled_from(sorted(PIVOTED)))
    values = draw(st.lists(st.sampled_from(PIVOTED[on]), min_size=1, unique=True))
    keys = draw(st.just([]) | some([name for name in KEYS if name != on], most=2))
    cells, unseen = draw(some(sorted(CELLS), most=2)), draw(st.sampled_from(["fail", "count", "count"]))
    listed = []
    for value in values:
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for cell in cells:
            name = text if len(cells) == 1 else f"{text}_{cell}"
            listed.append(f"{CELLS[cell][1].format(f'filter (where {_is(on, value)})')} as {quoted(name)}")
    names = ", ".join(map(quoted, keys))
    sql = f"select {names}{', ' if keys else ''}{', '.join(listed)} from rows" + (f" group by {names}" if keys else "")
    fails = f"select coalesce(bool_or(not coalesce({' or '.join(_is(on, value) for value in values)}, false)), false) from rows"
    compute = {cell: CELLS[cell][0] for cell in cells}
    stage = Pivot.model_validate({"by": keys, "on": on, "values": values, "compute": compute, "unseen": unseen})
    return Case(stage, {"rows": draw(tables())}, sql, fails=fails if unseen == "fail" else "")


@st.composite
def unpivot(draw: st.DrawFn) -> Case:
    """Columns of one type as rows, of each row in their order."""
    dtype = COLUMNS[draw(st.sampled_from(ANY))].dtype
    same = [name for name in ANY if COLUMNS[name].dtype == dtype]
    on = draw(some(same))
    index = draw(st.none() | some([name for name in ANY if name not in on]).map(lambda names: ["row", *names]))
    drop = draw(st.booleans())
    rows = draw(tables())
    kept = index or [name for name in rows.columns if name not in on]
    listed, places = ", ".join(map(quoted, on)), " ".join(f"when '{name}' then {place}" for place, name in enumerate(on))
    sql = f"select {', '.join(map(quoted, kept))}, variable, value from rows unpivot include nulls (value for variable in ({listed}))"
    sql += f"{' where value is not null' if drop else ''} order by row, case variable {places} end"
    return Case(Unpivot.model_validate({"on": on, "index": index, "drop_nulls": drop}), {"rows": rows}, sql, ordered=True)


@st.composite
def explode(draw: st.DrawFn) -> Case:
    """A row a value of one or two lists that are as long as one another, some of them empty or null."""
    names, empty = draw(some(ANY, most=2)), draw(st.sampled_from(["keep", "drop"]))
    rows, values = draw(tables(("key",), most=12)), draw(tables(names))
    random = Random(draw(st.integers(0, 2**32)))
    starts = [random.choice([None, 0, random.randrange(values.height + 1)]) for _ in range(rows.height)]
    lengths = [random.randrange(4) for _ in starts]
    for name in names:
        cut = [None if start is None else values[name][start : start + length] for start, length in zip(starts, lengths, strict=True)]
        rows = rows.with_columns(pl.Series(name if name != "key" else "keys", cut, dtype=pl.List(values.schema[name])))
    names = ["keys" if name == "key" else name for name in names]
    of = "{0}" if empty == "drop" else "case when len({0}) > 0 then {0} else [null] end"
    listed = ", ".join(f"unnest({of.format(quoted(name))}) as {quoted(name)}" for name in names)
    return Case(Explode.model_validate({"columns": names, "empty": empty}), {"rows": rows}, f"select * replace ({listed}) from rows")


@st.composite
def unnest(draw: st.DrawFn) -> Case:
    """Fields of a structure, some of them null, as columns in its place."""
    names, separator = draw(some(ANY, 1, 4)), draw(st.sampled_from([None, "_", "."]))
    rows = draw(tables(tuple(names)))
    made = rows.select("row", pl.when(pl.col("row") % 3 != 1).then(pl.struct(names)).alias("s"), after=pl.col("row") * 2)
    listed = ", ".join(f"s.{quoted(name)} as {quoted(name if separator is None else f's{separator}{name}')}" for name in names)
    return Case(Unnest(columns=("s",), separator=separator), {"rows": made}, f'select "row", {listed}, after from rows')


@st.composite
def union_of_some(draw: st.DrawFn) -> Case:
    """Three tables of which each has some of the columns."""
    a, b, c = (draw(tables(tuple(draw(some(ANY, 1, 4))), most=9)) for _ in range(3))
    sql = "select * from a union all by name select * from b union all by name select * from c"
    return Case(Union(missing="nulls"), {"a": a, "b": b, "c": c}, sql)
