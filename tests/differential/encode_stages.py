"""Stages that learn values with their counts before they change a column, as SQL: rescale, clip, bucketize, count and target encoding."""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline.stages._keys import STEP
from pipeline.stages.features.bucketize import Bucketize
from pipeline.stages.features.clip import Clip
from pipeline.stages.features.count_encode import CountEncode
from pipeline.stages.features.rescale import Rescale
from pipeline.stages.features.target_encode import OWN_START, TargetEncode
from pipeline.testing.stages import SEED
from tests.differential.cases import Case
from tests.differential.feature_stages import CATEGORIES, LEARNED, NUMBERS, _fit
from tests.differential.oracle import quoted
from tests.differential.row_stages import _with_fraction
from tests.differential.tables import some, tables

RATIO_APART = 1e-6  # of distances near 1e15


def _quantile(name: str, share: float, theirs: str) -> str:
    return f"(select quantile_cont(cast({name} as double), {share}) from rows where {theirs})"


@st.composite
def rescale(draw: st.DrawFn) -> Case:
    """Numbers less their center by a distance; 0 where that is none."""
    names, method, (ours, theirs) = draw(some(NUMBERS)), draw(st.sampled_from(["robust", "min_max"])), draw(st.sampled_from(LEARNED))
    center, low, high = {"robust": (0.5, 0.25, 0.75), "min_max": (0.0, 0.0, 1.0)}[method]
    made = []
    for name in names:
        middle, least, most = (_quantile(name, share, theirs) for share in (center, low, high))
        made.append(f"(cast({name} as double) - {middle}) / coalesce(nullif({most} - {least}, 0), 1) as {name}")
    stage = Rescale.model_validate({"columns": names, "method": method, **_fit(ours)})
    return Case(stage, {"rows": draw(tables(least=1))}, f"select * replace ({', '.join(made)}) from rows", apart=RATIO_APART)


@st.composite
def clip(draw: st.DrawFn) -> Case:
    """Numbers within bounds, or within quantiles; as they are where there are none."""
    names, (ours, theirs) = draw(some(NUMBERS)), draw(st.sampled_from(LEARNED))
    rows = draw(tables(least=1))
    if draw(st.booleans()):
        low, high = draw(st.sampled_from([(1, 9), (0, 100), (5, 5)]))
        of = "cast(case when {0} is not null then least(greatest({0}, {1}), {2}) end as {3}) as {0}"
        made = [of.format(name, low, high, _type(name)) for name in names]
        return Case(Clip(columns=tuple(names), min=low, max=high), {"rows": rows}, f"select * replace ({', '.join(made)}) from rows")
    made = []
    for name in names:
        value, least, most = f"cast({name} as double)", _quantile(name, 0.1, theirs), _quantile(name, 0.75, theirs)
        made.append(f"case when {value} < {least} then {least} when {value} > {most} then {most} else {value} end as {name}")
    stage = Clip.model_validate({"columns": names, "quantiles": [0.1, 0.75], **_fit(ours)})
    return Case(stage, {"rows": rows}, f"select * replace ({', '.join(made)}) from rows")


def _type(name: str) -> str:
    names = {"key": "bigint", "small": "int", "ratio": "double", "int8": "tinyint", "int16": "smallint", "int32": "int"}
    return names.get(name, f"u{ {'uint8': 'tinyint', 'uint16': 'smallint', 'uint32': 'integer'}.get(name) }")


@st.composite
def bucketize(draw: st.DrawFn) -> Case:
    """How many edges a number is not below: stated ones, or quantiles of whole numbers."""
    (ours, theirs), rows = draw(st.sampled_from(LEARNED)), draw(tables(least=1))
    if draw(st.booleans()):
        name, edges = draw(st.sampled_from(NUMBERS)), sorted(set(draw(st.lists(st.sampled_from([-5.0, 0.0, 1.5, 7.0, 100.0]), min_size=1))))
        listed = [str(edge) for edge in edges]
        stage = Bucketize.model_validate({"columns": [name], "edges": {name: edges}})
    else:
        name, buckets = draw(st.sampled_from(["key", "small", "int8", "uint16"])), draw(st.sampled_from([2, 4]))
        listed = [f"(select distinct {_quantile(name, place / buckets, theirs)})" for place in range(1, buckets)]
        stage = Bucketize.model_validate({"columns": [name], "buckets": buckets, **_fit(ours)})
    distinct = f"list_distinct([{', '.join(listed)}])"
    bucket = f"cast(len(list_filter({distinct}, lambda e: cast({name} as double) >= e)) as int)"
    sql = f"select * replace (case when {name} is not null then {bucket} end as {name}) from rows"
    return Case(stage, {"rows": rows}, sql)


@st.composite
def count_encode(draw: st.DrawFn) -> Case:
    """How many rows to learn from have the value, or which share of them."""
    names, (ours, theirs), share = draw(some(CATEGORIES)), draw(st.sampled_from(LEARNED)), draw(st.booleans())
    made = []
    for name in map(quoted, names):
        learned = f"(select * from rows where {theirs})"
        count = f"(select count(*) from {learned} r where r.{name} = t.{name})"
        whole = f"(select count({name}) from rows where {theirs})"
        value = f"coalesce({count} / cast(nullif({whole}, 0) as double), 0)" if share else count
        made.append(f"case when t.{name} is not null then {value} end as {name}")
    stage = CountEncode.model_validate({"columns": names, "share": share, **_fit(ours)})
    return Case(stage, {"rows": draw(tables(least=1))}, f"select t.* replace ({', '.join(made)}) from rows t")


@st.composite
def target_encode(draw: st.DrawFn) -> Case:
    """The smoothed mean of a target over the rows of other folds; of all folds for rows that are not learned from."""
    name, target, smoothing = (
        draw(st.sampled_from(CATEGORIES)),
        draw(st.sampled_from(["small", "flag"])),
        draw(st.sampled_from([0.0, 1.0, 7.5])),
    )
    name = "word" if name == target else name
    (ours, theirs), folds = draw(st.sampled_from(LEARNED)), draw(st.integers(2, 4))
    hashed = f"select * exclude (z), floor(fraction(z) * {folds}) as fold from {_with_fraction(['row'], STEP * (SEED + 1) + OWN_START)}"
    learns = f"coalesce(({theirs}) and {target} is not null, false) as learns"
    learned = f"select *, cast(cast({target} as int) as double) as y, {learns} from ({hashed})"
    other = "r.learns and (not t.learns or r.fold <> t.fold)"
    same = f"r.{name} is not distinct from t.{name}"
    mean = f"(select avg(r.y) from learned r where {other})"
    total, count = (f"(select {figure} from learned r where {other} and {same})" for figure in ("coalesce(sum(r.y), 0)", "count(*)"))
    value = f"coalesce(({total} + {smoothing} * {mean}) / nullif({count} + {smoothing}, 0), {mean})"
    sql = f"with learned as ({learned}) select t.* exclude (fold, y, learns) replace ({value} as {name}) from learned t"
    given = {"columns": [name], "target": target, "key": "row", "folds": folds, "smoothing": smoothing, **_fit(ours)}
    return Case(TargetEncode.model_validate(given), {"rows": draw(tables(least=1))}, sql)
