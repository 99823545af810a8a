"""value_at_risk as SQL, at levels whose shares of rows are exact; with a window, whose test DuckDB lacks, by NumPy and SciPy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

from pipeline.stages.finance.value_at_risk import ValueAtRisk
from tests.differential.cases import Case
from tests.differential.keyed_stages import KEYS
from tests.differential.oracle import Plain, quoted
from tests.differential.tables import some, tables

LEVELS = (0.75, 0.875)
NORMAL = NormalDist()
WAYS = [(method, level) for method in ("historical", "parametric") for level in LEVELS]


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


@st.composite
def tested_by_a_window(draw: st.DrawFn) -> Case:
    """What the last returns say for days ahead, and how each earlier window held on the day after it."""
    names = draw(some([name for name in KEYS if name != "small"], least=0, most=1))
    window, horizon = draw(st.sampled_from([2, 3, 9, 30])), draw(st.sampled_from([1, 10]))
    rows = draw(tables(least=1)).rename({"row": "place"})
    given = {"by": names, "time": "place", "value": "small", "levels": LEVELS, "window": window, "horizon": horizon}
    found = _Windows(tuple(names), window, horizon)
    also = {"days": Plain(f"days of {given}", found.days)}
    return Case(ValueAtRisk.model_validate(given), {"rows": rows}, Plain(f"series of {given}", found.series), also=also)


@dataclass(frozen=True)
class _Windows:
    """Both tables, series by series, window by window."""

    by: tuple[str, ...]
    window: int
    horizon: int

    def _series(self, rows: pl.DataFrame) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
        known = rows.drop_nulls("small").sort("place")
        for key, series in known.group_by(*self.by, maintain_order=True) if self.by else [((), known)]:
            if series.height:
                yield dict(zip(self.by, key, strict=True)), series

    def _days(self, series: pl.DataFrame) -> Iterator[dict[str, Any]]:
        places, returns = series["place"].to_list(), [float(value) for value in series["small"]]
        for day in range(self.window, len(returns)):
            for method, level in WAYS:
                risk, short = _measured(returns[day - self.window : day], method, level)
                told = {"method": method, "level": level, "value_at_risk": risk, "expected_shortfall": short}
                yield {"place": places[day], "small": returns[day], **told, "exceeded": -returns[day] > risk}

    def days(self, given: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """A row a series, day behind a window, method and level."""
        told: dict[str, Any] = {"place": pl.Int64, "small": pl.Float64, "method": pl.String, "level": pl.Float64}
        told |= {"value_at_risk": pl.Float64, "expected_shortfall": pl.Float64, "exceeded": pl.Boolean}
        found = [{**key, **day} for key, series in self._series(given["rows"]) for day in self._days(series)]
        return pl.DataFrame(found, pl.Schema({**given["rows"].select(self.by).schema, **told}))

    def series(self, given: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """A row a series, method and level."""
        found = list[dict[str, Any]]()
        for key, series in self._series(given["rows"]):
            days, last = list(self._days(series)), [float(value) for value in series["small"].tail(self.window)]
            for method, level in WAYS:
                risk, short = _measured(last, method, level, self.horizon) if len(last) > 1 else (None, None)
                held = [day["exceeded"] for day in days if (day["method"], day["level"]) == (method, level)]
                row = {"until": series["place"][-1], "method": method, "level": level, "observations": len(last)}
                row |= {"value_at_risk": risk, "expected_shortfall": short, "tested": len(held), "exceedances": sum(held)}
                found.append({**key, **row, "kupiec_p_value": _kupiec(held, level)})
        told: dict[str, Any] = {"until": pl.Int64, "method": pl.String, "level": pl.Float64, "observations": pl.Int64}
        told |= {"value_at_risk": pl.Float64, "expected_shortfall": pl.Float64}
        told |= {"tested": pl.Int64, "exceedances": pl.Int64, "kupiec_p_value": pl.Float64}
        return pl.DataFrame(found, pl.Schema({**given["rows"].select(self.by).schema, **told}))


def _measured(returns: list[float], method: str, level: float, horizon: int = 1) -> tuple[float, float]:
    """Value at risk and expected shortfall of some returns, by their definitions."""
    if method == "historical":
        cut = float(np.quantile(returns, 1 - level))
        return -cut * math.sqrt(horizon), -float(np.mean([value for value in returns if value <= cut])) * math.sqrt(horizon)
    ahead = NormalDist(horizon * float(np.mean(returns)), math.sqrt(horizon) * float(np.std(returns, ddof=1)))
    z = NORMAL.inv_cdf(1 - level)
    return -(ahead.mean + z * ahead.stdev), -(ahead.mean - ahead.stdev * NORMAL.pdf(z) / (1 - level))


def _kupiec(held: list[bool], level: float) -> float | None:
    """The likelihood ratio of so many exceedances at their own rate and at the level's."""
    from scipy.stats import binom, chi2

    if not held:
        return None
    days, exceeded = len(held), sum(held)
    ratio = 2 * (binom.logpmf(exceeded, days, exceeded / days) - binom.logpmf(exceeded, days, 1 - level))
    return float(chi2.sf(max(ratio, 0.0), 1))
