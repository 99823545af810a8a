"""Stages that go by time, as SQL: resample, as_of, interpolate and sessionize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pipeline.stages.relational.as_of import AsOf
from pipeline.stages.relational.interpolate import Interpolate
from pipeline.stages.relational.resample import Resample
from pipeline.stages.relational.sessionize import Sessionize
from tests.differential.cases import Case
from tests.differential.keyed_stages import ordering
from tests.differential.oracle import quoted
from tests.differential.tables import some, tables

GROUPS = ("key", "word", "flag", "int8")
COMPUTED = {
    "rows": ("size()", "count(*)"),
    "words": ("count(word)", "count(word)"),
    "total": ("sum(int16)", "coalesce(sum(int16), 0)"),
    "middle": ("mean(uint16)", "avg(uint16::double)"),
    "least": ("min(ratio)", "min(ratio)"),
    "most": ("max(int32)", "max(int32)"),
    "last_word": ({"function": "last", "of": "word", "order_by": "row"}, 'arg_max(word, "row")'),
    "first_day": ({"function": "first", "of": "day", "order_by": "row"}, 'arg_min("day", "row")'),
}
NUMBERS = ("rows", "words", "total", "middle", "least", "most")


@dataclass(frozen=True)
class Stepped:
    """A step in SQL: of a column its number `n`, when that begins, and how far that is."""

    number: str
    begin: str
    place: str


def _fixed(name: str, size: int, first: int = 0) -> Stepped:
    places = {"clock": "epoch_us(clock)", "day": "(day - date '1970-01-01')", "small": "small"}
    place = f"(n * {size} + {first})"
    begins = {"clock": f"make_timestamp({place})", "day": f"date '1970-01-01' + {place}::int", "small": place}
    return Stepped(f"floor(({places[name]} - {first})::double / {size})::bigint", begins[name], place)


def _months(name: str, months: int) -> Stepped:
    month = f"((year({name}) - 1970) * 12 + month({name}) - 1)"
    begin = f"(date '1970-01-01' + to_months((n * {months})::int))"
    day = f"cast({begin} as date)"
    return Stepped(
        f"floor({month}::double / {months})::bigint", day if name == "day" else f"{begin}::timestamp", f"({day} - date '1970-01-01')"
    )


STEPS: dict[str, Mapping[str, Stepped]] = {
    "clock": {
        "52w": _fixed("clock", 364 * 86_400_000_000, 4 * 86_400_000_000),
        "100d": _fixed("clock", 100 * 86_400_000_000),
        "90d 6h": _fixed("clock", 90 * 86_400_000_000, 6 * 3_600_000_000),
        "1mo": _months("clock", 1),
        "1q": _months("clock", 3),
        "5mo": _months("clock", 5),
    },
    "day": {"1y": _months("day", 12), "30y": _months("day", 360), "1000w": _fixed("day", 7000, 4), "3650d": _fixed("day", 3650)},
    "small": {"1": _fixed("small", 1), "7 3": _fixed("small", 7, 3), "50": _fixed("small", 50)},
}


def _filled(name: str, rule: str, keys: str) -> str:
    """A column in SQL, where `gap` says that its step has no rows."""
    over = f"over (partition by {keys}, timed order by n"
    before = "{} " + f"{over} rows between unbounded preceding and current row)"
    after = "{} " + f"{over} rows between current row and unbounded following)"
    if rule in {"null", "none"}:
        return name
    if rule == "zero":
        return f"case when gap then 0 else {name} end"
    if rule == "forward":
        return f"case when gap then {before.format(f'last_value({name} ignore nulls)')} else {name} end"
    place = f"case when {name} is not null then place end"
    low, high = before.format(f"last_value({name} ignore nulls)"), after.format(f"first_value({name} ignore nulls)")
    first, last = before.format(f"last_value({place} ignore nulls)"), after.format(f"first_value({place} ignore nulls)")
    value = f"{low}::double + ({high}::double - {low}::double) * ((place - {first})::double / ({last} - {first}))"
    return f"case when gap and {last} > {first} then {value} when not gap then {name}::double end"


@st.composite
def resample(draw: st.DrawFn) -> Case:
    """Steps of each of three columns, gaps filled by each rule."""
    keys, time = draw(st.just([]) | some(GROUPS, most=2)), draw(st.sampled_from(sorted(STEPS)))
    every, step = draw(st.sampled_from(sorted(STEPS[time].items())))
    names = draw(some(sorted(COMPUTED)))
    rules = {n: draw(st.sampled_from(["null", "forward", *(["zero", "interpolate"] if n in NUMBERS else [])])) for n in names}
    gaps: Any = draw(st.sampled_from(["none", rules]))
    listed = ", ".join(map(quoted, keys)) or "1"
    group, joined = ("".join(f"{prefix}{quoted(name)}, " for name in keys) for prefix in ("", "s."))
    aggregated = ", ".join(f"{COMPUTED[name][1]} as {name}" for name in names)
    steps = f"steps as (select {group}{step.number} as n, {aggregated} from rows group by all)"
    timed = f"select {group}n, n is not null as timed, {', '.join(names)}, false as gap, {step.place} as place from steps"
    if gaps != "none":
        ends = f"select {group}min(n) as low, max(n) as high from steps where n is not null group by {listed if keys else '()'}"
        every_step = f"select {group}unnest(range(low, high + 1)) as n from ({ends})"
        same = " and ".join(f"s.{quoted(name)} is not distinct from a.{quoted(name)}" for name in [*keys, "n"])
        values = f"{', '.join(f'a.{name}' for name in names)}, a.timed is null as gap, {step.place.replace('n *', 's.n *')} as place"
        whole = f"select {joined}s.n, true as timed, {values} from ({every_step}) s left join ({timed}) a on {same}"
        timed = f"{whole} union all select * from ({timed}) where not timed"
    filled = ", ".join(f"{_filled(name, 'none' if gaps == 'none' else rules[name], listed)} as {name}" for name in names)
    sql = f"with {steps} select {group}{step.begin} as {time}, {filled} from ({timed}) order by {ordering([*keys, time])}"
    compute = {name: COMPUTED[name][0] for name in names}
    stated = {"every": every.split()[0], "offset": every.split()[1] if " " in every else None}
    stage = Resample.model_validate({"by": keys, "time": time, "compute": compute, "gaps": gaps, **stated})
    columns = tuple({*keys, "clock", "day", "small", "word", "int16", "uint16", "ratio", "int32"})
    return Case(stage, {"rows": draw(tables(sorted(columns)))}, sql, ordered=True)


DISTANCES = {"clock": "epoch_us({})", "day": "({} - date '1970-01-01')", "small": "{}", "key": "{}"}
TOLERANCES: dict[str, Sequence[tuple[str, int]]] = {
    "clock": [("1h", 3_600_000_000), ("1000d", 86_400_000_000_000)],
    "day": [("1d", 1), ("1000w", 7000)],
    "small": [("2", 2), ("50", 50)],
    "key": [("1", 1), ("5", 5)],
}


ROWS_BY_TIME = """select l."row" as id, r.*, {0} - {1} as apart, row_number() over (partition by l."row" order by {2}) as n
from "left" l join "right" r on {3}"""


@st.composite
def as_of(draw: st.DrawFn) -> Case:
    """Two tables by no key, one or two, and the nearest time, which may be named otherwise on the right."""
    time, keys = draw(st.sampled_from(sorted(DISTANCES))), draw(st.just([]) | some(GROUPS, most=2))
    keys, other = [name for name in keys if name != time], draw(st.sampled_from([time, "at"]))
    tolerance, limit = draw(st.sampled_from([(None, None), *TOLERANCES[time]]))
    options: dict[str, Any] = {"direction": draw(st.sampled_from(["backward", "forward", "nearest"])), "exact": draw(st.booleans())}
    options["how"] = how = draw(st.sampled_from(["left", "inner"]))
    left, right = draw(tables((*keys, time), most=24)), draw(tables((*keys, time, "word" if "word" not in keys else "price"), most=24))
    right = right.rename({time: other}).select(*keys, other, *(name for name in right.columns if name not in {*keys, time}))
    stage = AsOf.model_validate({"by": keys, "on": {time: other}, "tolerance": tolerance, **options})
    near, far = DISTANCES[time].format(f"l.{time}"), DISTANCES[time].format(f"r.{other}")
    same = [f"l.{quoted(name)} = r.{quoted(name)}" for name in keys] + ([f"abs({near} - {far}) <= {limit}"] if limit else [])
    added = [name for name in right.columns if name not in keys]
    up, down = (", ".join(f"r.{quoted(name)} {way}" for name in added) for way in ("nulls last", "desc nulls first"))
    sign = "=" if options["exact"] else ""
    back = ROWS_BY_TIME.format(near, far, down, " and ".join([*same, f"{far} <{sign} {near}"]))
    ahead = ROWS_BY_TIME.format(far, near, up, " and ".join([*same, f"{far} >{sign} {near}"]))
    sides = {"backward": [back], "forward": [ahead], "nearest": [back, ahead]}[options["direction"]]
    chosen = " union all ".join(f"select *, {place} as side from ({side}) where n = 1" for place, side in enumerate(sides))
    best = f"select * from ({chosen}) qualify row_number() over (partition by id order by apart, side) = 1"
    named = ", ".join(f"b.{quoted(name)} as {quoted(name + '_right' if name in left.columns else name)}" for name in added)
    sql = f'select l.*, {named} from "left" l {how} join ({best}) b on l."row" = b.id order by l."row"'
    return Case(stage, {"left": left, "right": right}, sql, ordered=True)


def _around(name: str, taken: str, partition: str) -> tuple[str, str]:
    """What a row before knows of a column's nearest known value, and what one after does."""
    value = f"case when {name} is not null and place is not null then {taken} end"
    over = f"over ({partition} order by nth rows between"
    return (
        f"last_value({value} ignore nulls) {over} unbounded preceding and current row)",
        f"first_value({value} ignore nulls) {over} current row and unbounded following)",
    )


