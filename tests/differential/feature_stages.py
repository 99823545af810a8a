"""Stages that learn from all rows before they change one, as SQL: fill_missing, categorify and standardize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pipeline.stage import Stage
from pipeline.stages.features.categorify import Categorify
from pipeline.stages.features.fill_missing import FillMissing
from pipeline.stages.features.standardize import Standardize
from tests.differential.cases import Case
from tests.differential.oracle import quoted
from tests.differential.tables import INTEGERS, some, tables

SMALL = tuple(name for name in INTEGERS if not name.endswith("64"))
NUMBERS = ("key", "small", "ratio", *SMALL)
CATEGORIES = ("key", "word", "code", "flag", *INTEGERS)
FILLED = (*CATEGORIES, "ratio", "day", "clock", "moment", "price")
ALL = [("", "true")]
LEARNED = [*ALL, ("row % 2 = 0", '"row" % 2 = 0'), ("row < 3", '"row" < 3')]  # the first row is among them
Work = tuple[Stage, str]  # what it does as SQL on the table `rows`


def _fit(condition: str) -> dict[str, str]:
    return {"fit_where": condition} if condition else {}


@st.composite
def filled_with_numbers(draw: st.DrawFn, numbers: Sequence[str], learned_from: Sequence[tuple[str, str]] = ALL) -> Work:
    """Missing numbers as the mean, the median or zero."""
    names, method = draw(some(numbers)), draw(st.sampled_from(["mean", "median", "zero"]))
    ours, theirs = draw(st.sampled_from(learned_from))
    learned = {"mean": "avg(cast({0} as double))", "median": "median(cast({0} as double))", "zero": "max(0)"}[method]
    filled = [f"coalesce({name}, (select {learned.format(name)} from rows where {theirs})) as {name}" for name in names]
    marks = [f"cast({name} is null as tinyint) as {name}_missing" for name in names]
    stage = FillMissing.model_validate({"columns": names, "method": method, "indicator": True, **_fit(ours)})
    return stage, f"select * replace ({', '.join(filled)}), {', '.join(marks)} from rows"


@st.composite
def fill_numbers(draw: st.DrawFn) -> Case:
    """Numbers filled."""
    stage, sql = draw(filled_with_numbers(NUMBERS, LEARNED))
    return Case(stage, {"rows": draw(tables(least=1))}, sql)


@st.composite
def fill_by_group(draw: st.DrawFn) -> Case:
    """Numbers filled with the mean or the median of their group, or of all rows."""
    name, by = draw(st.sampled_from(["small", "int8", "uint16"])), draw(some(["key", "word", "flag", "day"], most=2))
    method, (ours, theirs) = draw(st.sampled_from(["avg", "median"])), draw(st.sampled_from(LEARNED))
    same = " and ".join(f"r.{quoted(key)} is not distinct from t.{quoted(key)}" for key in by)
    learned = f"(select * from rows where {theirs}) r"
    own, whole = (f"(select {method}(cast(r.{name} as double)) from {learned}{where})" for where in (f" where {same}", ""))
    stage = FillMissing.model_validate({"columns": [name], "method": method.replace("avg", "mean"), "by": by, **_fit(ours)})
    sql = f"select t.* replace (coalesce(t.{name}, {own}, {whole}) as {name}) from rows t"
    return Case(stage, {"rows": draw(tables(least=1))}, sql)


@st.composite
def fill_most_frequent(draw: st.DrawFn) -> Case:
    """Missing values of any type as the most frequent one, of several the least."""
    name, (ours, theirs) = draw(st.sampled_from(FILLED)), draw(st.sampled_from(LEARNED))
    column = quoted(name)
    ranked = f"select {column} from rows where {column} is not null and {theirs} group by {column} order by count(*) desc, {column} limit 1"
    stage = FillMissing.model_validate({"columns": [name], "method": "most_frequent", **_fit(ours)})
    sql = f"select * replace (coalesce({column}, ({ranked})) as {column}) from rows"
    return Case(stage, {"rows": draw(tables(least=1))}, sql)


CONSTANTS: dict[str, Any] = {"word": "it's", "flag": True, "ratio": 2.5, "int8": -128, "uint64": 7, "small": 0}


@st.composite
def fill_constant(draw: st.DrawFn) -> Case:
    """Missing values as a constant of the column's kind."""
    names = draw(some(list(CONSTANTS)))
    filled = [f"coalesce({name}, {_literal(CONSTANTS[name])}) as {name}" for name in names]
    stage = FillMissing.model_validate({"columns": {name: {"value": CONSTANTS[name]} for name in names}})
    return Case(stage, {"rows": draw(tables(least=1))}, f"select * replace ({', '.join(filled)}) from rows")


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()


