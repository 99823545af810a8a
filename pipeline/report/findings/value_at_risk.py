"""Value at risk: what each series may lose, how that held, and the days on which more was lost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text
from pipeline.report.svg import Panel, Tick, span_of

RISK = ("method", "level", "value_at_risk", "expected_shortfall")
FEW, MOST_SERIES, MOST_ROWS, TICKS = 0.05, 4, 60, 4
LINES = {"historical": "s0", "parametric": "s2"}


class ValuesAtRisk(Finding, name="value_at_risk"):
    """A table of the series; of their days, drawn where they are put out too, those that lost more than was said."""

    place = 748
    columns = RISK

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """The table, or the days."""
        rows = evidence.outputs[output]
        schema = rows.collect_schema()
        if "exceeded" in schema:
            yield from _days(output, rows, schema)
        elif "until" in schema:
            yield _table(output, rows.collect())


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f} %"


def _table(output: str, rows: pl.DataFrame) -> Section:
    """A line a series, method and level."""
    keys = rows.columns[: rows.columns.index("until")]
    held = "kupiec_p_value" in rows.columns
    head = [*keys, "method", "level", "value at risk", "expected shortfall", *(["days", "exceeded", "expected", "p"] if held else [])]
    cells = []
    for row in rows.head(MOST_ROWS).iter_rows(named=True):
        found = [*(str(row[key]) for key in keys), row["method"], f"{100 * row['level']:g} %"]
        found += [_percent(row["value_at_risk"]), _percent(row["expected_shortfall"])]
        if held:
            found += [f"{row['tested']:,}", f"{row['exceedances']:,}", number_text(row["tested"] * (1 - row["level"]))]
            found.append(number_text(row["kupiec_p_value"]))
        cells.append(found)
    caption = "The loss that is not exceeded with the stated probability, and the mean loss where it is."
    if held:
        caption += f" p is Kupiec's: below {FEW} the losses beyond it are too many or too few."
    section = Section(
        headline("Value at risk", output), [Grid(head, "l" * len(keys) + "lr" + "r" * (len(head) - len(keys) - 2), cells, caption)]
    )
    if rows.height > MOST_ROWS:
        section.blocks.append(Note(f"The first {MOST_ROWS} of {rows.height:,} rows."))
    if held:
        off = rows.filter(pl.col("kupiec_p_value") < FEW).height
        section.highlights.append((f"{rows.height - off} of {rows.height}", f"values at risk held, by Kupiec's test at {FEW}"))
    return section


def _days(output: str, rows: pl.LazyFrame, schema: pl.Schema) -> Iterator[Section]:
    """A drawing of each of the first series: returns, what was said at the highest level, and the losses beyond it."""
    names = schema.names()
    time, value = names[names.index("method") - 2 : names.index("method")]
    keys = names[: names.index(time)]
    series = rows.select(keys).unique().sort(keys, nulls_last=True).collect() if keys else pl.DataFrame()
    level = rows.select(pl.col("level").max()).collect().item()
    if level is None:
        return
    section = Section(headline("Losses and what was said of them", output))
    for key in series.head(MOST_SERIES).iter_rows() if keys else [()]:
        chosen = [pl.col(name).eq_missing(pl.lit(given, schema[name])) for name, given in zip(keys, key, strict=True)]
        frame = rows.filter(pl.col("level") == level, *chosen).sort(time).collect()
        section.blocks.append(_drawn(frame, (time, value, level), ", ".join(map(str, key)) or "the series"))
    if series.height > MOST_SERIES:
        section.blocks.append(Note(f"The first {MOST_SERIES} of {series.height:,} series by {', '.join(keys)}."))
    yield section


def _drawn(frame: pl.DataFrame, about: tuple[str, str, float], name: str) -> Figure:
    """One series."""
    time, value, level = about
    methods = frame["method"].unique().sort().to_list()
    first = frame.filter(method=methods[0])
    across, returns = first[time].to_physical().cast(pl.Float64).to_numpy(), first[value].to_numpy()
    said = {method: -frame.filter(method=method)["value_at_risk"].fill_null(float("nan")).to_numpy() for method in methods}
    span = span_of(across, 0.02) if len(across) > 1 else (across[0] - 1, across[0] + 1)
    panel = Panel(680, 240, span, span_of(np.concatenate([returns, *said.values()])), left=66, right=24)
    lost = first["exceeded"].fill_null(value=False).to_numpy()
    panel.dots(across[~lost], returns[~lost], "s6")
    for method in methods:
        panel.line(across, said[method], f"{LINES.get(method, 's3')} thin")
    panel.dots(across[lost], returns[lost], "s1")
    legend = [("s6", value), *((LINES.get(method, "s3"), f"{method}, {100 * level:g} %") for method in methods)]
    expected = f"{len(lost) * (1 - level):.1f} expected"
    caption = f"{name}: {int(lost.sum())} of {len(lost):,} losses are beyond the {methods[0]} value at risk; {expected}."
    return Figure(panel.svg(caption, (time, value), _ticks(first, time)), caption, [*legend, ("s1", "lost more")], "medium")


def _ticks(frame: pl.DataFrame, time: str) -> list[Tick]:
    """The times of a few rows across the panel."""
    places = sorted({round(at * (frame.height - 1) / (TICKS - 1)) for at in range(TICKS)})
    physical = frame[time].to_physical()
    return [(float(physical[at]), str(frame[time][at])) for at in places]
