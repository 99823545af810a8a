"""What is expected of a table, as SQL: the rows that keep to all rules, and those that do not with what they break."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pipeline.stages.relational.expect import Expect
from tests.differential.cases import Case
from tests.differential.expressions import conditions
from tests.differential.keyed_stages import KEYS
from tests.differential.oracle import quoted
from tests.differential.tables import ANY, INTEGERS, some, tables

BOUNDS: dict[str, tuple[Any, Any]] = dict.fromkeys(INTEGERS, (-130, 256))
BOUNDS |= {
    "ratio": (-2.5, 1e15),
    "price": (-1, 19.99),
    "small": (0.5, 9.5),
    "day": ("1970-01-01", "2021-01-01"),
    "word": ("A", "a'b"),
}
BOUNDS |= {"clock": ("2020-02-29 12:00:00", "2021-05-31 22:30:00")}
LISTED: dict[str, list[Any]] = {
    "word": ["a", "a'b", "Zürich", ""],
    "key": [1, 2, 300],
    "flag": [True],
    "day": ["2000-02-29"],
    "int8": [-128, 127],
}
Said = tuple[dict[str, Any], str, str]  # a rule, when it is broken as SQL on `t`, and its text


def _sql(name: str, value: Any) -> str:
    text = "'" + str(value).replace("'", "''") + "'"
    kind = {"day": "date ", "clock": "timestamp "}.get(name, "")
    return f"{kind}{text}" if isinstance(value, str) else str(value).lower()


def _are(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _not_null(draw: st.DrawFn) -> Said:
    names = draw(some(ANY))
    return {"check": "not_null", "columns": names}, " or ".join(f"{quoted(name)} is null" for name in names), f"{_are(names)} not null"


def _range(draw: st.DrawFn) -> Said:
    name = draw(st.sampled_from(sorted(BOUNDS)))
    low, high = BOUNDS[name]
    if draw(st.booleans()):
        return {"check": "range", "column": name, "min": low}, f"{name} < {_sql(name, low)}", f"{name} >= {low}"
    broken = f"{name} < {_sql(name, low)} or {name} > {_sql(name, high)}"
    return {"check": "range", "column": name, "min": low, "max": high}, broken, f"{name} >= {low} and {name} <= {high}"


def _values(draw: st.DrawFn) -> Said:
    name = draw(st.sampled_from(sorted(LISTED)))
    values = draw(st.lists(st.sampled_from(LISTED[name]), min_size=1, unique=True))
    broken = f"{name} not in ({', '.join(_sql(name, value) for value in values)})"
    return {"check": "values", "column": name, "values": values}, broken, f"{name} is one of {', '.join(map(str, values))}"


def _condition(draw: st.DrawFn) -> Said:
    ours, theirs = draw(conditions())
    return {"check": "condition", "where": ours}, f"not ({theirs})", ours


def _unique(draw: st.DrawFn) -> Said:
    names = draw(some(KEYS, most=2))
    there = " and ".join(f"{quoted(name)} is not null" for name in names)
    twice = f"({there}) and count(*) over (partition by {', '.join(map(quoted, names))}) > 1"
    return {"check": "unique", "columns": names}, twice, f"{_are(names)} unique"


def _reference(draw: st.DrawFn) -> Said:
    names = draw(some(KEYS, most=2))
    there = " and ".join(f"t.{quoted(name)} is not null" for name in names)
    same = " and ".join(f"o.{quoted(name)} = t.{quoted(name)}" for name in names)
    broken = f"({there}) and not exists (select 1 from others o where {same})"
    return {"check": "reference", "columns": names, "table": "others"}, broken, f"{_are(names)} in others"


KINDS = (_not_null, _range, _values, _condition, _unique, _reference)


@st.composite
def expect(draw: st.DrawFn) -> Case:
    """Up to three rules whose rows are put aside; sometimes one that fails the run."""
    drawn = [draw(st.sampled_from(KINDS))(draw) for _ in range(draw(st.integers(1, 3)))]
    least = draw(st.sampled_from([None, None, 20]))
    rules = {f"r{number}": {**rule, "action": "quarantine"} for number, (rule, _, _) in enumerate(drawn)}
    rules |= {"some": {"check": "rows", "min": least}} if least else {}
    marks = ", ".join(f"coalesce({broken}, false) as b{number}" for number, (_, broken, _) in enumerate(drawn))
    any_of = " or ".join(f"b{number}" for number in range(len(drawn)))
    flags = ", ".join(f"b{number}" for number in range(len(drawn)))
    names, reasons = (
        f"concat_ws('; ', {', '.join(f'case when b{number} then {text} end' for number, text in enumerate(texts))})"
        for texts in ([f"'r{number}'" for number in range(len(drawn))], [_sql("", f"not so: {text}") for _, _, text in drawn])
    )
    marked = f"select t.*, {marks} from rows t"
    kept = f"select * exclude ({flags}) from ({marked}) where not ({any_of})"
    nowhere = "cast(null as varchar) as file, cast(null as bigint) as row"
    taken = f"select * exclude ({flags}), {names} as rules, {reasons} as reason, {nowhere} from ({marked}) where {any_of}"
    given = {"rows": draw(tables()).rename({"row": "place"}), "others": draw(tables(KEYS))}
    fails = f"select count(*) < {least} from rows" if least else ""
    return Case(Expect.model_validate({"rules": rules}), given, kept, also={"quarantined": taken}, fails=fails)
