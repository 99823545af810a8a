"""The rows of a table that are nearest to those of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import DataError, StageError
from pipeline.kernels.distances import TIED, assigned, lengths, products, row_blocks
from pipeline.kernels.k_means import settled
from pipeline.kernels.neighbors import Pairs, joined_pairs, nearest_pairs, no_pairs, unit_rows
from pipeline.stage import Context, Outcome, need_columns, need_numeric
from pipeline.stages._keys import need_hashable
from pipeline.stages.models._unsupervised.clustering import A_CENTER, need_rows
from pipeline.stages.models._unsupervised.rows import POINTS, Points, Sample, joined_samples, sampled
from pipeline.stages.models._unsupervised.scaled import Measured, measured, scaled_points
from pipeline.stages.models._unsupervised.stage import NumberRows
from pipeline.tables.counts import Count
from pipeline.tables.handed import here, parts_of
from pipeline.tables.laid import Laid
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table

Array = Any
SAMPLE, ROUNDS = 50_000, 10
"""Rows to find cells from, where these do not want more, and rounds of it: cells need not be the best ones."""
CELLS = "cells"
"""The array of cells to look into that rides along with queries, `int64[queries, probe]`."""
_QUERY, _ROW, _SQUARES, _CELL = "__query__", "__row_key__", "__squares__", "__cell__"


class NearestNeighbors(NumberRows, name="nearest_neighbors", version=1):
    """Find for every row of `queries` the `neighbors` rows of `rows` that are nearest to it.

    For the neighbors of a table's own rows give it twice, with `exclude_self`. `exact` compares all pairs, part by part; `ivf` puts the
    rows into `cells` by k-means and compares a query with those of the `probe` nearest cells alone: quicker, and some neighbors may be
    missed. Features count as they are, or each by its standard deviation among `rows` (`standardize`). `cosine` is 1 less the cosine.

    A line per query and neighbor: the query's key, `rank` from 1, the `neighbor`'s key, and `distance`, nearest first. Of rows equally near
    the lower key comes first. Fewer lines where there are fewer rows.

    Example:
        {use: nearest_neighbors, from: {rows: known, queries: new}, as: similar, key: loan_id, features: [rate, ltv, dti], neighbors: 5}
    """

    roles = ("rows", "queries")
    counts: ClassVar[Mapping[str, Count]] = {"rows_known": Count("rows to be neighbors"), "queries": Count("queries")}

    neighbors: int = Field(10, ge=1, le=10_000, description="Neighbors of every query.")
    metric: Literal["euclidean", "cosine"] = Field("euclidean", description="What is near.")
    standardize: bool = Field(False, description="Count every feature by its standard deviation.")
    exclude_self: bool = Field(False, description="Leave out the row that has the query's own key.")
    method: Literal["exact", "ivf"] = Field("exact", description="All pairs, or those of the nearest cells alone.")
    cells: int | None = Field(None, ge=1, le=65_536, description="Cells of ivf; the root of the number of rows where it is not given.")
    probe: int = Field(8, ge=1, description="Cells that a query looks into.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Queries with their neighbors. Raises StageError for columns that cannot be used, or that one table has not."""
        rows, queries = schemas["rows"], schemas["queries"]
        self.check_rows(rows, "rows")
        if not (features := self.feature_columns(rows)):
            raise StageError("the rows have no feature column; what rides along with rows as an array is none here")
        need_columns(queries, [self.key], "queries", key="key")
        need_hashable(queries, [self.key], key="key")
        need_columns(queries, features, "queries", key="features" if self.features else "")
        need_numeric(queries, features, key="features" if self.features else "")
        ours, theirs = rows.columns[self.key], queries.columns[self.key]
        if self.exclude_self and ours != theirs:
            raise StageError(f"key {self.key!r} is {ours} in the rows and {theirs} in the queries: cast one of them", key="exclude_self")
        made = {"rank": pl.Int64(), "neighbor": ours, "distance": pl.Float64()}
        return {"": self.kept_schema(queries, made)}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The rows measured and held; then every part of the queries with every part of the rows, and the nearest of all."""
        submit, name = context.session.submit, context.name
        rows, queries = (tables[role] for role in self.roles)
        assert rows.schema is not None
        assert queries.schema is not None
        points = replace(Points.of(name, self, rows.schema, context.session.backend), arrays=())
        taken = points.table(rows, context.seed)
        found = measured(
            taken, None, context, centre="near" if self.metric == "euclidean" else False, own="each" if self.standardize else "one"
        )
        ready, cells = scaled_points(taken, found).map_parts(self.placed), None
        if self.method == "ivf":
            ready = ready.hold()
            least = A_CENTER * (self.cells or 1)
            most = max(SAMPLE, least)
            sample = ready.reduce(sampled, partial(joined_samples, most, least=least), None, most, least)
            cells = submit(self.cell_centers, sample, found, stage=name)
            ready = ready.map_parts(_in_cells, cells)
        ready = ready.hold()
        search = Search(name, self.key, self.neighbors, exclude_self=self.exclude_self)
        blocks = []
        asking = scaled_points(points.table(queries, context.seed), found).map_parts(self.placed)
        parts = parts_of((asking if cells is None else asking.map_parts(self.probing, cells)).hold())
        for part in parts:
            nearest = ready.reduce(search.searched, search.nearest, part, cells)
            blocks.append(submit(self.told, part, nearest, found, queries.schema.columns[self.key], stage=name))
        return Outcome({"": Table.of(context.session, name, blocks)}, counts=submit(_counted, found, parts, stage=name))

    def placed(self, part: Part) -> Part:
        """The rows in the order of their keys, on the unit sphere for cosines. Raises DataError for one that has no direction."""
        order = part.frame[self.key].arg_sort(nulls_last=False).to_numpy()
        frame, points = part.frame[order], take(part.arrays[POINTS], order)
        if self.metric == "cosine":
            points, none = unit_rows(points)
            if none.any():
                key = frame[self.key][int(to_host(none).argmax())]
                raise DataError(f"the row {key!r} is 0 in every feature and has no direction. Filter it out.", key="metric")
        return Part(frame, {POINTS: points})

    def cell_centers(self, sample: Sample, found: Measured) -> Array:
        """Centers of cells, `float64[c, d]`: k-means from the first rows of the sample, which stand there by chance."""
        cells = self.cells or max(1, min(len(sample[0]) // A_CENTER, round(found.moments.rows**0.5)))
        need_rows(found, cells, "cells")
        return settled(sample[0], sample[0][:cells].copy(), ROUNDS, 0.0).centers

    def probing(self, part: Part, cells: Array) -> Part:
        """The queries with the numbers of their nearest cells; of equally near ones the first."""
        points, centers = part.arrays[POINTS], array_module(part.arrays[POINTS]).asarray(cells)
        wanted = np.empty((part.frame.height, min(self.probe, len(cells))), np.int64)
        for at in row_blocks(points, len(cells)):
            unit = TIED * (float(lengths(centers).max()) + to_host(lengths(points[at])))
            steps = np.rint(to_host(products(points[at], centers)) / np.where(unit > 0, unit, 1.0)[:, None])
            wanted[at] = steps.argsort(axis=1, kind="stable")[:, : self.probe]
        return part.replaced(**{CELLS: array_module(points).asarray(wanted)})

    def told(self, queries: Part | Laid, nearest: pl.DataFrame, found: Measured, dtype: pl.DataType) -> Part:
        """Every query's neighbors."""
        unit = 1.0 if self.standardize else float(found.scaling.factor[0])
        distance = pl.col(_SQUARES) / 2 if self.metric == "cosine" else pl.col(_SQUARES).sqrt() * unit
        keys = here(queries).frame[self.key].gather(nearest[_QUERY])
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(_QUERY)
        lines = nearest.select(rank.alias("rank"), pl.col(_ROW).alias("neighbor"), distance.alias("distance"))
        told = lines.insert_column(0, keys.cast(dtype).alias(self.key))
        return Part(told)


