"""Where bodies went, seen from above."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Section, headline, number_text
from pipeline.report.svg import Panel, span_of

MOST, STYLES = 40, 7


class Orbits(Finding, name="orbits"):
    """The ways of the first bodies in x and y, and of all where they were last."""

    place = 783
    columns = ("time", "x", "y", "z", "vx", "vy", "vz")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output]
        first, last = (
            rows.select(pl.col("time").min().alias("first"), pl.col("time").max().alias("last")).collect(engine="streaming").row(0)
        )
        if first is None:
            return
        ends = rows.filter(pl.col("time") == last).select("x", "y").collect()
        at = pl.int_range(pl.len()).over("time")
        ways = rows.select("time", "x", "y").with_columns(body=at).filter(pl.col("body") < MOST).sort("body", "time").collect()
        seen = np.concatenate([ways.select("x", "y").to_numpy(), ends.to_numpy()])
        panel = Panel(560, 560, span_of(seen[:, 0]), span_of(seen[:, 1]), left=66)
        for number, way in enumerate(ways.partition_by("body", maintain_order=True)):
            panel.line(way["x"].to_numpy(), way["y"].to_numpy(), f"s{number % STYLES} thin")
        panel.dots(ends["x"].to_numpy(), ends["y"].to_numpy(), "large s0")
        some = f"the first {MOST} of {ends.height:,} bodies" if ends.height > MOST else f"{ends.height:,} bodies"
        caption = f"The ways of {some} from time {number_text(first)} to {number_text(last)}, and where all were then."
        yield Section(headline("Orbits", output), [Figure(panel.svg(caption, ("x", "y")), caption, size="medium")])
