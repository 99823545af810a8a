"""What a linear model minimizes: its family, its columns, penalties and weights, and where the search begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.errors import DataError
from pipeline.kernels.generalized_linear import Family
from pipeline.kernels.newton import Problem, Solver
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._linear.design import Design
from pipeline.stages.models._linear.summary import Summary, check
from pipeline.stages.models._linear.terms import LinearTerms
from pipeline.stages.models._measures import balanced_weights

Array = np.ndarray[Any, Any]

MOST_COEFFICIENTS = 8_192  # whose squares a Hessian holds: 512 MiB
NEWTON_UP_TO = 1_000  # coefficients; beyond, where nothing else is asked for, L-BFGS, which holds no Hessian


@dataclass(frozen=True)
class Setting:
    """One model to be fitted; `weights` are those of a row of each class, None where classes weigh the same."""

    stage: LinearTerms
    family: Family
    design: Design
    summary: Summary
    classes: int
    weights: Array | None

    @property
    def rows(self) -> int:
        """Training rows."""
        return self.summary.rows

    @property
    def total(self) -> float:
        """What the training rows weigh together by their own weights."""
        return self.summary.total

    @property
    def weighted(self) -> bool:
        """Whether some rows weigh more than others."""
        return self.weights is not None or self.stage.weight is not None

    @property
    def mean(self) -> float:
        """Of the training rows' target."""
        return float(self.summary.target.mean[0])

    @property
    def outputs(self) -> int:
        """Linear predictors that have coefficients."""
        return {"multinomial": self.classes, "base_class": self.classes - 1}.get(self.family, 1)

    @property
    def size(self) -> int:
        """Coefficients, intercepts among them."""
        return self.outputs * (1 + self.design.columns)

    @property
    def penalized(self) -> bool:
        """Whether there is a penalty."""
        return self.stage.l1 > 0 or self.stage.l2 > 0

    @property
    def solved_at_once(self) -> bool:
        """Whether it is least squares, whose sums are taken once."""
        return self.family == "normal" and self.size <= MOST_COEFFICIENTS

    @property
    def by_newton(self) -> bool:
        """Whether its solver wants Hessians."""
        return self.stage.l1 > 0 or not self.penalized or self.size <= NEWTON_UP_TO

    def kept(self, at: Array) -> Setting:
        """The same with some of the columns."""
        return replace(self, design=self.design.kept(at))

    def solver(self) -> Solver:
        """Before its first sums: the intercepts as they are without features, no other coefficients."""
        start = np.zeros((1 + self.design.columns, self.outputs))
        start[0] = self._null()
        stage, (rows, outputs) = self.stage, start.shape
        l1, l2 = (np.tile(np.append(0.0, np.full(rows - 1, value)), outputs) for value in (stage.l1, stage.l2))
        tied = tuple(range(0, self.size, rows)) if self.family == "multinomial" else ()
        return Solver(Problem((rows, outputs), l1, l2, stage.tolerance, tied, self.by_newton), start.T.ravel())

    def _null(self) -> Array:
        """The linear predictors without features."""
        if self.family == "normal":
            return np.array([self.mean])
        if self.family in ("poisson", "gamma"):
            return np.array([np.log(self.mean)])
        counts = np.array([self.summary.classes[code] for code in range(self.classes)], float)
        shares = np.log(np.maximum(counts, 0.5) * (1 if self.weights is None else self.weights))
        start: Array = shares - shares.mean() if self.family == "multinomial" else shares[1:] - shares[0]
        return start


def settled(learning: Learning[LinearTerms], names: Sequence[str], summary: Summary) -> Setting:
    """The model that is to be fitted. Raises DataError where the rows cannot be learned from by it."""
    stage = learning.stage
    check(summary, stage)
    _check_range(stage, float(summary.target.least[0]), float(summary.target.greatest[0]))
    design = Design.of(names, stage.categorical, summary)
    if not design.columns:
        raise DataError(f"no feature varies in the {summary.rows:,} training rows, the first, {names[0]!r}, neither. Is the split right?")
    classes = max(2, len(stage.classes))
    counts = np.array([summary.classes[code] for code in range(classes)])
    if stage.objective != "regression" and (counts == 0).any():
        lacking = stage.class_names[int(counts.argmin())]
        raise DataError(f"no training row has the {stage.target} {lacking!r}. Leave it out of classes, with its rows, or split anew.")
    weights = balanced_weights(counts) if stage.class_weight == "balanced" else None
    setting = Setting(stage, family_of(stage), design, summary, classes, weights)
    _check_size(setting)
    return setting


def family_of(stage: LinearTerms) -> Family:
    """The family of a stage's target."""
    if stage.objective == "regression":
        return stage.family
    if stage.objective == "binary":
        return "binomial"
    return "multinomial" if stage.l1 > 0 or stage.l2 > 0 else "base_class"


def _check_range(stage: LinearTerms, least: float, greatest: float) -> None:
    if stage.family == "poisson" and (least < 0 or greatest == 0):
        raise DataError(f"{stage.target!r} has the value {least:g}; the poisson family needs numbers from 0 on, not all of them 0")
    if stage.family == "gamma" and least <= 0:
        raise DataError(f"{stage.target!r} has the value {least:g}; the gamma family needs numbers above 0")


def _check_size(setting: Setting) -> None:
    """Raise DataError for more coefficients than rows tell of, or than a Hessian is made for."""
    columns, stage = setting.design.columns, setting.stage
    if not setting.penalized and columns >= setting.rows:
        raise DataError(
            f"{columns:,} columns (features, and their codes) of {setting.rows:,} training rows have no one answer without a penalty. "
            "Set l2 or l1, or name fewer features."
        )
    if setting.size > MOST_COEFFICIENTS and (stage.l1 > 0 or not setting.penalized):
        raise DataError(
            f"{setting.size:,} coefficients, and with l1, or without a penalty, at most {MOST_COEFFICIENTS:,} are fitted. "
            "Set l2 alone, or name fewer features."
        )
