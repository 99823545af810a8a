"""Gravity between bodies, softened (Plummer), and leapfrog steps: kick, drift, kick (Hockney & Eastwood 1988; Aarseth 2003, 2.2).

A body's acceleration is the sum over all others of G m d / (d^2 + e^2)^(3/2), and its potential that of -G m / (d^2 + e^2)^(1/2). Leapfrog
is of the second order and symplectic: energy swings about its value and does not drift away. A body's sums run over all others in their
order, so they are the same in whichever block of bodies it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes

Array = Any
BLOCK_BYTES = 1 << 17
"""Of one of some seven temporaries on a CPU, so that all of them lie in its second-level cache."""
TEMPORARIES = 7
MANY = 1_000
"""Bodies from which a compiled loop, which takes a while to load, is worth it."""


class Motion(NamedTuple):
    """Where some bodies are going: velocities `float64[b, 3]` now and half a step on, and places `float64[b, 3]` a step on."""

    velocities: Array
    half: Array
    places: Array


def accelerations(first: int, bodies: int, places: Array, pull: Array, softening: float) -> Array:
    """Of so many bodies from the first: `float64[b, 3]`, from places `float64[n, 3]` and G m `float64[n]` of all."""
    xp = array_module(places)
    found = xp.empty((bodies, 3))
    if _is_compiled(places):
        from pipeline.kernels.compiled.gravity import add_pulls

        add_pulls(first, np.ascontiguousarray(places), np.ascontiguousarray(pull), float(softening), found)
        return found
    for block in _blocks(bodies, places):
        apart, squares = _apart(first, block, places, softening, 1.0)
        weights = pull / (squares * xp.sqrt(squares))
        for way, distance in enumerate(apart):
            found[block, way] = (weights * distance).sum(axis=1)
    return found


def potentials(first: int, bodies: int, places: Array, pull: Array, softening: float) -> Array:
    """Of so many bodies from the first: `float64[b]`, that of a unit of mass at their places; arguments as for `accelerations`."""
    xp = array_module(places)
    found = xp.empty(bodies)
    if _is_compiled(places):
        from pipeline.kernels.compiled.gravity import add_potentials

        add_potentials(first, np.ascontiguousarray(places), np.ascontiguousarray(pull), float(softening), found)
        return found
    for block in _blocks(bodies, places):
        _, squares = _apart(first, block, places, softening, xp.inf)
        found[block] = -(pull / xp.sqrt(squares)).sum(axis=1)
    return found


def _is_compiled(places: Array) -> bool:
    """By the number of all bodies: a block's answer is the same however many blocks there are."""
    return array_module(places) is np and len(places) >= MANY


def _blocks(bodies: int, places: Array) -> Iterator[slice]:
    """Slices that cover the bodies, each beside all places."""
    step = max(4, block_bytes(places, TEMPORARIES * BLOCK_BYTES) // (8 * TEMPORARIES * len(places)))
    return (slice(start, min(start + step, bodies)) for start in range(0, bodies, step))


def _apart(first: int, block: slice, places: Array, softening: float, itself: float) -> tuple[list[Array], Array]:
    """Distances `float64[b, n]` along each way from bodies of a block to all, and squares with the softening: `itself` of a body's own."""
    xp = array_module(places)
    own = places[first + block.start : first + block.stop]
    apart = [places[None, :, way] - own[:, None, way] for way in range(3)]
    squares = apart[0] * apart[0]
    squares += apart[1] * apart[1]
    squares += apart[2] * apart[2]
    squares += softening**2
    at = xp.arange(len(own))
    squares[at, at + first + block.start] = itself
    return apart, squares


def set_out(first: int, velocities: Array, places: Array, pull: Array, softening: float, step: float) -> Motion:
    """The motion of some bodies from the first on at the start, from their velocities `float64[b, 3]` and the places of all."""
    some = len(velocities)
    half = velocities + accelerations(first, some, places, pull, softening) * (step / 2)
    return Motion(velocities, half, places[first : first + some] + half * step)


def moved_on(first: int, half: Array, places: Array, pull: Array, softening: float, step: float) -> Motion:
    """The motion a step later: velocities `half` a step before, `float64[b, 3]`, brought to the time of the places of all, and on."""
    some = len(half)
    kick = accelerations(first, some, places, pull, softening) * (step / 2)
    velocities = half + kick
    half = velocities + kick
    return Motion(velocities, half, places[first : first + some] + half * step)


def run_on(motion: Motion, steps: int, pull: Array, softening: float, step: float) -> tuple[Motion, Array]:
    """All bodies after more steps: their motion, and where they are `float64[n, 3]`."""
    places = motion.places
    for _ in range(steps):
        places = motion.places
        motion = moved_on(0, motion.half, places, pull, softening, step)
    return motion, places
