"""Fitting a linear model: least squares by one pass or two, every other one by a solver that asks for sums round by round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.errors import DataError
from pipeline.kernels.coordinate_descent import lasso_minimum
from pipeline.kernels.generalized_linear import Family
from pipeline.kernels.least_squares import factored, independent, least_squares, stacked
from pipeline.kernels.newton import Solver, matrix
from pipeline.stages.models._linear.setting import Setting
from pipeline.stages.models._linear.sums import Sums, Wanted

Array = np.ndarray[Any, Any]
History = tuple[tuple[int, str, float], ...]
"""Round, split and mean loss."""


@dataclass(frozen=True)
class Fit:
    """Coefficients `[1 + c, m]` of the setting's columns, the intercept at their means first, and what became of the search.

    `covariance [m (1 + c), m (1 + c)]` is that of the coefficients, output by output; None where they have none (a penalty). It is known
    by `freedom` degrees of freedom; None where the statistic is normal.
    """

    setting: Setting
    coefficients: Array
    covariance: Array | None
    freedom: int | None
    history: History
    rounds: int
    ended: str


@dataclass(frozen=True)
class Course:
    """A solver on its way, and the best that was seen of the rows it does not learn from."""

    setting: Setting
    solver: Solver
    history: History = ()
    best: float = np.inf
    best_point: Array | None = None
    since: int = 0
    stopped: bool = False

    @classmethod
    def of(cls, setting: Setting) -> Course:
        """Before the first sums."""
        return cls(setting, setting.solver())

    @property
    def wanted(self) -> Wanted:
        """The sums that the solver waits for."""
        solver, last = self.solver, {f"{split} loss": value for _, split, value in self.history[-2:]}
        return Wanted(solver.coefficients, solver.problem.newton, solver.rounds, last)

    @property
    def done(self) -> bool:
        """Whether it waits for none."""
        return bool(self.solver.done) or self.stopped or self.solver.rounds >= self.setting.stage.rounds

    def advanced(self, sums: Sums) -> Course:
        """After these sums. Raises DataError where nothing holds the coefficients."""
        before = self.solver
        with _no_minimum(self.setting):
            solver = before.advanced(sums.train)
        if solver.done == "diverged":
            raise _diverged(self.setting, solver)
        if solver.at is before.at:
            return replace(self, solver=solver)
        entry = ((solver.rounds, "train", sums.train.loss / sums.train.weight),)
        if sums.validation is None:
            return replace(self, solver=solver, history=self.history + entry)
        value = sums.validation.loss / sums.validation.weight
        history = (*self.history, *entry, (solver.rounds, "validation", value))
        if value < self.best:
            return replace(self, solver=solver, history=history, best=value, best_point=before.trial, since=0)
        patience = self.setting.stage.early_stopping_rounds or 0
        return replace(self, solver=solver, history=history, since=self.since + 1, stopped=self.since + 1 >= patience and not solver.done)

    def fit(self, gram: Array | None) -> Fit:
        """What came out, once it is done. `gram` is that of the columns and the target, where the model has no penalty."""
        solver, setting = self.solver, self.setting
        assert solver.at is not None
        if self.stopped:
            assert self.best_point is not None
            return self._found(self.best_point, None, "stopped early")
        converged = solver.done == "converged"
        point = solver.trial if converged and solver.problem.newton else solver.at.point
        covariance = _covariance(setting, solver, gram) if converged and gram is not None and not setting.weighted else None
        return self._found(point, covariance, solver.done or "rounds used up")

    def _found(self, point: Array, covariance: Array | None, ended: str) -> Fit:
        solver = self.solver
        return Fit(self.setting, matrix(point, solver.problem.shape), covariance, None, self.history, solver.rounds, ended)


def _covariance(setting: Setting, solver: Solver, gram: Array) -> Array:
    """By the expected information: that of gamma's logarithm is the Gram matrix, over Pearson's estimate of the dispersion."""
    assert solver.at is not None
    sums = solver.at.sums
    if setting.family != "gamma":
        assert sums.hessian is not None
        return np.linalg.inv(sums.hessian)
    information = np.zeros((setting.size, setting.size))
    information[0, 0], information[1:, 1:] = setting.rows, gram[:-1, :-1]
    dispersion = sums.pearson / max(setting.rows - setting.size, 1)
    found: Array = dispersion * np.linalg.inv(information)
    return found


@contextmanager
def _no_minimum(setting: Setting) -> Iterator[None]:
    """Raise DataError with the remedy where the kernel finds no minimum."""
    try:
        yield
    except ValueError as error:
        stage = setting.stage
        raise DataError(
            f"{error}: with l1 = {stage.l1:g} the coefficients of {setting.design.columns:,} columns hardly differ in what they cost. "
            "Raise l1, or set l2 beside it.",
            key="l1",
        ) from error


def _diverged(setting: Setting, solver: Solver) -> DataError:
    assert solver.direction is not None
    steps = np.abs(matrix(solver.direction, solver.problem.shape))[1:].max(axis=1)
    name, target = setting.design.named(int(steps.argmax())), setting.stage.target
    return DataError(
        f"the training rows' {target!r} is separated: the further the coefficient of {name} goes, the better the fit, without end, so it "
        "has no estimate. Set l2 (0.001, say), name the feature in exclude, or merge rare categories."
    )


def is_plain(setting: Setting, gram: Array) -> bool:
    """Whether the Gram matrix is enough: no digits are lost in it, or the penalty is one that takes it as it is."""
    return setting.stage.l1 > 0 or factored(_penalized(setting, gram)) is not None


def varying(setting: Setting, gram: Array, factor: Array | None) -> Array:
    """Places of the columns to keep: without a penalty those that no earlier ones explain."""
    columns = setting.design.columns
    if setting.penalized or factor is None:
        return np.arange(columns)
    return independent(factor[:, :columns], np.sqrt(gram.diagonal()[:columns]))


def solved(setting: Setting, gram: Array, factor: Array | None, kept: Array) -> Fit:
    """Least squares by the Gram matrix or, where that was not enough, the factor of columns and target; of the columns that are kept."""
    stage, rows, columns = setting.stage, setting.total, setting.design.columns
    last = np.append(kept, len(gram) - 1)
    gram = gram[np.ix_(last, last)]
    if stage.l1 > 0:
        curved = gram[:-1, :-1] / rows + stage.l2 * np.eye(columns)
        with _no_minimum(setting):
            found = lasso_minimum(curved, gram[:-1, -1] / rows, np.full(columns, stage.l1), np.zeros(columns))
        return _of_least_squares(setting, found, _residual(gram, found), None)
    upper = factored(_penalized(setting, gram)) if factor is None else None
    if upper is None:
        assert factor is not None
        below = np.eye(columns, columns + 1) * np.sqrt(stage.l2 * rows)
        upper = stacked([factor[:, last], below])
    squares = least_squares(upper)
    residual = _residual(gram, squares.coefficients) if setting.penalized else squares.residual
    freedom = setting.rows - 1 - columns
    if setting.penalized or setting.weighted or freedom < 1:
        return _of_least_squares(setting, squares.coefficients, residual, None)
    covariance = np.zeros((columns + 1, columns + 1))
    covariance[0, 0], covariance[1:, 1:] = 1 / rows, squares.inverse
    return _of_least_squares(setting, squares.coefficients, residual, covariance * residual / freedom)


def _penalized(setting: Setting, gram: Array) -> Array:
    raised: Array = gram + np.diag(np.append(np.full(len(gram) - 1, setting.stage.l2 * setting.total), 0.0))
    return raised


def _residual(gram: Array, found: Array) -> float:
    """The sum of squared residuals of coefficients."""
    whole = np.append(found, -1.0)
    return max(float(whole @ gram @ whole), 0.0)


def _of_least_squares(setting: Setting, found: Array, residual: float, covariance: Array | None) -> Fit:
    coefficients = np.append(setting.mean, found)[:, None]
    freedom = setting.rows - 1 - setting.design.columns
    return Fit(setting, coefficients, covariance, freedom, ((1, "train", residual / setting.total / 2),), 1, "solved")


_FEW = 3
"""Features that do not vary which are warned about one by one."""


def warnings_of(asked: Setting, fit: Fit) -> list[str]:
    """What a reader of the coefficients should know."""
    design, stage = asked.design, asked.stage
    flat = [repr(design.names[place]) for place in design.flat]
    lines = [
        f"feature {name} does not vary in the training rows, so it has no coefficient. Leave it out by exclude." for name in flat[:_FEW]
    ]
    if len(flat) > _FEW:  # the words of a text are thousands
        lines = [
            f"{len(flat)} features do not vary in the training rows, so they have no coefficient: {', '.join(flat[:_FEW])} and others."
        ]
    lines += [
        f"feature {design.named(at)} is a sum of features before it in the training rows, so it has no coefficient of its own. "
        "Leave it out by exclude, or set l2."
        for at in dropped(asked, fit)
    ]
    if fit.ended in ("rounds used up", "no way down"):
        lines.append(
            f"the solver of {stage.target!r} had not converged after {fit.rounds} rounds ({fit.ended}). Raise rounds, or tolerance "
            f"from {stage.tolerance:g}."
        )
    return lines


def dropped(asked: Setting, fit: Fit) -> Sequence[int]:
    """Places of the columns that were asked for and have no coefficient."""
    design, here = fit.setting.design, asked.design
    columns = set(zip(design.places.tolist(), np.nan_to_num(design.codes, nan=-1).tolist(), strict=True))
    asks = zip(here.places.tolist(), np.nan_to_num(here.codes, nan=-1).tolist(), strict=True)
    return [at for at, column in enumerate(asks) if column not in columns]


def metric_of(family: Family) -> str:
    """What the mean loss is told as."""
    return {"normal": "rmse", "poisson": "deviance", "gamma": "deviance"}.get(family, "log_loss")


def told(family: Family, loss: float) -> float:
    """A mean loss as its metric: half the mean squared error as its root, half the deviance as all of it."""
    if family == "normal":
        return float(np.sqrt(2 * loss))
    return 2 * loss if family in ("poisson", "gamma") else loss