def _interpolated(name: str, method: str, options: dict[str, Any], span: int | None, partition: str) -> str:
    """A column with what is put in."""
    (low, high), (first, last), (before, after) = (_around(name, taken, partition) for taken in (name, "place", "nth"))
    near, limit = [f"{before} is not null", f"{after} is not null"], options["limit"]
    if limit:
        near = [f"{near[0]} and nth - {before} <= {limit}", f"{near[1]} and {after} - nth <= {limit}"]
    if span:
        near = [f"{near[0]} and place - {first} <= {span}", f"{near[1]} and {last} - place <= {span}"]
    start, end, here = (first, last, "place") if options["spacing"] == "order" else (before, after, "nth")
    if method == "linear":
        short = f"{before} is not null and {after} is not null"
        short += f" and {after} - {before} <= {limit + 1}" if limit else ""
        short += f" and {last} - {first} <= {span}" if span else ""
        slope = f"case when {end} > {start} then ({here} - {start})::double / ({end} - {start}) else 0 end"
        between = f"{low}::double + ({high}::double - {low}::double) * {slope}"
        value = f"case when {here} = {end} and {end} > {start} then {high}::double else {between} end"  # without rounding
        return f"case when {name} is not null then {name}::double when place is not null and {short} then {value} end"
    values = {"forward": f"case when {near[0]} then {low} end", "backward": f"case when {near[1]} then {high} end"}
    nearer = f"({near[1]}) and (not ({near[0]}) or {end} - {here} < {here} - {start})"
    values["nearest"] = f"case when {nearer} then {high} when {near[0]} then {low} end"
    return f"case when {name} is not null or place is null then {name} else {values[method]} end"


