"""Clusters of rows: k-means over the parts of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.devices import Backend
from pipeline.kernels.distances import assigned
from pipeline.kernels.k_means import ordered
from pipeline.kernels.moments import Scaling, unscaled
from pipeline.stage import Context, Outcome
from pipeline.stages.models._exported.graph import Graph
from pipeline.stages.models._learning import Given
from pipeline.stages.models._predictor import Predictor
from pipeline.stages.models._unsupervised.clustering import A_CENTER, LloydRounds, Starts, begun
from pipeline.stages.models._unsupervised.graphs import graph_of_centers
from pipeline.stages.models._unsupervised.passes import passed
from pipeline.stages.models._unsupervised.published import Found, answers, published, table_of, unpacked
from pipeline.stages.models._unsupervised.rows import POINTS, Points, joined_samples, learned, sampled
from pipeline.stages.models._unsupervised.scaled import Measured, measured, new_points, scaled_points
from pipeline.stages.models._unsupervised.splits import by_split, row_counts, split_sums
from pipeline.stages.models._unsupervised.stage import Unsupervised
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

PREDICTS = {"cluster": pl.Int64(), "distance": pl.Float64()}


class KMeans(Unsupervised, name="k_means", version=1):
    """Put rows into clusters, each row to the nearest of `clusters` centers, which are the means of their rows (Lloyd's k-means).

    Starts by k-means++ on a sample of the rows that the hash of their key chooses, goes on over all rows until the centers move less than
    `tolerance` (as scikit-learn counts it), and takes the best of `starts`. `mini_batch` takes so many rows a round, others each round.
    Features count as they are, or each by its standard deviation (`standardize`), and so do distances. A cluster that loses all its rows
    moves to the row farthest from its center.

    A row each: key, split, `cluster` (0 has most rows in the last round) and `distance` to its center; rows of other splits too.
    NAME.centers has a line per cluster and feature: rows learned from, and the center in the feature's own numbers. The model is
    models/NAME.npz; `score` puts new rows into its clusters. Metrics are the inertia, the sum of squared distances, and rounds.

    Example:
        {use: k_means, from: features, as: groups, key: loan_id, clusters: 8, standardize: true, exclude: [label]}
    """

    exports = ("onnx",)
    counts: ClassVar[Mapping[str, Count]] = {
        "features": Count("features"), "clusters": Count("clusters"), "rounds": Count("rounds"), "rows_*": Count("rows, *"),
    }  # fmt: skip

    clusters: int = Field(8, ge=1, le=100_000, description="Number of clusters.")
    standardize: bool = Field(False, description="Count every feature by its standard deviation.")
    starts: int = Field(1, ge=1, le=100, description="Starts, of which the one with the least inertia counts.")
    rounds: int = Field(100, ge=1, le=10_000, description="Most rounds over the rows.")
    tolerance: float = Field(
        1e-4, ge=0, description="Stop when all centers' squared moves sum to this share of the mean variance of a feature."
    )
    mini_batch: int | None = Field(None, ge=1, description="Rows of a round, chosen anew each time; all where it is not given.")
    sample: int = Field(20_000, ge=1, le=10_000_000, description="Rows to choose the first centers from; 20 a cluster at least.")
    seed: int | None = Field(None, ge=0, description="Another seed, other first centers; the job's seed where it is not given.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Clusters and centers. Raises StageError for columns that cannot be used."""
        self.check_rows(schemas["rows"])
        centers = {"cluster": pl.Int64(), "rows": pl.Int64(), "feature": pl.String(), "center": pl.Float64()}
        return {"": self.kept_schema(schemas["rows"], PREDICTS), "centers": Schema(pl.Schema(centers))}

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
        """The nearest center and its distance."""
        scaling, arrays = unpacked(content, ("centers", "unit_distance"))
        centers = Centers(arrays["centers"], float(arrays["unit_distance"]))
        return _Assigning(scaling, centers, str(description["missing"]), tuple(description["types"]), backend)

    @classmethod
    def graph(cls, description: Mapping[str, Any], content: bytes) -> Graph:
        """The same in ONNX."""
        scaling, arrays = unpacked(content, ("centers", "unit_distance"))
        return graph_of_centers(scaling, arrays, description["missing"])

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernel."""
        import_module("pipeline.kernels.compiled.nearest")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Passes over the parts: two to measure, one for the sample, one a round, and one that says which cluster a row is of."""
        rows, submit, name = tables["rows"], context.session.submit, context.name
        assert rows.schema is not None
        seed = context.seed if self.seed is None else self.seed
        points = Points.of(name, self, rows.schema, context.session.backend)
        taken = points.table(rows, seed)
        found = measured(taken, self.split, context, centre=True, own="each" if self.standardize else "one")
        ready, least = scaled_points(taken, found), A_CENTER * self.clusters
        most = max(self.sample, least)
        sample = ready.reduce(sampled, partial(joined_samples, most, least=least), self.split, most, least)
        rule = self.tolerance, self.mini_batch
        state = submit(begun, sample, found, self.clusters, self.starts, seed, rule, stage=name)
        state = passed(LloydRounds(self.split), ready, state, self.rounds, context)
        centers = submit(self.settled, state, found, stage=name)
        told = ready.map_parts(_assigned, centers).hold()
        sums = told.reduce(split_sums, by_split, self.split, "distance")
        sizes = told.reduce(_sizes, _added, self.split, self.clusters)
        given = Given.of(rows, points.arrays, [])
        what = submit(self.found, points, (found, state, centers), sizes, given.axes, stage=name)
        metrics = submit(self.metrics, state, sums, stage=name)
        counts = submit(self.counted, state, sums, found, stage=name)
        outcome = published(points, rows, what, PREDICTS, context)
        return replace(
            outcome, tables={"": answers(told, context), "centers": table_of(what, "centers", context)}, metrics=metrics, counts=counts
        )

    def settled(self, state: Starts, found: Measured) -> Centers:
        """The best start's centers."""
        return Centers(ordered(state.best), 1.0 if self.standardize else float(found.scaling.factor[0]))

    def found(self, points: Points, learned: tuple[Measured, Starts, Centers], sizes: np.ndarray[Any, Any], axes: Sequence[Part]) -> Found:
        """What is published, and the table of centers; a warning where clusters have no rows."""
        (found, state, centers), names = learned, points.feature_names(axes)
        own = unscaled(centers.centers, found.scaling)
        clusters, features = own.shape
        table = pl.DataFrame(
            {
                "cluster": np.repeat(np.arange(clusters), features),
                "rows": np.repeat(sizes, features),
                "feature": names * clusters,
                "center": own.ravel(),
            }
        )
        warnings: tuple[str, ...] = ()
        if empty := int((sizes == 0).sum()):
            warnings = (f"{empty:,} of {clusters:,} clusters have no rows: there are fewer distinct rows. Ask for fewer clusters.",)
        arrays = {"centers": centers.centers, "unit_distance": np.array(centers.unit_distance)}
        about = {"clusters": clusters, "rounds": state.best.rounds, "standardize": self.standardize}
        return Found(found.scaling, arrays, about, {"centers": Part(table)}, warnings)

    def metrics(self, state: Starts, sums: Mapping[str, tuple[int, float]]) -> dict[str, Any]:
        """Inertia, per split where there is one, and how many rounds there were."""
        found = {split: {"inertia": squares if np.isfinite(squares) else None} for split, (_, squares) in sums.items()}
        whole = {"rounds": state.best.rounds}
        return {split: {**row, **(whole if split == "train" else {})} for split, row in found.items()} if self.split else found[""] | whole

    def counted(self, state: Starts, sums: Mapping[str, tuple[int, float]], found: Measured) -> dict[str, int]:
        """Rows of each split, features, clusters and rounds."""
        known = {"features": len(found.moments.mean), "clusters": self.clusters, "rounds": state.best.rounds}
        return {**known, **row_counts(sums)}


@dataclass(frozen=True)
class Centers:
    """Centers of scaled points `float64[k, d]`, and what a distance of 1 between such points is in the features' own numbers."""

    centers: Any
    unit_distance: float

    def of(self, points: Any) -> tuple[Any, Any]:
        """Cluster `int64[n]` and distance `float64[n]` of scaled points, in the host's memory."""
        xp = array_module(points)
        clusters, squares = assigned(points, xp.asarray(self.centers))
        return to_host(clusters), to_host(xp.sqrt(squares)) * self.unit_distance


@dataclass(frozen=True)
class _Assigning:
    """Predicts clusters and distances."""

    scaling: Scaling
    centers: Centers
    missing: str
    names: tuple[str, ...]
    backend: Backend

    def predict(self, features: Any) -> Any:
        """Cluster and distance, `float64[rows, 2]`."""
        return np.column_stack(self.centers.of(new_points(features, self.scaling, self.missing, self.names, self.backend)))


def _assigned(part: Part, centers: Centers) -> Part:
    clusters, distances = centers.of(part.arrays[POINTS])
    made = pl.DataFrame({"cluster": clusters, "distance": distances}, schema=PREDICTS)
    return Part(part.frame.select(pl.exclude("^__.*__$")).hstack(made))


def _sizes(part: Part, split: str | None, clusters: int) -> Any:
    return np.bincount(part.frame["cluster"].to_numpy()[learned(part, split)], minlength=clusters)


def _added(found: list[Any]) -> Any:
    return sum(found[1:], start=found[0])
