"""The heat equation on a grid, dT/dt = a (d2T/dx2 + d2T/dy2), by explicit steps of the five-point stencil (FTCS).

A step gives every cell (1 - 2 rx - 2 ry) T + rx (left + right) + ry (above + below) with r = a dt / d^2. It is stable while rx + ry <= 1/2;
the error of a step is of the second order in the distances and of the first in time, so of the second order where dt goes with d^2
(Strikwerda 2004, Finite Difference Schemes, 6.3). A strip of rows takes k steps at once with k rows of its neighbours on either side: of
these one row a step goes stale, and none of its own.
"""

from __future__ import annotations

from typing import Any, Literal

from pipeline.backend.arrays import array_module

Array = Any
Rim = Literal["fixed", "insulated", "periodic"]


def largest_step(diffusivity: float, dx: float, dy: float) -> float:
    """The largest stable time step."""
    return 0.5 / (diffusivity * (dx**-2 + dy**-2))


def heat_steps(strip: Array, above: Array | None, below: Array | None, rates: tuple[float, float], steps: int, rim: Rim) -> Array:
    """A strip `float64[h, w]` after so many steps; `above` and `below` are as many rows of its neighbours, None at the rim of the grid.

    `rates` are rx along rows and ry across them. At the rim a `fixed` cell keeps its temperature, and nothing flows through an `insulated`
    one; `periodic` rows join end to end, and so then do the strips. Cells come out the same however the grid is cut into strips.
    """
    xp, (rx, ry) = array_module(strip), rates
    upper, lower = (0 if rows is None else len(rows) for rows in (above, below))
    grid = xp.concatenate([rows for rows in (above, strip, below) if rows is not None])
    height, width = grid.shape
    now = xp.empty((height + 2, width + 2))
    now[1:-1, 1:-1] = grid
    then, inner, across = now.copy(), xp.empty(grid.shape), xp.empty(grid.shape)
    for _ in range(steps):
        _surround(now, rim)
        xp.add(now[1:-1, :-2], now[1:-1, 2:], out=across)
        xp.add(now[:-2, 1:-1], now[2:, 1:-1], out=inner)
        across *= rx
        inner *= ry
        inner += across
        xp.multiply(now[1:-1, 1:-1], 1 - 2 * rx - 2 * ry, out=across)
        xp.add(inner, across, out=then[1:-1, 1:-1])
        if rim == "fixed":
            _hold(then, now, above is None, below is None)
        now, then = then, now
    return now[1 + upper : 1 + height - lower, 1:-1].copy()


def _surround(grid: Array, rim: Rim) -> None:
    """Cells beyond the rim: the nearest of the grid, or of periodic rows the other end. Rows beyond a neighbour's go stale anyway."""
    grid[0], grid[-1] = grid[1], grid[-2]
    near, far = (-2, 1) if rim == "periodic" else (1, -2)
    grid[:, 0], grid[:, -1] = grid[:, near], grid[:, far]


def _hold(then: Array, now: Array, top: bool, bottom: bool) -> None:
    """Cells of the rim as they were."""
    then[1:-1, 1], then[1:-1, -2] = now[1:-1, 1], now[1:-1, -2]
    if top:
        then[1] = now[1]
    if bottom:
        then[-2] = now[-2]
