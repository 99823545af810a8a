"""Principal axes of scaled points: from the triangle of all parts, or by passes that multiply the parts with a few vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import DataError
from pipeline.kernels.principal_axes import Axes, axes_of, determined, triangle
from pipeline.kernels.randomized_pca import Krylov, krylov_start, krylov_step, ritz_pairs
from pipeline.kernels.sparse_columns import compact
from pipeline.stages.models._unsupervised.rows import training
from pipeline.stages.models._unsupervised.scaled import Measured
from pipeline.tables.part import Part

Array = Any
MOST = 10_000
"""Features of the exact method: a triangle of so many takes 800 MB."""
_HALF = 1e-7
"""A singular value below that share of the first is lost in a product of the rows with themselves, which has its square."""


@dataclass(frozen=True)
class Solved:
    """The axes of scaled points, and the residuals |Gv - value v| / value of a method that approximates, `float64[k]`."""

    axes: Axes
    residuals: Array


@dataclass(frozen=True)
class Products:
    """Passes of the randomized method under way: its basis, the rows to learn from, and their squares."""

    krylov: Krylov
    rows: int
    squares: float


@dataclass(frozen=True)
class ProductPasses:
    """A pass over the points to learn from, a part at a time: of the table's parts, or of what `learned_points` made of them."""

    split: str | None

    def sums(self, points: Part | Array, state: Products) -> tuple[Array, float]:
        """Z'ZV, and the sum of all squares where that is not known yet."""
        points = learned_points(points, self.split) if isinstance(points, Part) else points
        vectors = array_module(points).asarray(state.krylov.bases[-1])
        squares = 0.0 if state.squares else float((points * points).sum())
        return to_host(points.T @ (points @ vectors)), squares

    def added(self, found: Sequence[tuple[Array, float]]) -> tuple[Array, float]:
        """Over several parts."""
        return sum((product for product, _ in found[1:]), start=found[0][0]), sum(squares for _, squares in found)

    def next(self, state: Products, total: tuple[Array, float]) -> Products:
        """The basis after one more pass."""
        return Products(krylov_step(state.krylov, total[0] / state.rows), state.rows, state.squares or total[1])

    def is_done(self, state: Products) -> bool:
        """Whether the basis has nothing left to grow by."""
        return _width(state.krylov.bases[-1]) == 0

    def figures(self, state: Products) -> Mapping[str, float]:
        """Vectors of the basis."""
        return {"vectors": float(sum(_width(block) for block in state.krylov.bases))}


def learned_points(part: Part, split: str | None) -> Array:
    """The points of a part to learn from, `[n, d]`: those that are not 0 alone where they are few."""
    return compact(training(part, split)[0])


def triangle_of(part: Part, split: str | None) -> Array:
    """R of the rows to learn from, in the host's memory. Raises DataError for more features than it has room for."""
    points = training(part, split)[0]
    features = points.shape[1]
    if features > MOST:
        size = 8 * features**2 / 2**30
        text = f"the exact method would hold {features:,} x {features:,} numbers a task, {size:.1f} GiB; at most {MOST:,} features. "
        raise DataError(text + "Use method: randomized.", key="method")
    return to_host(triangle(points))


def exactly(found: Array, about: Measured, components: int) -> Solved:
    """The axes of the triangle. Raises DataError where there are more axes than features or rows."""
    _check(about, components)
    return Solved(axes_of(found, components), np.zeros(components))


def begun(found: Measured, components: int, seed: int) -> Products:
    """Random vectors, the same for the same seed. Raises DataError where there are more axes than features or rows."""
    _check(found, components)
    return Products(krylov_start(len(found.moments.mean), components, seed), found.moments.rows, 0.0)


def nearly(state: Products, components: int) -> Solved:
    """The best axes that the passes hold."""
    values, vectors, residuals = (to_host(value) for value in ritz_pairs(state.krylov, components))
    singular = np.sqrt(np.maximum(values, 0) * state.rows)
    singular = np.where(singular > _HALF * singular.max(initial=0.0), singular, 0.0)
    axes = determined(singular, vectors, components, state.squares)
    residuals = np.pad(residuals, (0, components - len(residuals)))
    return Solved(axes, np.where(axes.singular > 0, residuals, 0.0))


def _check(found: Measured, components: int) -> None:
    rows, features = found.moments.rows, len(found.moments.mean)
    if components > min(rows, features):
        text = f"{components:,} axes of {features:,} features and {rows:,} rows to learn from; ask for at most as many"
        raise DataError(text, key="components")


def _width(block: Array) -> int:
    return int(block.shape[1])
