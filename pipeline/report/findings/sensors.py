"""Sensors one by one: how much passes there, when, how much of it was not heard, and how well it is forecast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text
from pipeline.report.plots import bars

MOST_SENSORS, HEIGHT = 40, 100
MORE = {"speed": "km/h", "busiest_hour": "busiest hour"}
ERRORS = {"mae": "forecast MAE", "naive_mae": "naive MAE"}
"""Columns that an output may have beside, and what the page calls them."""


class Sensors(Finding, name="sensors"):
    """A table of the sensors that most cars pass, each with its day."""

    place = 699
    columns = ("sensor", "cars_a_day", "quarters", "silent", "stuck", "unusual")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        has, rows = evidence.columns[output], evidence.outputs[output]
        more, errors = ([name for name in names if name in has] for names in (MORE, ERRORS))
        profile = "profile" in has and rows.collect_schema()["profile"] == pl.List(pl.Float64)
        top = rows.sort("cars_a_day", "sensor", descending=[True, False], nulls_last=True).head(MOST_SENSORS).collect()
        most = max(*(value or 0.0 for value in top["cars_a_day"]), 1e-9, 0.0)
        cells = [
            (
                str(row["sensor"]),
                (row["cars_a_day"] or 0.0) / most,
                number_text(row["cars_a_day"] and round(row["cars_a_day"])),
                *(number_text(row[name]) for name in more),
                *(_day(row) for _ in range(profile)),
                *(f"{row[name] / max(row['quarters'], 1):.1%}" for name in ("silent", "stuck", "unusual")),
                *(number_text(row[name]) for name in errors),
            )
            for row in top.iter_rows(named=True)
        ]
        names = [MORE[name] for name in more] + ["its day"] * profile
        head = ("sensor", "", "cars a day", *names, "silent", "stuck", "unusual", *(ERRORS[name] for name in errors))
        align = "lbr" + "r" * len(more) + "s" * profile + "rrr" + "r" * len(errors)
        total = rows.select(pl.len()).collect().item()
        caption = (
            f"The {top.height} of {total:,} sensors that most cars pass; silent, stuck and unusual are shares of the quarters of an hour."
        )
        yield Section(headline("Sensors", output), [Grid(head, align, cells, caption)])


def _day(row: Mapping[str, Any]) -> str:
    """The mean of each hour as a small drawing."""
    means = [value or 0.0 for value in row["profile"] or []]
    top = max(means, default=0.0) or 1.0
    return bars([round(HEIGHT * mean / top) for mean in means], f"Sensor {row['sensor']}: mean of each hour") if means else ""