@dataclass(frozen=True)
class Search:
    """What a search wants: the stage's name, the key, how many neighbors, and whether a row finds itself."""

    name: str
    key: str
    neighbors: int
    exclude_self: bool

    def searched(self, rows: Part, asking: Part | Laid, cells: Array | None) -> pl.DataFrame:
        """Of every query the nearest rows of a part: the query's number, the row's key, and their squared distance."""
        queries = here(asking)
        points, theirs, most = queries.arrays[POINTS], rows.arrays[POINTS], self.neighbors + self.exclude_self
        pairs = nearest_pairs(points, theirs, most, self.ask) if cells is None else self.probed(queries, rows, len(cells), most)
        first, second, found = (to_host(value) for value in pairs)
        near = pl.DataFrame({_QUERY: first, _ROW: rows.frame[self.key].gather(second), _SQUARES: found})
        if self.exclude_self:
            own = queries.frame[self.key].gather(first)
            near = near.filter(near[_ROW].ne_missing(own))
        return self.nearest([near])

    def nearest(self, found: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Of every query the nearest of several parts' rows; of equally near ones those with the lower keys."""
        ordered = pl.concat(found).sort(_QUERY, _SQUARES, _ROW)
        return ordered.filter(pl.int_range(pl.len()).over(_QUERY) < self.neighbors)

    def probed(self, queries: Part, rows: Part, cells: int, most: int) -> Pairs:
        """The nearest rows among those of the nearest cells."""
        points, theirs, wanted, of = (
            queries.arrays[POINTS],
            rows.arrays[POINTS],
            to_host(queries.arrays[CELLS]),
            rows.frame[_CELL].to_numpy(),
        )
        xp = array_module(points)
        order = of.argsort(kind="stable")  # in a cell by key, as the rows are
        bounds, found = np.searchsorted(of[order], np.arange(cells + 1)), [no_pairs(xp)]
        asking = wanted.ravel().argsort(kind="stable")
        asked = np.searchsorted(wanted.ravel()[asking], np.arange(cells + 1))
        for cell in np.flatnonzero(np.minimum(np.diff(bounds), np.diff(asked))):
            inside = xp.asarray(order[bounds[cell] : bounds[cell + 1]])
            given = xp.asarray(asking[asked[cell] : asked[cell + 1]] // wanted.shape[1])
            pairs = nearest_pairs(points[given], theirs[inside], most, self.ask)
            found.append(Pairs(given[pairs.queries], inside[pairs.rows], pairs.squares))
        return joined_pairs(found)

    def ask(self) -> None:
        """Raise RunError where nobody wants the answer any more."""
        go_on(self.name)


def _counted(found: Measured, queries: Sequence[Part | Laid]) -> dict[str, int]:
    return {"rows_known": found.moments.rows, "queries": sum(part.rows for part in queries)}


def _in_cells(part: Part, cells: Array) -> Part:
    points = part.arrays[POINTS]
    nearest = to_host(assigned(points, array_module(points).asarray(cells))[0])
    return part.replaced(part.frame.with_columns(pl.Series(_CELL, nearest, pl.Int64)))
