"""Images that a model took for another class, the ones that it was most sure about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from markupsafe import escape

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Note, Section, headline
from pipeline.report.png import png_address

ACROSS, SIDE, GAP, TEXT = 12, 72, 12, 30  # images in a line, and pixels on the page


class Mistakes(Finding, name="mistakes"):
    """A figure of the images, each with what it is and what it was taken for."""

    place = 701  # after the predictions and their confusion
    columns = ("row", "split", "truth", "predicted", "probability", "height", "width", "channels", "pixels")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].sort("probability", descending=True, maintain_order=True).collect()
        section = Section(headline("Mistakes", output))
        if rows.height:
            splits = " and ".join(sorted({*rows["split"]}))
            caption = (
                f"Images of {splits} rows that were taken for another class, the surest first: the true class, the other, its probability."
            )
            section.blocks.append(Figure(_drawn(rows, caption), caption, size="wide"))
        else:
            section.blocks.append(Note("No image was taken for another class."))
        yield section


def _drawn(rows: pl.DataFrame, about: str) -> str:
    width, height = ACROSS * (SIDE + GAP), -(-rows.height // ACROSS) * (SIDE + TEXT)
    parts = [f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{escape(about)}">']
    for number, row in enumerate(rows.iter_rows(named=True)):
        x, y = number % ACROSS * (SIDE + GAP), number // ACROSS * (SIDE + TEXT)
        told = f"{row['truth']} as {row['predicted']}, {row['probability']:.2f}"
        parts.append(
            f'<image x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" style="image-rendering: pixelated" href="{png_address(_pixels(row))}">'
            f"<title>row {escape(row['row'])}: {escape(told)}</title></image>"
            f'<text x="{x}" y="{y + SIDE + 14}">{escape(told)}</text>'
        )
    return "".join([*parts, "</svg>"])


def _pixels(row: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The image in 256 steps from its least to its greatest number; of other than three channels their mean, in grey."""
    values = np.array([np.nan if value is None else value for value in row["pixels"]])
    values = values.reshape(row["height"], row["width"], row["channels"])
    if row["channels"] != 3:
        values = values.mean(axis=2)
    low, high = np.nanmin(values, initial=np.inf), np.nanmax(values, initial=-np.inf)
    steps = (values - low) / (high - low) if high > low else values * 0
    return np.asarray(np.rint(255 * np.nan_to_num(steps)).astype(np.uint8))