@st.composite
def categorified(draw: st.DrawFn, categories: Sequence[str], learned_from: Sequence[tuple[str, str]] = ALL) -> tuple[Stage, str, str]:
    """Codes in the order of the values' text, of those that are frequent enough; the stage, its SQL and that of its codes."""
    names, least, (ours, theirs) = draw(some(categories)), draw(st.integers(1, 3)), draw(st.sampled_from(learned_from))
    text = (
        "select '{0}' as \"column\", cast({0} as varchar) as value, count(*) as rows from rows where {1} and {0} is not null group by all"
    )
    learned = " union all ".join(text.format(name, theirs) for name in names)
    code = 'cast(row_number() over (partition by "column" order by value) - 1 as int) as code'
    ranked = f"select *, {code} from ({learned}) where rows >= {least}"
    stage = Categorify.model_validate({"columns": names, "min_count": least, **_fit(ours)})
    return stage, _coded(names, ranked), ranked


@st.composite
def categorify_with_bucket(draw: st.DrawFn) -> Case:
    """Codes, the last one of what is rare or was not learned."""
    name, least, (ours, theirs) = draw(st.sampled_from(CATEGORIES)), draw(st.integers(1, 3)), draw(st.sampled_from(LEARNED))
    text = f"cast({quoted(name)} as varchar)"
    counts = f"select {text} as v, count(*) as n from rows where {theirs} and {quoted(name)} is not null group by all"
    ranked = f"select v, row_number() over (order by v) - 1 as place from ({counts}) where n >= {least}"
    code = f"coalesce((select place from ({ranked}) where v = cast(t.{quoted(name)} as varchar)), (select count(*) from ({ranked})))"
    sql = f"select t.* replace (case when t.{quoted(name)} is not null then cast({code} as int) end as {quoted(name)}) from rows t"
    stage = Categorify.model_validate({"columns": [name], "min_count": least, "rare": "bucket", **_fit(ours)})
    return Case(stage, {"rows": draw(tables(least=1))}, sql)


@st.composite
def categorify(draw: st.DrawFn) -> Case:
    """Codes, and the table of them."""
    stage, sql, ranked = draw(categorified(CATEGORIES, LEARNED))
    return Case(stage, {"rows": draw(tables(least=1))}, sql, also={"fitted": ranked})


def _coded(names: list[str], ranked: str) -> str:
    join = "left join ({0}) c{1} on c{1}.\"column\" = '{2}' and c{1}.value = cast(t.{2} as varchar)"
    joins = [join.format(ranked, i, name) for i, name in enumerate(names)]
    replaced = ", ".join(f"c{i}.code as {name}" for i, name in enumerate(names))
    return f"select t.* replace ({replaced}) from rows t {' '.join(joins)}"


@st.composite
def standardized(draw: st.DrawFn, numbers: Sequence[str], learned_from: Sequence[tuple[str, str]] = ALL) -> Work:
    """Numbers less their mean by their deviation, 0 where all learned from are one."""
    names, (ours, theirs) = draw(some(numbers)), draw(st.sampled_from(learned_from))
    made = []
    for name in names:
        value = f"cast({name} as double)"
        mean, spread = (f"(select {figure} from rows where {theirs})" for figure in (f"avg({value})", f"stddev_pop({value})"))
        least, most = (f"(select {figure}({name}) from rows where {theirs})" for figure in ("min", "max"))
        constant = f"{least} = {most} or {spread} = 0"  # the deviation of 0 and 1e-300 is no number but 0
        made.append(f"case when ({constant}) and {name} is not null then 0 else ({value} - {mean}) / {spread} end as {name}")
    stage = Standardize.model_validate({"columns": names, **_fit(ours)})
    return stage, f"select * replace ({', '.join(made)}) from rows"


@st.composite
def standardize(draw: st.DrawFn) -> Case:
    """Numbers standardized; of those near 2**32 that differ by 1, five digits are left when their mean is taken away."""
    stage, sql = draw(standardized(NUMBERS, LEARNED))
    return Case(stage, {"rows": draw(tables(least=1))}, sql, apart=1e-5)
