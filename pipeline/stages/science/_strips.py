"""Grids in strips of rows: cells of a table put in their places, halos exchanged, and cells again. Not a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.stage import Context
from pipeline.stages.science._matrices import matrix_of, of_parts
from pipeline.tables.part import Part
from pipeline.tables.table import Table

Array = Any
LEAST_CELLS = 200_000
"""Cells of a strip: fewer are stepped sooner than handed out."""
CACHED_CELLS, MOST_CELLS = 500_000, 16_000_000
"""Cells of a strip at most where it can be so: on a CPU those that steps in a row find in its cache (twice as fast), on a GPU many more."""
LEAST_ROWS, ENOUGH_ROWS = 16, 128
"""Rows of a strip: what its neighbours may ask of it at once, and so many that what they ask for is the smaller part."""


@dataclass(frozen=True)
class Extent:
    """First and last places of a grid along x and y, and how many cells there are."""

    x: tuple[int, int]
    y: tuple[int, int]
    cells: int

    @property
    def width(self) -> int:
        """Cells of a row."""
        return self.x[1] - self.x[0] + 1

    @property
    def height(self) -> int:
        """Rows."""
        return self.y[1] - self.y[0] + 1


def extent(part: Part) -> Extent | None:
    """Of one part; None where it has no rows. Raises DataError for a cell without a place."""
    if not part.rows:
        return None
    lacking = part.frame.filter(pl.col("x").is_null() | pl.col("y").is_null())
    if lacking.height:
        raise DataError(f"a cell has no place: x {lacking['x'][0]!r}, y {lacking['y'][0]!r}. Filter it before.")
    (low_x, high_x, low_y, high_y), *_ = part.frame.select(
        pl.col("x").min().alias("a"), pl.col("x").max().alias("b"), pl.col("y").min().alias("c"), pl.col("y").max().alias("d")
    ).iter_rows()
    return Extent((low_x, high_x), (low_y, high_y), part.rows)


def extent_of(found: Sequence[Extent | None]) -> Extent | None:
    """Of several parts."""
    some = [one for one in found if one is not None]
    if not some:
        return None
    x, y = ((min(getattr(one, way)[0] for one in some), max(getattr(one, way)[1] for one in some)) for way in ("x", "y"))
    return Extent(x, y, sum(one.cells for one in some))


def checked(found: Extent | None) -> Extent:
    """The extent of a whole grid. Raises DataError where it has no cells, or more or fewer than its places."""
    if found is None:
        raise DataError("the grid has no cells")
    if found.cells != found.width * found.height:
        text = f"{found.cells:,} cells, and a grid of x {found.x[0]} to {found.x[1]} and y {found.y[0]} to {found.y[1]} has"
        raise DataError(f"{text} {found.width * found.height:,}. Each place has one row.")
    return found


def strips_of(rows: Table, whole: Extent, column: str, context: Context) -> list[Any]:
    """Futures of strips of rows, `float64[rows, width]`, from the first y on: as many as work at once, or more of a large grid."""
    session, name = context.session, context.name
    at_once = min(session.workers * session.threads, whole.cells // LEAST_CELLS, whole.height // LEAST_ROWS)
    cached = min(whole.cells // (MOST_CELLS if session.backend == "gpu" else CACHED_CELLS), whole.height // ENOUGH_ROWS)
    most = max(1, at_once, cached)
    edges = [whole.height * at // most for at in range(most + 1)]
    places = [slice(low, high) for low, high in pairwise(edges)]
    cuts = of_parts(rows, _cut, whole, places, column)
    pieces = [[session.submit(itemgetter(at), cut, stage=name) for cut in cuts] for at in range(len(places))]
    return [session.submit(_strip, whole, place, session.backend, *some, stage=name) for place, some in zip(places, pieces, strict=True)]


def _cut(part: Part, whole: Extent, places: Sequence[slice], column: str) -> list[tuple[Array, Array]]:
    """Of every strip the part's cells: their places in it, and values."""
    values = matrix_of(part, [column], "cpu", ("x", "y"))[:, 0]
    y = part.frame["y"].cast(pl.Int64).to_numpy() - whole.y[0]
    at = y * whole.width + (part.frame["x"].cast(pl.Int64).to_numpy() - whole.x[0])
    found = []
    for place in places:
        own = (y >= place.start) & (y < place.stop)
        found.append((at[own] - place.start * whole.width, values[own]))
    return found


def _strip(whole: Extent, place: slice, backend: Backend, *pieces: tuple[Array, Array]) -> Array:
    """Raises DataError for a place that has two cells, and so another that has none."""
    grid = np.full((place.stop - place.start) * whole.width, np.nan)
    for at, values in pieces:
        grid[at] = values
    lacking = np.flatnonzero(np.isnan(grid))
    if len(lacking):
        row, column = divmod(int(lacking[0]), whole.width)
        where = f"x {whole.x[0] + column}, y {whole.y[0] + place.start + row}"
        raise DataError(f"the grid has no cell at {where}, and another place has two. Each place has one row.")
    return to_device(grid.reshape(-1, whole.width), backend)


def edge(strip: Array, rows: int) -> Array:
    """The first rows of a strip, or the last ones where `rows` is below 0."""
    return (strip[:rows] if rows > 0 else strip[rows:]).copy()


def cells(strip: Array, whole: Extent, first: int, time: float, column: str) -> Part:
    """The cells of a strip whose first row is the grid's row `first`, by y, then x, with their time."""
    host = to_host(strip)
    y, x = np.meshgrid(np.arange(len(host)) + (whole.y[0] + first), np.arange(whole.width) + whole.x[0], indexing="ij")
    columns = {"x": x.ravel(), "y": y.ravel(), column: host.ravel()}
    return Part(pl.DataFrame(columns).select(pl.lit(time).alias("time"), pl.all()))
