"""Minimizing the mean loss of rows that are summed elsewhere: Newton's method, where absolute values may be penalized, and L-BFGS.

A solver is a frozen state: it says where it wants the sums (`trial`), and `advanced` by them it is the next state. Newton's steps are the
minimum of the penalized quadratic (Lee, Sun & Saunders 2014, SIAM J Optim 24:1420-1443); L-BFGS as in Nocedal & Wright (2006), ch. 7.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.kernels.coordinate_descent import lasso_minimum
from pipeline.kernels.generalized_linear import LossSums

Array = np.ndarray[Any, Any]

SUFFICIENT = 1e-4  # of what a step promises
FLAT = 1e-13  # of the value, that rounding takes from a step near the minimum
SHORTEST = 2.0**-30  # of a step
SMALL_STEP = 1e-6
PATIENCE = 4  # rounds with no slope left and steps that do not shrink, after which nothing holds the coefficients
MEMORY = 20  # pairs of L-BFGS


@dataclass(frozen=True)
class Problem:
    """Penalties a coefficient, `float64[k]` each, on absolute values and on half the squares of coefficients `[c, m]`, output by output.

    `tied` are places of coefficients that all can move by one number without any effect, and are held to a sum of 0. The slope ends at
    `tolerance`.
    """

    shape: tuple[int, int]
    l1: Array
    l2: Array
    tolerance: float
    tied: tuple[int, ...] = ()
    newton: bool = True

    def slopes_left(self, point: Array, gradient: Array) -> float:
        """How far the steepest slope is from that of a minimum."""
        signed = np.abs(gradient + self.l1 * np.sign(point))
        return float(np.where((point != 0) | (self.l1 == 0), signed, np.maximum(np.abs(gradient) - self.l1, 0.0)).max(initial=0.0))


@dataclass(frozen=True)
class Reached:
    """A point `[k]`, its mean loss with penalties, and the smooth part's gradient and Hessian there."""

    point: Array
    value: float
    gradient: Array
    hessian: Array | None
    sums: LossSums


@dataclass(frozen=True)
class Solver:
    """Where a minimization stands after so many `rounds`; `done` says why it ended, '' while it goes on."""

    problem: Problem
    trial: Array
    at: Reached | None = None
    direction: Array | None = None
    slope: float = 0.0
    share: float = 1.0
    rounds: int = 0
    done: str = ""
    left: float = np.inf
    steps: tuple[float, ...] = ()
    pairs: deque[tuple[Array, Array]] = field(default_factory=lambda: deque(maxlen=MEMORY))

    @property
    def coefficients(self) -> Array:
        """Where the sums are wanted, `[c, m]`."""
        return matrix(self.trial, self.problem.shape)

    def advanced(self, sums: LossSums) -> Solver:
        """The next state, by the sums at `trial`."""
        reached = self._reached(sums)
        if self.at is not None and not self._good(reached):
            return self._shortened()
        return self._stepped(reached)

    def _reached(self, sums: LossSums) -> Reached:
        problem, point = self.problem, self.trial
        with np.errstate(all="ignore"):
            value = sums.loss / sums.weight + float((problem.l1 * np.abs(point)).sum() + (problem.l2 * point**2).sum() / 2)
            gradient = sums.gradient.T.ravel() / sums.weight + problem.l2 * point
        hessian = None if sums.hessian is None else sums.hessian / sums.weight + np.diag(problem.l2)
        return Reached(point, value, gradient, hessian, sums)

    def _good(self, reached: Reached) -> bool:
        """Whether the step went down as it should, or as far as rounding lets one see."""
        assert self.at is not None
        if not (np.isfinite(reached.value) and np.isfinite(reached.gradient).all()):
            return False
        enough = self.at.value + SUFFICIENT * self.share * self.slope
        return reached.value <= enough or (
            reached.value <= self.at.value + FLAT * (1 + abs(self.at.value))
            and self.problem.slopes_left(reached.point, reached.gradient) <= self.left
        )

    def _shortened(self) -> Solver:
        """Half the step; the end where it is none any more."""
        assert self.at is not None
        assert self.direction is not None
        share = self.share / 2
        done = "no way down" if share < SHORTEST else ""
        return replace(self, share=share, trial=self.at.point + share * self.direction, rounds=self.rounds + 1, done=done)

    def _stepped(self, reached: Reached) -> Solver:
        """A new direction from where the trial has come."""
        problem, pairs = self.problem, self.pairs
        if self.at is not None and not problem.newton:
            moved, turned = reached.point - self.at.point, reached.gradient - self.at.gradient
            if moved @ turned > 0:
                pairs = deque([*pairs, (moved, turned)], maxlen=MEMORY)
        direction = newton_direction(problem, reached) if problem.newton else quasi_newton_direction(reached.gradient, pairs)
        there = reached.point + direction
        slope = float(reached.gradient @ direction + (problem.l1 * (np.abs(there) - np.abs(reached.point))).sum())
        left = problem.slopes_left(reached.point, reached.gradient)
        size = float((np.abs(direction) / (1 + np.abs(reached.point))).max(initial=0.0))
        flat = left <= problem.tolerance
        steps = (*self.steps, size) if flat else ()
        found = Solver(problem, there, reached, direction, slope, 1.0, self.rounds + 1, "", left, steps, pairs)
        if flat and (not problem.newton or size <= SMALL_STEP):
            return replace(found, done="converged")
        if len(steps) > PATIENCE and all(after > before / 4 for before, after in pairwise(steps)):
            return replace(found, done="diverged")
        return found


def matrix(point: Array, shape: tuple[int, int]) -> Array:
    """A point `[k]` as coefficients `[c, m]`."""
    return point.reshape(shape[1], shape[0]).T


def newton_direction(problem: Problem, at: Reached) -> Array:
    """From a point to the minimum of its quadratic with the penalties."""
    assert at.hessian is not None
    hessian = at.hessian
    if problem.tied:
        tie = np.zeros(len(at.point))
        tie[list(problem.tied)] = 1
        hessian = hessian + np.outer(tie, tie)
    if problem.l1.any():
        return lasso_minimum(hessian, hessian @ at.point - at.gradient, problem.l1, at.point) - at.point
    return solved(hessian, -at.gradient)


def quasi_newton_direction(gradient: Array, pairs: deque[tuple[Array, Array]]) -> Array:
    """Downwards by the curvature that the last steps met: the two loops."""
    found, kept = -gradient, []
    for moved, turned in reversed(pairs):
        share = (moved @ found) / (moved @ turned)
        found = found - share * turned
        kept.append(share)
    if pairs:
        moved, turned = pairs[-1]
        found = found * ((moved @ turned) / (turned @ turned))
    else:
        found = found / max(1.0, float(np.abs(gradient).sum()))
    for (moved, turned), share in zip(pairs, reversed(kept), strict=True):
        found = found + moved * (share - (turned @ found) / (moved @ turned))
    return found


def solved(matrix: Array, right: Array) -> Array:
    """The answer to equations of a matrix without curvature below 0; the shortest one where there are several."""
    from scipy.linalg import cho_factor, cho_solve

    try:
        found: Array = cho_solve(cho_factor(matrix, check_finite=False), right, check_finite=False)
    except np.linalg.LinAlgError:
        found = np.linalg.lstsq(matrix, right, rcond=None)[0]
    return found
