"""Proportional hazards: how features speed up the time until an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError
from pipeline.kernels.concordance import concordant_pairs
from pipeline.kernels.distances import projected
from pipeline.kernels.moments import Scaling
from pipeline.stage import ColumnName, Context, Outcome, need_keys, need_numeric
from pipeline.stages.models._classical import need_statsmodels
from pipeline.stages.models._cox.hazards import Baseline, Hazards, Ties, baseline, fitted
from pipeline.stages.models._cox.lives import LifeColumns
from pipeline.stages.models._cox.published import BASELINE, NUMBERS, PREDICTS, Predicting, coefficients, predicted
from pipeline.stages.models._learning import Given
from pipeline.stages.models._predictor import Predictor
from pipeline.stages.models._training_rows import SPLITS
from pipeline.stages.models._unsupervised.published import Found, answers, published, table_of, unpacked
from pipeline.stages.models._unsupervised.rows import POINTS, Points, learned
from pipeline.stages.models._unsupervised.stage import Unsupervised
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, concat_parts, take
from pipeline.tables.rounds import Round, Rounds
from pipeline.tables.table import Table


class _Learned(NamedTuple):
    """What training found, and of how many rows, events and strata."""

    found: Found
    hazards: Hazards
    counts: Mapping[str, int]


class Cox(Unsupervised, name="cox", version=1):
    """Proportional hazards (Cox): how much each feature multiplies the hazard of an event, of rows of split `train`.

    `duration` is how long a row was seen, `event` 1 where that ended with an event and 0 where it was only seen so far. With `entry` a row
    is at risk after its entry, up to its duration. With `strata` each stratum has a hazard of its own. statsmodels' partial likelihood
    (PHReg; ties by Efron or Breslow) is brought to its maximum in one task of all rows to learn from, at most `max_rows`; rows with a
    missing duration, event, entry or stratum are predicted only.

    A row each: key, split, the columns above, `linear_predictor` (0 for a row of mean features) and `partial_hazard`, its exponential.
    NAME.coefficients has a line per feature: coefficient, standard error, z, p-value, hazard ratio with its 95 % interval, and the
    feature's standard deviation (`scale`). NAME.baseline has the cumulative hazard and the survival of a row of mean features at every
    time of an event, by stratum, as R's basehaz. The model is models/NAME.npz; `score` gives new rows their linear predictor and partial
    hazard. Metrics are Harrell's concordance, split by split, and the log likelihoods. Needs the extra `classical`.

    Example:
        {use: cox, from: patients, as: hazards, key: patient, duration: days, event: died, features: [age, treated], split: split}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "features": Count("features"),
        "events": Count("events"),
        "strata": Count("strata"),
        "rounds": Count("rounds"),
        "rows_learned": Count("rows learned from"),
    }

    duration: ColumnName = Field(description="Column of how long a row was seen: a number, 0 or more.")
    event: ColumnName = Field(description="Column that is 1 (or true) where the duration ended with an event, else 0.")
    entry: ColumnName | None = Field(None, description="Column of when a row came under observation; from 0 on where it is not given.")
    strata: ColumnName | None = Field(None, description="Column whose values have hazards of their own.")
    ties: Ties = Field("efron", description="How events at one time are counted.")
    rounds: int = Field(50, ge=1, le=10_000, description="Most rounds of Newton's method.")
    max_rows: int = Field(
        50_000,
        ge=2,
        le=10_000_000,
        description="Most rows to learn from, which one task gathers; 20,000 of 5 features take some 5 seconds.",
    )

    @property
    def lives(self) -> LifeColumns:
        """The columns that say how long rows lasted."""
        return LifeColumns(self.duration, self.event, self.entry, self.strata)

    @property
    def row_columns(self) -> list[str]:
        """Key, split, and the columns of how long it lasted."""
        return [*super().row_columns, *self.lives.names]

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Predictions, coefficients and baseline. Raises StageError for columns that cannot be used; PlaceError without statsmodels."""
        schema = schemas["rows"]
        for key, name in (("duration", self.duration), ("event", self.event), ("entry", self.entry)):
            need_numeric(schema, [name] if name else [], key=key)
        need_keys(schema, [self.strata] if self.strata else [], key="strata")
        if twice := next((name for name in self.row_columns if self.row_columns.count(name) > 1), None):
            raise StageError(f"column {twice!r} is named twice among key, split, duration, event, entry and strata")
        self.check_rows(schema)
        need_statsmodels()
        if self.strata in BASELINE:
            raise StageError(f"column {self.strata!r} has the name of a column of the baseline. Rename it before.", key="strata")
        strata = {self.strata: schema.columns[self.strata]} if self.strata else {}
        return {
            "": self.kept_schema(schema, PREDICTS),
            "coefficients": Schema(pl.Schema({"feature": pl.String(), **dict.fromkeys(NUMBERS, pl.Float64())})),
            "baseline": Schema(pl.Schema({**strata, **dict.fromkeys(BASELINE, pl.Float64())})),
        }

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, backend: Backend) -> Predictor:
        """The coefficients."""
        scaling, arrays = unpacked(content, ("coefficients",))
        return Predicting(scaling, arrays["coefficients"], str(description["missing"]), tuple(description["types"]), backend)

    def prepare(self, *, lean: bool = False) -> None:
        """Import statsmodels."""
        import_module("statsmodels.duration.hazard_regression")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One task that learns from the rows of split train, one a part that predicts, and one that measures."""
        rows, submit, name = tables["rows"], context.session.submit, context.name
        assert rows.schema is not None
        points = Points.of(name, self, rows.schema, context.session.backend)
        taken = points.table(rows, context.seed)
        axes = Given.of(rows, points.arrays, []).axes
        trained = submit(self.trained, points, taken.map_parts(self._chosen).futures(), axes, stage=name)
        what = submit(_found, trained, stage=name)
        told = taken.map_parts(predicted, points, what).hold()
        judged = told.map_parts(self._judged).futures()
        outcome = published(points, rows, what, PREDICTS, context)
        named = {which: table_of(what, which, context) for which in ("coefficients", "baseline")}
        return replace(
            outcome,
            tables={"": answers(told, context), **named},
            metrics=submit(self.metrics, trained, judged, stage=name),
            counts=submit(_counts, trained, stage=name),
        )

    def _chosen(self, part: Part) -> Part:
        """The rows to learn from, on the host."""
        rows = np.flatnonzero(learned(part, self.split) & self.lives.known(part.frame))
        return Part(part.frame[rows], {POINTS: take(to_host(part.arrays[POINTS]), rows)})

    def trained(self, points: Points, parts: Sequence[Part], axes: Sequence[Part]) -> _Learned:
        """The maximum. Raises DataError where there are too many rows, none, or none with an event, and where there is no maximum."""
        count = sum(part.frame.height for part in parts)
        if count > self.max_rows:
            text = f"{count:,} rows to learn from, and at most {self.max_rows:,} are gathered. Take a share of them (sample), or raise it."
            raise DataError(text, key="max_rows")
        whole = concat_parts(parts)
        order = whole.frame[self.key].arg_sort()  # so that sums do not depend on how rows are divided
        frame, features = whole.frame[order], whole.arrays[POINTS][order.to_numpy()]
        lives, strata = self.lives.of(frame)
        if not lives.event.any():
            raise DataError(f"no row to learn from has an event: {self.event!r} is 0 in all of {count:,}. Are split and event right?")
        names, rounds = points.feature_names(axes), Rounds(points.name)
        filled = self._filled(features, names)
        hazards = fitted(
            filled,
            lives,
            names,
            self.ties,
            (self.rounds, lambda at, height: rounds.done(Round(at, self.rounds, {"log likelihood": height}))),
        )
        means, ones = hazards.means, np.ones(len(names))
        predictor = projected(filled - means, hazards.coefficients[:, None])[:, 0]
        tables = {"coefficients": Part(coefficients(names, hazards))}
        tables["baseline"] = Part(self._baseline(baseline(lives, predictor, self.ties), strata))
        own = {"duration": self.duration, "event": self.event, "entry": self.entry, "strata": self.strata, "ties": self.ties}
        found = Found(Scaling(means, ones, means, ones), {"coefficients": hazards.coefficients}, own, tables)
        counts = {"features": len(names), "events": int(lives.event.sum()), "rounds": hazards.rounds, "rows_learned": count}
        return _Learned(found, hazards, {**counts, **({"strata": len(strata)} if self.strata else {})})

    def _filled(self, features: Any, names: Sequence[str]) -> Any:
        """The features with the mean where one is missing."""
        missing = np.isnan(features)
        if missing.all(axis=0).any():
            raise DataError(f"feature {names[int(missing.all(axis=0).argmax())]!r} is missing in every row to learn from. Leave it out.")
        return np.where(missing, np.nanmean(features, axis=0), features) if missing.any() else features

    def _baseline(self, found: Baseline, strata: pl.Series) -> pl.DataFrame:
        columns = dict(zip(BASELINE, (found.time, found.cumulative, np.exp(-found.cumulative)), strict=True))
        table = pl.DataFrame(columns)
        return table.select(strata[found.stratum].alias(self.strata), pl.all()) if self.strata else table

    def _judged(self, part: Part) -> Part:
        """What concordance is measured by."""
        split = pl.col(self.split) if self.split else pl.lit("train")
        return Part(part.frame.filter(self.lives.known(part.frame)).select(*self.lives.names, "linear_predictor", split.alias("__split__")))

    def metrics(self, trained: _Learned, parts: Sequence[Part]) -> dict[str, Any]:
        """The concordance of every split that has pairs to compare, and the log likelihoods of training."""
        whole, found = pl.concat([part.frame for part in parts]), dict[str, Any]()
        for split in SPLITS:
            frame = whole.filter(pl.col("__split__") == split)
            if frame.height:
                found[split] = {"concordance": self._concordance(frame)}
        fit = {"log_likelihood": trained.hazards.log_likelihood, "null_log_likelihood": trained.hazards.null_log_likelihood}
        found["train"] = {**found.get("train", {}), **fit}
        return found if self.split else found["train"]

    def _concordance(self, frame: pl.DataFrame) -> float | None:
        """Harrell's C within strata; None where no pair can be compared."""
        (lives, strata), risk = self.lives.of(frame), frame["linear_predictor"].to_numpy()
        right, pairs = 0.0, 0
        for number in range(len(strata)):
            rows = lives.stratum == number
            entry = None if lives.entry is None else lives.entry[rows]
            told = concordant_pairs(lives.duration[rows], lives.event[rows], risk[rows], entry)
            right, pairs = right + told[0], pairs + told[1]
        return right / pairs if pairs else None


def _found(trained: _Learned) -> Found:
    return trained.found


def _counts(trained: _Learned) -> dict[str, int]:
    return dict(trained.counts)
