"""Stages that see one row at a time, as SQL: select, rename, cast, filter, derive, union, sample and split."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from pipeline.stage import Stage
from pipeline.stages._keys import STEP
from pipeline.stages.features.split import Split
from pipeline.stages.relational.cast import Cast
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.stages.relational.rename import Rename
from pipeline.stages.relational.sample import OWN_START, Sample
from pipeline.stages.relational.select import Select
from pipeline.stages.relational.union import Union
from tests.differential.cases import Case
from tests.differential.expressions import conditions, values
from tests.differential.oracle import quoted
from tests.differential.tables import ANY, INTEGERS, some, tables

WHOLE = tuple(INTEGERS)
HASHABLE = ("key", "flag", *WHOLE)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


@st.composite
def select(draw: st.DrawFn) -> Case:
    """Columns kept in another order, or left out."""
    rows = draw(tables())
    names = draw(some(rows.columns, most=len(rows.columns) - 1))
    if draw(st.booleans()):
        return Case(Select(columns=tuple(names)), {"rows": rows}, f"select {_listed(names)} from rows")
    return Case(Select(drop=tuple(names)), {"rows": rows}, f"select * exclude ({_listed(names)}) from rows")


@st.composite
def rename(draw: st.DrawFn) -> Case:
    """Two columns that swap their names, and one with a new one."""
    rows = draw(tables())
    one, other, third = draw(some(ANY, 3, 3))
    names = {one: other, other: one, third: "a new name"}
    listed = ", ".join(f"{quoted(name)} as {quoted(names.get(name, name))}" for name in rows.columns)
    return Case(Rename(columns=names), {"rows": rows}, f"select {listed} from rows")


@st.composite
def filtered(draw: st.DrawFn) -> Case:
    """Rows by a random condition."""
    ours, theirs = draw(conditions())
    return Case(Filter(where=ours), {"rows": draw(tables())}, f"select * from rows where {theirs}")


@st.composite
def derive(draw: st.DrawFn) -> Case:
    """New columns, and one more that is made of the first."""
    made = {f"x{i}": draw(values()) for i in range(4)}
    columns = {name: ours for name, (ours, _) in made.items()} | {"again": "x0"}
    listed = ", ".join(f"{theirs} as {name}" for name, (_, theirs) in made.items())
    return Case(Derive(columns=columns), {"rows": draw(tables())}, f"select *, x0 as again from (select *, {listed} from rows)")


@st.composite
def union(draw: st.DrawFn) -> Case:
    """Three tables, one of them with its columns in another order."""
    names = draw(some(ANY, 2, 5))
    a, b, c = (draw(tables(names, most=9)) for _ in range(3))
    b = b.select(reversed(b.columns))
    return Case(Union(), {"a": a, "b": b, "c": c}, "select * from a union all by name select * from b union all by name select * from c")


def _with_fraction(names: Sequence[str], start: int) -> str:
    """The rows with the keys' hash as z: of each key its word is added, and the sum mixed as splitmix64 does."""
    found = f"(select *, {start % 2**64}::uhugeint as z from rows)"
    steps = [f"times(folded(z, {2**bits}), {factor})" for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))]
    for name in names:
        for step in (f"plus(word({quoted(name)}::hugeint), z)", *steps, f"folded(z, {2**31})"):
            found = f"(select * replace ({step} as z) from {found})"
    return found


@st.composite
def sampled(draw: st.DrawFn, keys: Sequence[str]) -> tuple[Stage, str]:
    """A share of the rows, by the documented hash of their keys; the stage, and its SQL on the table `rows`."""
    names, share, seed = draw(some(keys, most=2)), draw(st.sampled_from([0, 0.1, 0.5, 1])), draw(st.integers(0, 99))
    sql = f"select * exclude (z) from {_with_fraction(names, STEP * (seed + 1) + OWN_START)} where fraction(z) < {share}"
    return Sample(fraction=share, key=tuple(names), seed=seed), sql


@st.composite
def sample(draw: st.DrawFn) -> Case:
    """Some of the rows."""
    stage, sql = draw(sampled(HASHABLE))
    return Case(stage, {"rows": draw(tables())}, sql)


@st.composite
def split(draw: st.DrawFn) -> Case:
    """Training, validation and test, by the documented hash of the keys."""
    names, seed = draw(some(HASHABLE, most=2)), draw(st.integers(0, 99))
    train, validation = draw(st.sampled_from([(0.7, 0.15), (0.5, 0.0), (0.0, 0.5), (1.0, 0.0)]))
    stage = Split(key=tuple(names), train=train, validation=validation, test=1 - train - validation, seed=seed)
    label = f"case when fraction(z) < {train} then 'train' when fraction(z) < {train + validation} then 'validation' else 'test' end"
    sql = f"select * exclude (z), {label} as split from {_with_fraction(names, STEP * (seed + 1))}"
    return Case(stage, {"rows": draw(tables())}, sql)


CASTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*WHOLE, "small"), (*WHOLE, "string", "boolean")),
    "flag": ("int8", "int64", "float64"),
    "ratio": ("int8", "int64", "uint32", "float64", "boolean"),
    "share": ("int16", "float64"),
    "price": ("int64", "int8", "float64"),
    "day": ("string",),
    "clock": ("date",),
    "word": ("int8", "int64", "uint16"),
}


def _cast(name: str, wanted: str) -> str:
    """The cast of one value, null where it does not fit: a fraction is no whole number, text is trimmed."""
    column, kind = quoted(name), {"float64": "double", "float32": "real", "string": "varchar", "int8": "tinyint"}.get(wanted, wanted)
    if name in {"ratio", "share", "price"} and wanted in INTEGERS:
        return f"case when {column} = floor({column}) then try_cast({column} as {kind}) end"
    if name == "word":
        return f"case when regexp_full_match(trim({column}), '[+-]?[0-9]+') then try_cast(trim({column}) as {kind}) end"
    return f"try_cast({column} as {kind})"


@st.composite
def cast(draw: st.DrawFn, casts: dict[str, tuple[str, ...]] = CASTS) -> Case:
    """Columns in another type: null where a value does not fit, or an error where `strict`."""
    strict = draw(st.booleans())
    wanted = {name: draw(st.sampled_from(casts[name])) for name in draw(some(sorted(casts), most=1 if strict else 6))}
    made = ", ".join(f"{_cast(name, kind)} as {quoted(name)}" for name, kind in wanted.items())
    lost = " or ".join(f"({quoted(name)} is not null and {_cast(name, kind)} is null)" for name, kind in wanted.items())
    fails = f"select count(*) > 0 from rows where {lost}" if strict else ""
    stage = Cast.model_validate({"columns": wanted, "strict": strict})
    return Case(stage, {"rows": draw(tables(tuple(casts)))}, f"select * replace ({made}) from rows", fails=fails)
