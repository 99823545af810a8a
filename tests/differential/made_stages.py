"""Stages that make columns out of one row's, as SQL: hash_bucket, one_hot and date_parts."""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline.stages._keys import STEP
from pipeline.stages.features.date_parts import OF_DAYS, PARTS, ROUNDS, DateParts
from pipeline.stages.features.hash_bucket import OWN_START, HashBucket
from pipeline.stages.features.one_hot import OneHot
from tests.differential.cases import Case
from tests.differential.feature_stages import CATEGORIES, LEARNED, _fit
from tests.differential.oracle import quoted
from tests.differential.row_stages import HASHABLE, _with_fraction
from tests.differential.tables import some, tables

SQL_PARTS = {"week": "week", "weekday": "isodow", "day_of_year": "dayofyear"}


@st.composite
def hash_bucket(draw: st.DrawFn) -> Case:
    """The documented hash modulo the buckets; missing where a column is."""
    names, buckets, seed = draw(some(HASHABLE)), draw(st.sampled_from([2, 10, 2**31])), draw(st.integers(0, 9))
    there = " and ".join(f"{quoted(name)} is not null" for name in names)
    made = f"case when {there} then (z % {buckets})::ubigint end as made"
    sql = f"select * exclude (z), {made} from {_with_fraction(names, STEP * (seed + 1) + OWN_START)}"
    stage = HashBucket(columns={"made": tuple(names)}, buckets=buckets, seed=seed)
    return Case(stage, {"rows": draw(tables())}, sql)


@st.composite
def one_hot(draw: st.DrawFn) -> Case:
    """The most frequent values of a column, each as a column."""
    name, most, (ours, theirs) = draw(st.sampled_from(CATEGORIES)), draw(st.integers(1, 4)), draw(st.sampled_from(LEARNED))
    text = f"cast({quoted(name)} as varchar)"
    ranked = f"select {text} from rows where {theirs} and {quoted(name)} is not null group by 1 order by count(*) desc, 1"
    marks = [f"coalesce({text} = ({ranked} limit 1 offset {place}), false)" for place in range(most)]
    made = [f"cast({mark} as tinyint) as {quoted(f'{name}_{place + 1}')}" for place, mark in enumerate(marks)]
    made.append(f"cast({quoted(name)} is not null and not ({' or '.join(marks)}) as tinyint) as {quoted(f'{name}_other')}")
    stage = OneHot.model_validate({"columns": [name], "most": most, "other": True, **_fit(ours)})
    return Case(stage, {"rows": draw(tables(least=1))}, f"select * exclude ({quoted(name)}), {', '.join(made)} from rows")


@st.composite
def date_parts(draw: st.DrawFn) -> Case:
    """Parts of days and moments, and where they are on a circle."""
    name = draw(st.sampled_from(["day", "clock", "moment"]))
    has = [part for part in PARTS if name != "day" or part not in OF_DAYS]
    parts, cyclic = draw(some(has)), draw(some([part for part in ROUNDS if part in has]))
    said = {part: f"{SQL_PARTS.get(part, part)}({name})" for part in {*parts, *cyclic}}
    made = [f"cast({said[part]} as int) as {name}_{part}" for part in parts]
    for part in cyclic:
        first, period = ROUNDS[part]
        made += [f"{way}(({said[part]} - {first}) * 2 * pi() / {period}) as {name}_{part}_{way}" for way in ("sin", "cos")]
    stage = DateParts.model_validate({"columns": name, "parts": parts, "cyclic": cyclic})
    return Case(stage, {"rows": draw(tables())}, f"select *, {', '.join(made)} from rows")
