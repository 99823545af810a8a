"""Square systems solved by factors in one precision and answers in another, wherever their blocks of columns lie. Not a stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.errors import DataError
from pipeline.kernels.block_lu import Block, Panel, probes, substituted, updated
from pipeline.kernels.powers_of_two import divided, exponents, is_middle
from pipeline.stage import Context
from pipeline.stages.science._systems import Equations, Kind, Scales, Strip, singular, solution_of, stacked, steady

Array = Any
LEAST_SINGLE = 1_000
"""Unknowns from which on factors are tried in float32: those of fewer take no time."""
ENOUGH = 2.0**-52
"""Backward error of answers that are refined once more and no further. LAPACK's are at 1e-15 for some thousand unknowns."""
LEAST_GAIN = 0.25
"""What a refinement leaves of the backward error at most: from where it leaves more, float32 holds too few digits of the matrix."""


class Missed(NamedTuple):
    """By how much answers miss right-hand sides, `left: float64[rows, q]`, and the sum of the squares of these, `right: float64[q]`."""

    left: Array
    right: Array


class Factors(NamedTuple):
    """Futures: panels of L and U, the sum of squares of the coefficients, and right-hand sides with the probes, `float64[n, q + 20]`."""

    panels: list[Any]
    squares: Any
    right: Any


class Laid(Protocol):
    """Equations where they can be factored, once they are scaled."""

    def factored(self, kind: Kind) -> Factors:
        """In float32 or float64."""

    def answers(self, panels: list[Any], right: Any) -> Any:
        """A future of A^-1 B, `float64[n, k]`, by these panels; NaN where a panel of float32 has a pivot of 0.

        The task raises DataError where one of float64 has.
        """

    def missed(self, answers: Any) -> list[Any]:
        """Futures of what is `Missed`, by strips of rows."""


def solved(laid: Laid, about: Equations, sizes: Any, context: Context) -> tuple[Any, Any]:
    """Futures of the solution and of the backward error, of as many equations as unknowns. May wait for answers that are refined."""
    submit, name = context.session.submit, context.name
    found = _by_single(laid, context) if len(about.own) >= LEAST_SINGLE else None
    if found is not None:
        answers, squares, error = found
        return submit(solution_of, answers, squares, sizes, about, stage=name), error
    panels, squares, right = laid.factored(np.float64)
    answers = laid.answers(panels, right)
    solution = submit(solution_of, answers, squares, sizes, about, stage=name)  # and its condition, which is told first
    return solution, submit(_checked, submit(_backward_error, answers, squares, *laid.missed(answers), stage=name), stage=name)


def _by_single(laid: Laid, context: Context) -> tuple[Any, Any, float] | None:
    """The answers that factors in float32 and residuals in float64 come to, the matrix's squares, and the backward error; None without.

    Factoring takes half the time then, and half of what workers send one another (Langou et al. 2006, Proc SC; LAPACK's dsgesv).
    """
    submit, value, name = context.session.submit, context.session.value, context.name
    panels, squares, right = laid.factored(np.float32)
    answers, last = laid.answers(panels, right), np.inf
    while True:
        missed = laid.missed(answers)
        error = value(submit(_backward_error, answers, squares, *missed, stage=name))
        if last <= ENOUGH:  # once more than that: each number of the answers has its own last digits, beside larger ones
            return answers, squares, error
        if not error < LEAST_GAIN * last:
            return None
        last, step = error, laid.answers(panels, submit(_lefts, *missed, stage=name))
        answers = submit(_added, answers, step, stage=name)


def with_probes(*right: Array) -> Array:
    """Right-hand sides of all rows, and beside them the probes."""
    rows = stacked(right)
    return np.concatenate([rows, probes(len(rows))], axis=1)


def first_block(right: Array, kind: Kind) -> Block:
    """A block of right-hand sides, whose columns are made of size 1 for what float32 holds: `with_size_of` gives them theirs again."""
    return Block((), divided(right, 0, _column_sizes(right)).astype(kind))


def with_size_of(right: Array, sides: Sequence[Array]) -> Array:
    """Answers to `first_block(right)`, which lie in pieces, as those to `right`."""
    return divided(stacked(sides).astype(np.float64), 0, -_column_sizes(right))


def _column_sizes(right: Array) -> Array:
    return steady(exponents(abs(right).max(axis=0, initial=0.0)))


def answers_by(block: Block, there: Iterable[Panel], back: Iterable[Panel], right: Array, about: Equations) -> Array:
    """A^-1 B, `float64[n, k]`, in one task: `first_block(right)` after all panels, and back through them from the last one on."""
    for panel in there:
        block = updated(panel, block)
    sides = block.above
    for panel in back:
        sides = with_unknowns_of(panel, sides, about)
    return with_size_of(right, sides)


def with_unknowns_of(panel: Panel, sides: Sequence[Array], about: Equations) -> tuple[Array, ...]:
    """Right-hand sides once a panel's unknowns stand in them: NaN where a panel of float32 has no pivot.

    Raises DataError, with a column's name, where one of float64 has none.
    """
    if panel.zero >= 0 and panel.upper.dtype == np.float64:
        raise singular(about.own[panel.zero])
    if panel.zero >= 0:
        return tuple(array_module(side).full(side.shape, np.nan) for side in sides)
    with np.errstate(over="ignore", invalid="ignore"):
        return substituted(panel, sides)


def missed_by(strip: Strip, about: Equations, sizes: Scales, scaled: Array) -> Missed:
    """Of a strip's equations, scaled; the first of `scaled: float64[n, q + 20]` are the answers."""
    (values, rows), by, unknowns = strip, steady(sizes.by_row), len(about.own)
    answers = scaled[:, : len(about.right)]
    with np.errstate(over="ignore", invalid="ignore"):
        if is_middle(rows) and is_middle(by):  # the answers are scaled, and not all the coefficients
            right, answers = divided(values[:, unknowns:], rows, by[unknowns:]), divided(answers, by[:unknowns, None])
            left = right - divided(values[:, :unknowns] @ answers, rows)
        else:
            values = divided(values, rows, by)
            right = values[:, unknowns:]
            left = right - values[:, :unknowns] @ answers
        return Missed(left, (right**2).sum(axis=0))


def _lefts(*missed: Missed) -> Array:
    return np.concatenate([one.left for one in missed])


def _added(scaled: Array, step: Array) -> Array:
    """Answers, of which those to right-hand sides are so much more."""
    found = scaled.copy()
    found[:, : step.shape[1]] += step
    return found


def _backward_error(scaled: Array, squares: float, *missed: Missed) -> float:
    """The largest |b - A x| / (|A| |x| + |b|) of a right-hand side (Rigal & Gaches 1967); infinite where an answer is no number."""
    with np.errstate(over="ignore", invalid="ignore"):
        left, right = (_lefts(*missed) ** 2).sum(axis=0) ** 0.5, sum(one.right for one in missed) ** 0.5
        size = np.sqrt(squares) * np.sqrt((scaled[:, : len(left)] ** 2).sum(axis=0)) + right
    if not np.isfinite(left).all() or not np.isfinite(size).all():
        return float("inf")
    return float(np.divide(left, size, out=np.zeros_like(left), where=size > 0).max(initial=0.0))


def _checked(error: float) -> float:
    """Raise DataError where answers miss by more than rounding."""
    if error > 1e-10:
        raise DataError(
            f"the solution misses the equations by {error:.1e} of their size: rounding grew. Use method: least_squares.", key="method"
        )
    return error
