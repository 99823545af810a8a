"""Temperatures of a plane at the times that were kept, as pictures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from markupsafe import escape

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Note, Section, headline, number_text
from pipeline.report.png import png_address

MOST_TIMES, SIDE, PIXELS, TEXT, GAP = 6, 220, 128, 22, 10
COLOURS = np.array([[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]])
"""From cold to warm, as Matplotlib's inferno has them at every quarter."""


class Temperatures(Finding, name="temperatures"):
    """A picture a time, all on one scale; of large grids every so many cells."""

    place = 782
    columns = ("time", "x", "y", "temperature")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output]
        about = [pl.col(name).min().alias(f"low_{name}") for name in ("x", "y", "temperature")]
        about += [pl.col(name).max().alias(f"high_{name}") for name in ("x", "y", "temperature")]
        found = rows.select(*about, pl.col("time").unique().sort().implode()).collect(engine="streaming").row(0, named=True)
        times = found["time"]
        section = Section(headline("Temperatures", output))
        if found["low_temperature"] is None:
            section.blocks.append(Note("The output has no cells."))
        else:
            shown = [
                times[round(at * (len(times) - 1) / (min(MOST_TIMES, len(times)) - 1 or 1))] for at in range(min(MOST_TIMES, len(times)))
            ]
            low, high = (number_text(found[f"{which}_temperature"]) for which in ("low", "high"))
            caption = f"Temperatures from {low} (dark) to {high} (bright) at {len(shown)} of {len(times)} times; y goes up."
            section.blocks.append(Figure(_drawn(rows, shown, found, caption), caption, size="wide"))
        yield section


def _drawn(rows: pl.LazyFrame, times: list[float], about: dict[str, float], caption: str) -> str:
    wide, high = int(about["high_x"] - about["low_x"]) + 1, int(about["high_y"] - about["low_y"]) + 1
    stride = -(-max(wide, high) // PIXELS)
    scale = SIDE / max(wide, high)
    width, height = wide * scale, high * scale
    size = f"0 0 {len(times) * (width + GAP):.0f} {height + TEXT:.0f}"
    parts = [f'<svg viewBox="{size}" width="{len(times) * (width + GAP):.0f}" role="img" aria-label="{escape(caption)}">']
    for number, time in enumerate(times):
        chosen = (
            pl.col("time") == time,
            (pl.col("x") - int(about["low_x"])) % stride == 0,
            (pl.col("y") - int(about["low_y"])) % stride == 0,
        )
        cells = rows.filter(*chosen).sort("y", "x").collect()
        values = cells["temperature"].to_numpy().reshape(-(-high // stride), -(-wide // stride))[::-1]
        x = number * (width + GAP)
        parts.append(
            f'<image x="{x:.0f}" y="0" width="{width:.0f}" height="{height:.0f}" style="image-rendering: pixelated" '
            f'href="{png_address(_pixels(values, about["low_temperature"], about["high_temperature"]))}"/>'
            f'<text x="{x:.0f}" y="{height + 16:.0f}">time {escape(number_text(time))}</text>'
        )
    return "".join([*parts, "</svg>"])


def _pixels(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """A colour a cell, `uint8[height, width, 3]`."""
    at = (values - low) / (high - low) * (len(COLOURS) - 1) if high > low else values * 0
    channels = [np.interp(at, np.arange(len(COLOURS)), COLOURS[:, channel]) for channel in range(3)]
    found: np.ndarray = np.rint(np.stack(channels, axis=-1)).astype(np.uint8)
    return found
