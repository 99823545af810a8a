from __future__ import annotations

import numpy as np
import pytest
from scipy.fft import dctn, dstn, fftn, idctn, idstn, ifftn

from pipeline.kernels.heat_steps import Rim, heat_steps, largest_step

RNG = np.random.default_rng(9)
GRID = RNG.normal(size=(24, 17))
RATES = (0.21, 0.17)


def known(grid: np.ndarray, rim: Rim, steps: int) -> np.ndarray:
    """The same steps by the eigenvectors of the stencil, in the basis of sines, cosines or waves."""
    height, width = grid.shape
    if rim == "fixed":  # of a rim of zeros
        there, back, (k, j) = dstn, idstn, np.mgrid[1 : height - 1, 1 : width - 1]
        angles, inner = (np.pi * k / (height - 1) / 2, np.pi * j / (width - 1) / 2), grid[1:-1, 1:-1]
    elif rim == "insulated":
        there, back, (k, j) = dctn, idctn, np.mgrid[:height, :width]
        angles, inner = (np.pi * k / height / 2, np.pi * j / width / 2), grid
    else:
        there, back, (k, j) = fftn, ifftn, np.mgrid[:height, :width]
        angles, inner = (np.pi * k / height, np.pi * j / width), grid
    kind = {} if rim == "periodic" else {"type": 1 if rim == "fixed" else 2}
    factor = (1 - 4 * RATES[1] * np.sin(angles[0]) ** 2 - 4 * RATES[0] * np.sin(angles[1]) ** 2) ** steps
    found = np.real(back(there(inner, **kind) * factor, **kind))
    return np.pad(found, 1) if rim == "fixed" else found


def start(rim: Rim) -> np.ndarray:
    return np.pad(GRID[1:-1, 1:-1], 1) if rim == "fixed" else GRID


@pytest.mark.parametrize("rim", ["fixed", "insulated", "periodic"])
@pytest.mark.parametrize("steps", [1, 5, 12])
def test_steps__are_those_of_the_closed_form(rim: Rim, steps: int) -> None:
    grid = start(rim)
    above, below = (grid[-steps:], grid[:steps]) if rim == "periodic" else (None, None)
    np.testing.assert_allclose(heat_steps(grid, above, below, RATES, steps, rim), known(grid, rim, steps), atol=1e-13)


@pytest.mark.parametrize("rim", ["fixed", "insulated", "periodic"])
def test_strips__give_the_same_bits_as_the_whole(rim: Rim) -> None:
    grid = start(rim) + 3.0
    ends = (grid[-5:], grid[:5]) if rim == "periodic" else (None, None)
    whole = heat_steps(grid, ends[0], ends[1], RATES, 5, rim)
    parts = [grid[:6], grid[6:15], grid[15:]]
    found = []
    for at, part in enumerate(parts):
        above = parts[at - 1][-5:] if at or rim == "periodic" else None
        below = parts[(at + 1) % 3][:5] if at < 2 or rim == "periodic" else None
        found.append(heat_steps(part, above, below, RATES, 5, rim))
    np.testing.assert_array_equal(np.concatenate(found), whole)
    assert (np.random.default_rng(9).normal(size=(24, 17)) == GRID).all()  # what is given stays as it is


def test_largest_step__is_where_the_quickest_wave_begins_to_grow() -> None:
    step = largest_step(2.0, 0.1, 0.3)
    assert 4 * 2.0 * step * (0.1**-2 + 0.3**-2) == pytest.approx(2.0)
