"""Stretches of time in which a sensor was unusual, stuck or silent."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST_EVENTS = 15
TIMES = ("began", "ended")
FIRST = ("sensor", "state", *TIMES, "score")


class Events(Finding, name="events"):
    """How many there are of each state and how long, and the most striking ones."""

    place = 696
    columns = FIRST

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section; none where an event has no times."""
        rows = evidence.outputs[output]
        schema = rows.collect_schema()
        if not (schema["began"].is_temporal() and schema["ended"].is_temporal() and schema["score"].is_numeric()):
            return
        section, hours = Section(headline("Events", output)), (pl.col("ended") - pl.col("began")).dt.total_minutes() / 60
        kinds = rows.group_by("state").agg(events=pl.len(), median=hours.median(), together=hours.sum())
        found = kinds.sort("events", "state", descending=[True, False]).collect()
        count = int(found["events"].sum())
        cells = [(state, f"{n:,}", n / count, *map(number_text, lengths)) for state, n, *lengths in found.iter_rows()]
        section.blocks.append(Grid(("state", "events", "", "median hours", "hours together"), "lrbrr", cells, f"{count:,} events."))
        section.blocks.append(_striking(rows))
        section.highlights.append((f"{count:,}", "events"))
        yield section


def _striking(rows: pl.LazyFrame) -> Grid:
    """The events of the highest scores."""
    others = [name for name, dtype in rows.collect_schema().items() if name not in FIRST and not dtype.is_nested()]
    ordered = rows.filter(pl.col("score").is_not_null()).sort("score", "sensor", "began", descending=[True, False, False])
    top = ordered.select(*FIRST, *others).head(MOST_EVENTS).collect()
    align = "".join("r" if dtype.is_numeric() and name != "sensor" else "l" for name, dtype in top.schema.items())
    cells = [
        [str(value)[:16] if name in TIMES else number_text(value) if name != "sensor" else str(value) for name, value in row.items()]
        for row in top.iter_rows(named=True)
    ]
    return Grid([name.replace("_", " ") for name in top.columns], align, cells, f"The {top.height} events of the highest scores.")
