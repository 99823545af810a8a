"""Principal axes of the columns of a table, and where rows lie on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import StageError
from pipeline.kernels.distances import projected
from pipeline.kernels.moments import Scaling
from pipeline.kernels.principal_axes import joined
from pipeline.stage import Context, Outcome
from pipeline.stages.models._exported.graph import Graph
from pipeline.stages.models._learning import Given
from pipeline.stages.models._predictor import Predictor
from pipeline.stages.models._unsupervised.axes import ProductPasses, Solved, begun, exactly, learned_points, nearly, triangle_of
from pipeline.stages.models._unsupervised.graphs import graph_of_axes
from pipeline.stages.models._unsupervised.passes import passed
from pipeline.stages.models._unsupervised.published import Found, answers, published, table_of, unpacked
from pipeline.stages.models._unsupervised.rows import POINTS, Points
from pipeline.stages.models._unsupervised.scaled import Measured, measured, new_points, scaled_points
from pipeline.stages.models._unsupervised.splits import Sums, by_split, row_counts, split_sums
from pipeline.stages.models._unsupervised.stage import Unsupervised
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

EXACT = 1_000
"""Feature columns up to which `auto` is exact."""


class TruncatedSvd(Unsupervised, name="truncated_svd", version=1):
    """Give every row its place on the main axes of the features: principal components, or a truncated SVD where `center` is off.

    `exact` reduces the parts to a triangle of features x features (QR); `randomized` multiplies the rows with a few vectors in some passes,
    for many features, and is exact to rounding for axes that stand out. An axis's largest loading is positive; of axes that explain as much
    as one another the directions are not determined. An axis beyond the rank is 0.

    A row each: key, split, component_1, component_2 ...; with `whiten` each of variance 1 among the rows learned from. NAME.loadings has a
    line per axis and feature, NAME.variance one per axis: singular value, variance (over n - 1, or n where not centered), its share of all,
    and the residual of the randomized method. The model is models/NAME.npz; `score` places new rows. Metrics say what share of the squares
    the axes keep, split by split.

    Example:
        {use: truncated_svd, from: features, as: axes, key: loan_id, components: 5, standardize: true, exclude: [label]}
    """

    exports = ("onnx",)
    counts: ClassVar[Mapping[str, Count]] = {"features": Count("features"), "components": Count("axes"), "rows_*": Count("rows, *")}

    components: int = Field(2, ge=1, le=1_000, description="Number of axes.")
    center: bool = Field(True, description="Take every feature's mean off first.")
    standardize: bool = Field(False, description="Count every feature by its standard deviation.")
    whiten: bool = Field(False, description="Divide every axis by its standard deviation.")
    method: Literal["auto", "exact", "randomized"] = Field(
        "auto", description="auto: exact up to 1,000 feature columns, randomized beyond and for arrays."
    )
    passes: int = Field(10, ge=2, le=100, description="Passes over the rows of the randomized method.")

    @property
    def predicts(self) -> dict[str, pl.DataType]:
        """The columns of places."""
        return {f"component_{number}": pl.Float64() for number in range(1, self.components + 1)}

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Places, loadings and variances. Raises StageError for columns that cannot be used, and for more axes than features."""
        schema = schemas["rows"]
        self.check_rows(schema)
        features = len(self.feature_columns(schema))
        if not schema.arrays and self.components > features:
            raise StageError(f"{self.components:,} axes of {features:,} features; ask for at most as many", key="components")
        loadings = {"component": pl.Int64(), "feature": pl.String(), "loading": pl.Float64()}
        names = ("singular_value", "explained_variance", "explained_share", "residual")
        variance = {"component": pl.Int64(), **dict.fromkeys(names, pl.Float64())}
        return {
            "": self.kept_schema(schema, self.predicts),
            "loadings": Schema(pl.Schema(loadings)),
            "variance": Schema(pl.Schema(variance)),
        }

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
        """The places on the axes."""
        scaling, arrays = unpacked(content, ("axes",))
        return _Placing(scaling, arrays["axes"], str(description["missing"]), tuple(description["types"]), backend)

    @classmethod
    def graph(cls, description: Mapping[str, Any], content: bytes) -> Graph:
        """The same in ONNX."""
        scaling, arrays = unpacked(content, ("axes",))
        return graph_of_axes(scaling, arrays, description["missing"])

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Passes over the parts: two to measure, one or some for the axes, and one that places every row."""
        rows, submit, name = tables["rows"], context.session.submit, context.name
        assert rows.schema is not None
        points = Points.of(name, self, rows.schema, context.session.backend)
        taken = points.table(rows, context.seed)
        found = measured(taken, self.split, context, centre=self.center, own="each" if self.standardize else "one")
        ready = scaled_points(taken, found)
        few = self.method == "auto" and not points.arrays and len(points.columns) <= EXACT
        if self.method == "exact" or few:
            solved = submit(exactly, ready.reduce(triangle_of, joined, self.split), found, self.components, stage=name)
        else:
            start = submit(begun, found, self.components, context.seed, stage=name)
            learned = ready
            if not ready.is_beyond:
                kept = [submit(learned_points, part, self.split, stage=name) for part in ready.futures()]
                learned = Table.of(context.session, name, kept)
            solved = submit(nearly, passed(ProductPasses(self.split), learned, start, self.passes, context), self.components, stage=name)
        axes = submit(self.axes, solved, found, stage=name)
        told = ready.map_parts(_placed, axes)
        sums = ready.reduce(_squares, _both, self.split, solved)
        what = submit(self.found, points, solved, found, Given.of(rows, points.arrays, []).axes, stage=name)
        outcome = replace(
            published(points, rows, what, self.predicts, context),
            metrics=submit(self.metrics, sums, stage=name),
            counts=submit(self.counted, sums, found, stage=name),
        )
        named = {which: table_of(what, which, context) for which in ("loadings", "variance")}
        return replace(outcome, tables={"": answers(told, context), **named})

    def spread(self, solved: Solved, found: Measured) -> Any:
        """Root of the mean square of every axis, `float64[k]`, of scaled points."""
        return solved.axes.singular / np.sqrt(max(found.moments.rows - self.center, 1))

    def axes(self, solved: Solved, found: Measured) -> Any:
        """What scaled points are multiplied with, `float64[d, k]`."""
        spread = self.spread(solved, found)
        by = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1.0), 0.0) if self.whiten else self.unit(found)
        return solved.axes.vectors * by

    def unit(self, found: Measured) -> float:
        """What a step of 1 of scaled points is in the features' own numbers, which are one for all; 1 where each has its own."""
        return 1.0 if self.standardize else float(found.scaling.factor[0])

    def found(self, points: Points, solved: Solved, found: Measured, axes: Sequence[Part]) -> Found:
        """What is published, and the tables of loadings and variances."""
        names, unit, (features, components) = points.feature_names(axes), self.unit(found), solved.axes.vectors.shape
        variance, total = self.spread(solved, found) ** 2, solved.axes.squares / max(found.moments.rows - self.center, 1)
        if not self.center:
            variance = np.maximum(variance - (found.means @ solved.axes.vectors) ** 2, 0.0)
            total = max(total - float((found.means**2).sum()), 0.0)
        with np.errstate(over="ignore"):  # the square of a number of 200 digits
            columns = {
                "component": np.arange(1, components + 1),
                "singular_value": solved.axes.singular * unit,
                "explained_variance": variance * unit * unit,
                "explained_share": variance / total if total > 0 else np.zeros(components),
                "residual": solved.residuals,
            }
        loadings = {
            "component": np.repeat(columns["component"], features),
            "feature": names * components,
            "loading": solved.axes.vectors.T.ravel(),
        }
        infinite = pl.when(pl.col("explained_variance").is_finite()).then("explained_variance").name.keep()
        tables = {"loadings": Part(pl.DataFrame(loadings)), "variance": Part(pl.DataFrame(columns).with_columns(infinite))}
        own = {"components": components, "center": self.center, "standardize": self.standardize, "whiten": self.whiten}
        return Found(found.scaling, {"axes": self.axes(solved, found)}, own, tables)

    def metrics(self, sums: tuple[Sums, Sums]) -> dict[str, Any]:
        """What share of the squares the axes keep, per split where there is one."""
        every, kept = sums
        shares = {name: {"share_of_squares": kept[name][1] / total if total > 0 else None} for name, (_, total) in every.items()}
        return shares if self.split else shares[""]

    def counted(self, sums: tuple[Sums, Sums], found: Measured) -> dict[str, int]:
        """Rows of each split, features and axes."""
        return {"features": len(found.moments.mean), "components": self.components, **row_counts(sums[0])}


