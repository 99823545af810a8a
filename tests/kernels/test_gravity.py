from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels import gravity
from pipeline.kernels.gravity import accelerations, moved_on, potentials, run_on, set_out

RNG = np.random.default_rng(2)
PLACES, PULL = RNG.normal(size=(130, 3)), RNG.uniform(0.1, 2, 130)


@pytest.mark.parametrize("softening", [0.0, 0.3])
def test_accelerations_and_potentials__are_sums_over_the_others(softening: float) -> None:
    apart = PLACES[None] - PLACES[:, None]
    size = np.sqrt((apart**2).sum(axis=2) + softening**2)
    np.fill_diagonal(size, np.inf)
    np.testing.assert_allclose(
        accelerations(0, 130, PLACES, PULL, softening), ((PULL / size**3)[:, :, None] * apart).sum(axis=1), rtol=1e-11
    )
    np.testing.assert_allclose(potentials(0, 130, PLACES, PULL, softening), -(PULL / size).sum(axis=1), rtol=1e-13)


@pytest.mark.parametrize("softening", [0.0, 0.3])
def test_compiled__gives_what_arrays_give_and_the_same_bits_in_any_block(monkeypatch: pytest.MonkeyPatch, softening: float) -> None:
    plain = accelerations(0, 130, PLACES, PULL, softening), potentials(0, 130, PLACES, PULL, softening)
    monkeypatch.setattr(gravity, "MANY", 130)
    found = accelerations(0, 130, PLACES, PULL, softening), potentials(0, 130, PLACES, PULL, softening)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)
    assert (accelerations(37, 70, PLACES, PULL, softening) == found[0][37:107]).all()
    assert (potentials(37, 70, PLACES, PULL, softening) == found[1][37:107]).all()


def test_accelerations__are_the_slope_of_the_potential() -> None:
    moved = np.concatenate([PLACES, [[0.2, -0.1, 0.4]]])
    pull = np.append(PULL, 0.0)
    (found,) = accelerations(130, 1, moved, pull, 0.1)
    for way in range(3):
        sides = []
        for shift in (1e-5, -1e-5):
            there = moved.copy()
            there[130, way] += shift
            sides.append(potentials(130, 1, there, pull, 0.1)[0])
        assert (sides[1] - sides[0]) / 2e-5 == pytest.approx(found[way], rel=1e-6)


def test_blocks__give_the_same_bits_as_all() -> None:
    velocities = RNG.normal(size=(130, 3))
    whole = set_out(0, velocities, PLACES, PULL, 0.1, 0.01)
    places, (expected, there) = whole.places, run_on(whole, 2, PULL, 0.1, 0.01)
    motions = [set_out(low, velocities[low:high], PLACES, PULL, 0.1, 0.01) for low, high in ((0, 41), (41, 130))]
    for _ in range(2):
        places = np.concatenate([motion.places for motion in motions])
        motions = [moved_on(low, motion.half, places, PULL, 0.1, 0.01) for low, motion in zip((0, 41), motions, strict=True)]
    np.testing.assert_array_equal(there, places)
    np.testing.assert_array_equal(expected.velocities, np.concatenate([motion.velocities for motion in motions]))
