"""Clusters of rows that overlap: a mixture of Gaussians over the parts of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.backend.devices import Backend
from pipeline.kernels.gaussian_mixture import Kind, Mixture, log_densities, parameters, posteriors
from pipeline.kernels.moments import Scaling, unscaled
from pipeline.stage import Context, Outcome
from pipeline.stages.models._exported.graph import Graph
from pipeline.stages.models._learning import Given
from pipeline.stages.models._predictor import Predictor
from pipeline.stages.models._unsupervised.clustering import A_CENTER, on_sample
from pipeline.stages.models._unsupervised.graphs import graph_of_mixture
from pipeline.stages.models._unsupervised.mixing import Mixing, MixtureRounds
from pipeline.stages.models._unsupervised.passes import passed
from pipeline.stages.models._unsupervised.published import Found, answers, published, table_of, unpacked
from pipeline.stages.models._unsupervised.rows import POINTS, Points, joined_samples, sampled
from pipeline.stages.models._unsupervised.scaled import Measured, measured, new_points, scaled_points
from pipeline.stages.models._unsupervised.splits import Sums, by_split, row_counts, split_sums
from pipeline.stages.models._unsupervised.stage import Unsupervised
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

_EQUAL = 1e-12
"""Probabilities closer than this are equal: the first component is the likeliest."""


class GaussianMixture(Unsupervised, name="gaussian_mixture", version=1):
    """Say with which probability a row is of each of `clusters` Gaussians, whose mixture makes the rows likeliest.

    Starts with k-means on a sample of the rows that the hash of their key chooses, and goes on over all rows by expectation and
    maximization until the mean log density gains less than `tolerance`. Features are standardized on the way, so that their units do not
    matter; `floor` is added to every variance, as a share of the feature's own.

    A row each: key, split, `cluster` (the likeliest; 0 had most rows at the start), `log_density` in the features' own numbers, and
    probability_0, probability_1 ...; rows of other splits too. NAME.centers has a line per cluster and feature: weight, center and
    deviation. The model is models/NAME.npz; `score` takes new rows. Metrics are mean log densities, and AIC and BIC of the rows learned
    from.

    Example:
        {use: gaussian_mixture, from: features, as: groups, key: loan_id, clusters: 4, covariance: diagonal, exclude: [label]}
    """

    exports = ("onnx",)
    counts: ClassVar[Mapping[str, Count]] = {
        "features": Count("features"), "clusters": Count("clusters"), "rounds": Count("rounds"), "rows_*": Count("rows, *"),
    }  # fmt: skip

    clusters: int = Field(4, ge=1, le=1_000, description="Number of Gaussians.")
    covariance: Literal["full", "diagonal", "tied"] = Field("full", description="tied: one full covariance for all.")
    floor: float = Field(1e-6, ge=0, description="Added to every variance, as a share of the feature's.")
    starts: int = Field(1, ge=1, le=100, description="Starts of k-means, of which the one with the least inertia counts.")
    rounds: int = Field(100, ge=1, le=10_000, description="Most rounds over the rows.")
    tolerance: float = Field(1e-3, ge=0, description="Stop when the mean log density gains less.")
    sample: int = Field(20_000, ge=1, le=10_000_000, description="Rows of the start by k-means; 20 a cluster at least.")
    seed: int | None = Field(None, ge=0, description="Another seed, another start; the job's seed where it is not given.")

    @property
    def predicts(self) -> dict[str, pl.DataType]:
        """The columns of answers."""
        shares = {f"probability_{number}": pl.Float64() for number in range(self.clusters)}
        return {"cluster": pl.Int64(), "log_density": pl.Float64(), **shares}

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Probabilities and centers. Raises StageError for columns that cannot be used."""
        self.check_rows(schemas["rows"])
        numbers = {"center": pl.Float64(), "deviation": pl.Float64()}
        centers = {"cluster": pl.Int64(), "weight": pl.Float64(), "feature": pl.String(), **numbers}
        return {"": self.kept_schema(schemas["rows"], self.predicts), "centers": Schema(pl.Schema(centers))}

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
        """The likeliest cluster, log density and probabilities."""
        scaling, arrays = unpacked(content, (*Mixture._fields, "log_unit"))
        mixture = Mixture(*(arrays[name] for name in Mixture._fields))
        density = Density(mixture, description["covariance"], float(arrays["log_unit"]))
        return _Mixing(scaling, density, str(description["missing"]), tuple(description["types"]), backend)

    @classmethod
    def graph(cls, description: Mapping[str, Any], content: bytes) -> Graph:
        """The same in ONNX."""
        scaling, arrays = unpacked(content, (*Mixture._fields, "log_unit"))
        return graph_of_mixture(scaling, arrays, description["covariance"], description["missing"], _EQUAL)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Passes over the parts: two to measure, one for the sample, one a round, and one that says what a row is."""
        rows, submit, name = tables["rows"], context.session.submit, context.name
        assert rows.schema is not None
        seed = context.seed if self.seed is None else self.seed
        points = Points.of(name, self, rows.schema, context.session.backend)
        taken = points.table(rows, seed)
        found = measured(taken, self.split, context, centre=True, own="each")
        ready, least = scaled_points(taken, found), A_CENTER * self.clusters
        most = max(self.sample, least)
        sample = ready.reduce(sampled, partial(joined_samples, most, least=least), self.split, most, least)
        centers = submit(on_sample, sample, found, self.clusters, self.starts, seed, stage=name)
        method = MixtureRounds(self.split, self.covariance, self.floor, self.tolerance)
        state = passed(method, ready, submit(_begun, centers, stage=name), self.rounds + 1, context)
        density = submit(self.settled, state, found, stage=name)
        told = ready.map_parts(_told, density).hold()
        sums = told.reduce(split_sums, by_split, self.split, "log_density", 1)
        what = submit(self.found, points, (found, state, density), Given.of(rows, points.arrays, []).axes, stage=name)
        outcome = replace(
            published(points, rows, what, self.predicts, context),
            metrics=submit(self.metrics, state, sums, found, stage=name),
            counts=submit(self.counted, state, sums, found, stage=name),
        )
        return replace(outcome, tables={"": answers(told, context), "centers": table_of(what, "centers", context)})

    def settled(self, state: Mixing, found: Measured) -> Density:
        """The last mixture."""
        assert state.mixture is not None
        return Density(state.mixture, self.covariance, float(np.log(found.scaling.scale).sum() - np.log(found.scaling.unit).sum()))

    def found(self, points: Points, learned: tuple[Measured, Mixing, Density], axes: Sequence[Part]) -> Found:
        """What is published, and the table of centers."""
        (found, state, density), names = learned, points.feature_names(axes)
        mixture, (clusters, features) = density.mixture, density.mixture.means.shape
        variances = mixture.covariances if self.covariance == "diagonal" else np.diagonal(mixture.covariances, axis1=-2, axis2=-1)
        deviations = np.broadcast_to(np.sqrt(variances), (clusters, features)) * found.scaling.factor
        table = pl.DataFrame(
            {
                "cluster": np.repeat(np.arange(clusters), features),
                "weight": np.repeat(mixture.weights, features),
                "feature": names * clusters,
                "center": unscaled(mixture.means, found.scaling).ravel(),
                "deviation": deviations.ravel(),
            }
        )
        arrays = {**mixture._asdict(), "log_unit": np.array(density.log_unit)}
        about = {"clusters": clusters, "covariance": self.covariance, "rounds": state.rounds}
        return Found(found.scaling, arrays, about, {"centers": Part(table)})

    def metrics(self, state: Mixing, sums: Sums, found: Measured) -> dict[str, Any]:
        """Mean log density, per split where there is one; AIC and BIC of the rows learned from, and how many rounds there were."""
        densities = {name: {"log_density": total / rows} for name, (rows, total) in sums.items()}
        rows, total = sums["train" if self.split else ""]
        free = parameters(self.clusters, len(found.moments.mean), self.covariance)
        whole = {"aic": 2 * free - 2 * total, "bic": free * np.log(rows) - 2 * total, "rounds": state.rounds}
        if not self.split:
            return densities[""] | whole
        return {name: row | (whole if name == "train" else {}) for name, row in densities.items()}

    def counted(self, state: Mixing, sums: Sums, found: Measured) -> dict[str, int]:
        """Rows of each split, features, clusters and rounds."""
        known = {"features": len(found.moments.mean), "clusters": self.clusters, "rounds": state.rounds}
        return {**known, **row_counts(sums)}


@dataclass(frozen=True)
class Density:
    """A mixture of scaled points, and the logarithm of a unit of their volume in the features' own numbers."""

    mixture: Mixture
    kind: Kind
    log_unit: float

    def of(self, points: Any) -> Any:
        """Likeliest component, log density and probabilities of scaled points, `float64[n, 2 + k]`, in the host's memory."""
        shares, density = (to_host(value) for value in posteriors(log_densities(points, self.mixture, self.kind, alone=True)))
        likeliest = (shares >= shares.max(axis=1, keepdims=True, initial=0.0) - _EQUAL).argmax(axis=1)
        return np.column_stack([likeliest, density - self.log_unit, shares])


@dataclass(frozen=True)
class _Mixing:
    """Predicts components, densities and probabilities."""

    scaling: Scaling
    density: Density
    missing: str
    names: tuple[str, ...]
    backend: Backend

    def predict(self, features: Any) -> Any:
        """Component, log density, probabilities, `float64[rows, 2 + k]`."""
        return self.density.of(new_points(features, self.scaling, self.missing, self.names, self.backend))


def _begun(centers: Any) -> Mixing:
    return Mixing(centers, None, -np.inf, -np.inf, 0)


def _told(part: Part, density: Density) -> Part:
    found = density.of(part.arrays[POINTS])
    made = [pl.Series("cluster", found[:, 0]).cast(pl.Int64), pl.Series("log_density", np.ascontiguousarray(found[:, 1]))]
    made += [pl.Series(f"probability_{i}", np.ascontiguousarray(found[:, 2 + i])) for i in range(found.shape[1] - 2)]
    return Part(part.frame.select(pl.exclude("^__.*__$")).hstack(made))