@dataclass(frozen=True)
class _Placing:
    """Predicts places on the axes."""

    scaling: Scaling
    axes: Any
    missing: str
    names: tuple[str, ...]
    backend: Backend

    def predict(self, features: Any) -> Any:
        """Places, `float64[rows, k]`."""
        points = new_points(features, self.scaling, self.missing, self.names, self.backend)
        return to_host(projected(points, array_module(points).asarray(self.axes)))


def _placed(part: Part, axes: Any) -> Part:
    points = part.arrays[POINTS]
    places = to_host(projected(points, array_module(points).asarray(axes)))
    made = [pl.Series(f"component_{i + 1}", np.ascontiguousarray(places[:, i])) for i in range(places.shape[1])]
    return Part(part.frame.select(pl.exclude("^__.*__$")).hstack(made))


def _squares(part: Part, split: str | None, solved: Solved) -> tuple[Sums, Sums]:
    """Squares of the points, and of their places."""
    points = part.arrays[POINTS]
    places = points @ array_module(points).asarray(solved.axes.vectors)
    columns = [pl.Series(name, to_host((what * what).sum(axis=1))) for name, what in (("every", points), ("kept", places))]
    told = Part(part.frame.hstack(columns))
    return split_sums(told, split, "every", 1), split_sums(told, split, "kept", 1)


def _both(found: Sequence[tuple[Sums, Sums]]) -> tuple[Sums, Sums]:
    return by_split([every for every, _ in found]), by_split([kept for _, kept in found])