def _timed(draw: st.DrawFn) -> tuple[str, list[str], str | None, int | None, str]:
    """A column of times, keys, a span or none, and the partition in SQL."""
    time, keys = draw(st.sampled_from(sorted(DISTANCES))), draw(st.just([]) | some(GROUPS, most=2))
    keys = [name for name in keys if name != time]
    text, span = draw(st.sampled_from([(None, None), *TOLERANCES[time]]))
    return time, keys, text, span, f"partition by {', '.join(map(quoted, keys))}" if keys else ""


@st.composite
def interpolated(draw: st.DrawFn) -> Case:
    """Two columns filled by any method, along each of four columns."""
    time, keys, text, span, partition = _timed(draw)
    names = draw(some([name for name in ("ratio", "int16", "uint8", "int32", "flag") if name not in keys], 2, 2))
    methods = {name: draw(st.sampled_from(["linear", "forward", "backward", "nearest"])) for name in names}
    options: dict[str, Any] = {"spacing": draw(st.sampled_from(["order", "rows"])), "limit": draw(st.sampled_from([None, 1, 2]))}
    methods = {name: "forward" if name == "flag" else method for name, method in methods.items()}
    rows = draw(tables((*keys, time, *names)))
    order = ordering([time, *(name for name in rows.columns if name not in {*keys, time})])
    listed = ", ".join(f"{_interpolated(name, method, options, span, partition)} as {name}" for name, method in methods.items())
    numbered = f"select *, {DISTANCES[time].format(time)} as place, row_number() over ({partition} order by {order}) as nth from rows"
    sql = f"select * exclude (place, nth) replace ({listed}) from ({numbered}) order by {ordering(keys) + ', ' if keys else ''}nth"
    stage = Interpolate.model_validate({"by": keys, "order": time, "columns": methods, "max_span": text, **options})
    return Case(stage, {"rows": rows}, sql, ordered=True)


@st.composite
def sessionized(draw: st.DrawFn) -> Case:
    """Sessions by each of four columns."""
    time, keys, _, _, partition = _timed(draw)
    text, gap = draw(st.sampled_from(TOLERANCES[time]))
    rows = draw(tables((*keys, time, "word" if "word" not in keys else "price")))
    order = ordering([time, *(name for name in rows.columns if name not in {*keys, time})])
    place = DISTANCES[time].format(time)
    far = f"(lag({place}) over w is null or {place} - lag({place}) over w > {gap})::int"
    marked = f"select *, {far} as far, row_number() over w as nth from rows window w as ({partition} order by {order})"
    session = f"case when {time} is not null then sum(far) over ({partition} order by nth) end"
    sql = f"select * exclude (far, nth), {session} as session from ({marked}) order by {ordering(keys) + ', ' if keys else ''}nth"
    return Case(Sessionize.model_validate({"by": keys, "time": time, "gap": text}), {"rows": rows}, sql, ordered=True)
