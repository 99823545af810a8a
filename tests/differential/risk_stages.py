"""value_at_risk as SQL, at levels whose shares of rows are exact."""

from __future__ import annotations

from statistics import NormalDist

from hypothesis import strategies as st

from pipeline.stages.finance.value_at_risk import ValueAtRisk
from tests.differential.cases import Case
from tests.differential.keyed_stages import KEYS
from tests.differential.oracle import quoted
from tests.differential.tables import some, tables

LEVELS = (0.75, 0.875)
NORMAL = NormalDist()


@st.composite
def value_at_risk(draw: st.DrawFn) -> Case:
    """Both ways, of all returns of each series; one return alone says nothing."""
    names = draw(some([name for name in KEYS if name != "small"], least=0, most=2))
    by = "".join(f"{quoted(name)}, " for name in names)
    over = f"partition by {', '.join(map(quoted, names))}" if names else ""
    returns = "select *, cast(small as double) as v from rows where small is not null"
    parts = [_of_level(by, f"({returns})", over, level) for level in LEVELS]
    rows = draw(tables(least=1)).rename({"row": "place"})
    stage = ValueAtRisk.model_validate({"by": names, "time": "place", "value": "small", "levels": LEVELS})
    return Case(stage, {"rows": rows}, " union all ".join(parts))


def _of_level(by: str, returns: str, over: str, level: float) -> str:
    z = NORMAL.inv_cdf(1 - level)
    cut = f"select *, quantile_cont(v, {1 - level}) over ({over}) as cut from {returns}"
    told = f"select {by}max(place) as until, '{{}}' as method, cast({level} as double) as level, count(*) as observations"
    grouped = f"group by {by.rstrip(', ')}" if by else "having count(*) > 0"
    short = _known("-avg(v) filter (v <= cut)")
    figures = f"{_known('-max(cut)')} as value_at_risk, {short} as expected_shortfall"
    historical = f"{told.format('historical')}, {figures} from ({cut}) {grouped}"
    beyond = f"-(avg(v) - stddev_samp(v) * {NORMAL.pdf(z) / (1 - level)!r}) as expected_shortfall"
    parametric = f"{told.format('parametric')}, -(avg(v) + stddev_samp(v) * {z!r}) as value_at_risk, {beyond} from {returns} {grouped}"
    return f"{historical} union all {parametric}"


def _known(figure: str) -> str:
    return f"case when count(*) > 1 then {figure} end"
