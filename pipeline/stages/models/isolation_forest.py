"""Unusual rows: those that trees of random cuts set apart from the others soon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.kernels.isolation import Forest, isolation_scores
from pipeline.kernels.moments import Scaling
from pipeline.stage import Context, Outcome
from pipeline.stages.models._classical import need_scikit_learn
from pipeline.stages.models._isolation_trees import grown
from pipeline.stages.models._predictor import Predictor
from pipeline.stages.models._unsupervised.published import Found, answers, published, unpacked
from pipeline.stages.models._unsupervised.rows import POINTS, Points, Sample, joined_samples, need_known, sampled
from pipeline.stages.models._unsupervised.scaled import Measured, measured
from pipeline.stages.models._unsupervised.splits import Sums, by_split, row_counts, split_sums
from pipeline.stages.models._unsupervised.stage import Unsupervised
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

PREDICTS: dict[str, pl.DataType] = {"score": pl.Float64(), "anomaly": pl.Boolean()}
PLAIN_LIMIT = 0.5
"""The score above which a row is an anomaly where no share of them is stated: paths as long as those of a mean row."""
_MOST = float(np.finfo(np.float32).max)


class IsolationForest(Unsupervised, name="isolation_forest", version=1):
    """Say of every row how unusual it is, by an isolation forest: trees of random cuts, in which a row that stands alone ends early.

    The forest is scikit-learn's. Trees are grown on a sample of the rows (of split `train`, where there is one) with the lowest hashes of
    their keys, which does not depend on how rows are divided; all rows are then scored part by part. Features are numbers of 32 bits, as
    scikit-learn's trees have them.

    A row each: key, split, `score` (0 to 1, the higher the more unusual: scikit-learn's score_samples with the other sign) and `anomaly`:
    above 0.5, or above the share `contamination` of the sample. The model is models/NAME.npz, the trees as plain arrays; `score` says the
    same of new rows, and needs no scikit-learn. Metrics say the share of anomalies and the mean score, split by split. Needs the extra
    `classical`.

    Example:
        {use: isolation_forest, from: features, as: unusual, key: loan_id, contamination: 0.01, exclude: [label]}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "features": Count("features"),
        "trees": Count("trees"),
        "sample_rows": Count("rows that trees are grown from"),
        "anomalies": Count("anomalies"),
        "rows_*": Count("rows, *"),
    }

    trees: int = Field(100, ge=1, le=10_000, description="Number of trees.")
    max_samples: int = Field(256, ge=2, le=1_000_000, description="Rows that a tree is grown from.")
    max_features: float = Field(1.0, gt=0, le=1, description="Share of the features that a tree cuts.")
    contamination: Annotated[float, Field(gt=0, le=0.5)] | Literal["auto"] = Field(
        "auto", description="Share of the sample that is above the limit of an anomaly, at most 0.5; auto: the limit is a score of 0.5."
    )
    sample: int = Field(100_000, ge=2, le=10_000_000, description="Rows that trees draw theirs from.")
    seed: int | None = Field(None, ge=0, description="Another seed, other trees and another sample; the job's seed where not given.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Scores. Raises StageError for columns that cannot be used; PlaceError where scikit-learn is not installed."""
        self.check_rows(schemas["rows"])
        need_scikit_learn()
        return {"": self.kept_schema(schemas["rows"], PREDICTS)}

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
        """The trees."""
        scaling, arrays = unpacked(content, (*Forest._fields, "limit"))
        forest = Forest(*(arrays[name] for name in Forest._fields))
        fill = scaling.fill if description["missing"] == "mean" else None
        return Isolation(forest, float(arrays["limit"]), fill, tuple(description["types"]), backend)

    def prepare(self, *, lean: bool = False) -> None:
        """Import scikit-learn."""
        import_module("sklearn.ensemble")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A pass for the sample, one task that grows the trees, and a pass that scores; two before find what missing values count as."""
        rows, submit, name = tables["rows"], context.session.submit, context.name
        assert rows.schema is not None
        seed = context.seed if self.seed is None else self.seed
        points = Points.of(name, self, rows.schema, context.session.backend)
        taken = points.table(rows, seed)
        found = measured(taken, self.split, context, centre=True, own="each") if self.missing == "mean" else None
        most = max(self.sample, self.max_samples)
        drawn = taken.reduce(sampled, partial(joined_samples, most), self.split, most)
        learned = submit(self.learned, points, drawn, found, seed, stage=name)
        told = taken.map_parts(_scored, learned).hold()
        sums = told.reduce(partial(_sums, self.split), _added)
        what = submit(self.found, learned, found, drawn, stage=name)
        outcome = published(points, rows, what, PREDICTS, context)
        return replace(
            outcome,
            tables={"": answers(told, context)},
            metrics=submit(self.metrics, sums, stage=name),
            counts=submit(self.counted, sums, drawn, stage=name),
        )

    def learned(self, points: Points, drawn: Sample, found: Measured | None, seed: int) -> Isolation:
        """The trees of a sample, and the score above which a row is an anomaly. Raises DataError where there are fewer than two rows."""
        if len(drawn[0]) < 2:
            raise DataError(f"a forest of {len(drawn[0])} row; two or more are needed (is the split column right?)")
        fill = None if found is None else found.scaling.fill
        taken = single(drawn[0], fill, points.columns)
        forest = grown(taken, self.trees, min(self.max_samples, len(taken)), self.max_features, seed)
        limit = PLAIN_LIMIT
        if self.contamination != "auto":
            limit = -float(np.percentile(-isolation_scores(taken, forest), 100.0 * self.contamination))
        return Isolation(forest, limit, fill, points.columns, points.backend)

    def found(self, learned: Isolation, found: Measured | None, drawn: Sample) -> Found:
        """What is published."""
        arrays = {**learned.forest._asdict(), "limit": np.array(learned.limit)}
        own = {"trees": self.trees, "max_samples": min(self.max_samples, len(drawn[0])), "sample_rows": len(drawn[0])}
        return Found(
            _unscaled(drawn) if found is None else found.scaling,
            arrays,
            {**own, "limit": learned.limit, "contamination": self.contamination},
            {},
        )

    def metrics(self, sums: tuple[Sums, Sums]) -> dict[str, Any]:
        """The share of anomalies and the mean score, per split where there is one."""
        anomalies, scores = sums
        told = {
            name: {"anomaly_share": count / rows, "mean_score": scores[name][1] / rows} for name, (rows, count) in anomalies.items() if rows
        }
        return told if self.split else told.get("", {})

    def counted(self, sums: tuple[Sums, Sums], drawn: Sample) -> dict[str, int]:
        """Rows of each split, features, trees, the sample's rows and anomalies."""
        anomalies = int(sum(count for _, count in sums[0].values()))
        own = {"features": drawn[0].shape[1], "trees": self.trees, "sample_rows": len(drawn[0]), "anomalies": anomalies}
        return {**own, **row_counts(sums[0])}


@dataclass(frozen=True)
class Isolation:
    """Trees, the score above which a row is an anomaly, and what a missing value counts as (None: it is refused)."""

    forest: Forest
    limit: float
    fill: Any
    names: tuple[str, ...]
    backend: Backend

    def predict(self, features: Any) -> Any:
        """Score, and 1 for an anomaly, `float64[rows, 2]` in the host's memory."""
        points = to_device(single(features, self.fill, self.names), self.backend)
        scores = to_host(isolation_scores(points, self.forest))
        return np.column_stack([scores, scores > self.limit])


def single(features: Any, fill: Any, names: Sequence[str]) -> Any:
    """Features as `float32[n, d]` in the host's memory. Raises DataError for a missing value that is refused, and one beyond 32 bits."""
    found = to_host(features)
    if fill is None:
        need_known(found, names)
    else:
        found = np.where(np.isnan(found), fill, found)
    beyond = (np.abs(found) > _MOST).any(axis=0)
    if beyond.any():
        at = int(beyond.argmax())
        name = repr(names[at]) if at < len(names) else f"number {at + 1}"
        raise DataError(f"feature {name} has values beyond the 32 bits that trees take. Scale it, or leave it out by exclude.")
    return found.astype(np.float32)


def _unscaled(drawn: Sample) -> Scaling:
    """Numbers as they are: trees ask only which of two is greater."""
    zeros, ones = np.zeros(drawn[0].shape[1]), np.ones(drawn[0].shape[1])
    return Scaling(zeros, ones, zeros, ones)


def _scored(part: Part, learned: Isolation) -> Part:
    scores, anomalies = learned.predict(part.arrays[POINTS]).T
    made = pl.DataFrame({"score": scores, "anomaly": anomalies > 0}, schema=PREDICTS)
    return Part(part.frame.select(pl.exclude("^__.*__$")).hstack(made))


def _sums(split: str | None, part: Part) -> tuple[Sums, Sums]:
    told = Part(part.frame.with_columns(pl.col("anomaly").cast(pl.Float64)))
    return split_sums(told, split, "anomaly", 1), split_sums(told, split, "score", 1)


def _added(found: Sequence[tuple[Sums, Sums]]) -> tuple[Sums, Sums]:
    return by_split([anomalies for anomalies, _ in found]), by_split([scores for _, scores in found])
