"""The heat equation on a plane grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.errors import StageError
from pipeline.kernels.heat_steps import heat_steps, largest_step
from pipeline.stage import Context, Outcome, Whole, need_columns, need_numeric
from pipeline.stages.science._matrices import over_parts
from pipeline.stages.science._strips import LEAST_ROWS, Extent, cells, checked, edge, extent, extent_of, strips_of
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

Array = Any
VALUE = "temperature"
ALONE = 4_096
"""Steps of a task of a grid that is one strip. Others exchange halos after as many steps as the least of them has rows to give."""


class Heat(Whole, name="heat", version=1):
    """Let the temperatures of a plane even out: the heat equation dT/dt = a (d2T/dx2 + d2T/dy2), by explicit five-point steps.

    A row is a cell: whole numbers `x` and `y`, each place once, and its `temperature`. The grid is cut into strips of rows that workers
    step side by side; every 16 steps they exchange as many rows with their neighbours. The result is the same to the last bit however it is
    cut. An explicit step is stable up to `dt = 1 / (2 a (1/dx^2 + 1/dy^2))`, and a longer one is refused; half of that is taken where none
    is given. Halving distances (and so quartering the step) divides the error by four.

    A row a time and cell: `time`, x, y, temperature, at the start, every `save_every` steps and at the end. NAME.summary has a line a time:
    least, greatest and mean temperature; with insulated or periodic rims the mean stays.

    Example: {use: heat, from: plate, as: cooling, diffusivity: 1.1e-4, dx: 0.01, steps: 500, rim: fixed}
    """

    roles = ("cells",)

    diffusivity: float = Field(gt=0, allow_inf_nan=False, description="a, in units of length squared a unit of time (copper: 1.1e-4 m2/s).")
    dx: float = Field(gt=0, allow_inf_nan=False, description="Distance of neighbours along x.")
    dy: float | None = Field(None, gt=0, allow_inf_nan=False, description="Along y; as dx where not given.")
    steps: int = Field(ge=1, le=10_000_000, description="Number of steps.")
    time_step: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Time of a step; half the largest stable one if not given."
    )
    save_every: int | None = Field(None, ge=1, description="Steps between the times that are kept; the first and last alone if not given.")
    rim: Literal["fixed", "insulated", "periodic"] = Field(
        "fixed", description="What the grid ends with: cells that keep their temperature, no flow, or the other end."
    )

    @property
    def step(self) -> float:
        """Time of a step."""
        return self.time_step or largest_step(self.diffusivity, self.dx, self.dy or self.dx) / 2

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Cells and summary. Raises StageError for columns that cannot be used, and for a step that is not stable."""
        schema = schemas["cells"]
        need_columns(schema, ["x", "y", VALUE])
        need_numeric(schema, [VALUE])
        for name in ("x", "y"):
            if not schema.columns[name].is_integer():
                raise StageError(f"column {name!r} is {schema.columns[name]}: places on a grid are whole numbers. Cast it before.")
        largest = largest_step(self.diffusivity, self.dx, self.dy or self.dx)
        if not 0 < self.step < np.inf:
            raise StageError(f"a stable step would be {largest:g}, which float64 cannot count with. Use other units.", key="diffusivity")
        if self.step > largest * (1 + 1e-12):
            text = f"a step of {self.step:g} is not stable: errors would grow without end. The largest stable one is {largest:.6g}"
            raise StageError(f"{text} (1 / (2 a (1/dx^2 + 1/dy^2))).", key="time_step")
        own = {"time": pl.Float64(), "x": pl.Int64(), "y": pl.Int64(), VALUE: pl.Float64()}
        summary = dict.fromkeys(("time", "least", "greatest", "mean"), pl.Float64())
        return {"": Schema(pl.Schema(own)), "summary": Schema(pl.Schema(summary))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Strips, rounds of steps and exchanges. Waits for the size of the grid."""
        rows, session, name = tables["cells"].named(context.name), context.session, context.name
        rows = rows.hold()
        whole: Extent = session.value(session.submit(checked, over_parts(rows, extent, extent_of), stage=name))
        strips = strips_of(rows, whole, VALUE, context)
        at_once = ALONE if len(strips) == 1 and self.rim != "periodic" else min(LEAST_ROWS, whole.height)
        found, summaries, done = [], [], 0
        for at in self._kept():
            while done < at:
                strips, done = self._round(strips, min(at_once, at - done), context), min(done + at_once, at)
            for number, strip in enumerate(strips):
                first = whole.height * number // len(strips)
                found.append(session.submit(cells, strip, whole, first, at * self.step, VALUE, stage=name))
            told = [session.submit(_told, strip, stage=name) for strip in strips]
            summaries.append(session.submit(_summed, at * self.step, *told, stage=name))
        summary = session.submit(_frame, *summaries, stage=name)
        metrics = session.submit(self._metrics, whole, *summaries, stage=name)
        return Outcome({"": Table.of(session, name, found), "summary": Table.of(session, name, [summary])}, metrics=metrics)

    def _kept(self) -> list[int]:
        """Steps after which the grid is kept."""
        return sorted({0, self.steps, *range(0, self.steps, self.save_every or self.steps)})

    def _round(self, strips: Sequence[Any], steps: int, context: Context) -> list[Any]:
        """All strips after some steps."""
        submit, name, last = context.session.submit, context.name, len(strips) - 1
        ends = {at: (submit(edge, strip, steps, stage=name), submit(edge, strip, -steps, stage=name)) for at, strip in enumerate(strips)}
        rates = (self.diffusivity * self.step / self.dx**2, self.diffusivity * self.step / (self.dy or self.dx) ** 2)
        found = []
        for at, strip in enumerate(strips):
            above = ends[at - 1 if at else last][1] if at or self.rim == "periodic" else None
            below = ends[at + 1 if at < last else 0][0] if at < last or self.rim == "periodic" else None
            found.append(submit(heat_steps, strip, above, below, rates, steps, self.rim, stage=name))
        return found

    def _metrics(self, whole: Extent, *summaries: tuple[float, ...]) -> dict[str, Any]:
        """The grid, the steps, and what the temperatures were at the start and the end."""
        told = {"cells": whole.cells, "steps": self.steps, "time_step": self.step}
        ends = (("first", summaries[0]), ("last", summaries[-1]))
        return told | {f"{what}_{which}": line[at] for which, line in ends for at, what in enumerate(("least", "greatest", "mean"), 1)}


def _told(strip: Array) -> tuple[float, float, Array, int]:
    """Least and greatest, the sums of rows, and cells."""
    return float(strip.min()), float(strip.max()), to_host(strip.sum(axis=1)), int(strip.size)


def _summed(time: float, *told: tuple[float, float, Array, int]) -> tuple[float, ...]:
    """Time, least, greatest and mean; sums of rows are added in order, so that the strips do not show."""
    total = float(np.concatenate([rows for _, _, rows, _ in told]).sum())
    return time, min(one[0] for one in told), max(one[1] for one in told), total / sum(one[3] for one in told)


def _frame(*summaries: tuple[float, ...]) -> Part:
    names = ("time", "least", "greatest", "mean")
    return Part(pl.DataFrame(list(summaries), dict.fromkeys(names, pl.Float64), orient="row"))
