"""Loss scaling: gradients in float16 are computed so many times as great that they do not vanish (Micikevicius et al., ICLR 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from pipeline.neural.perceptron import Perceptron
from pipeline.neural.rules import clipped

Array = Any
Tree = Any

FIRST, LEAST, MOST = 2.0**15, 1.0, 2.0**24
GOOD_STEPS = 1_000  # after so many without a gradient that is no finite number the scale doubles


class Scaling(NamedTuple):
    """By how much gradients are greater now, how many good steps there were since that was changed, and how many were skipped."""

    scale: Array
    good: Array
    skipped: Array

    def after(self, good: Array) -> Scaling:
        """After a step, by whether all its gradients were finite numbers: half as great where they were not."""
        grown = self.good + 1 >= GOOD_STEPS
        scale = jnp.where(good, jnp.where(grown, self.scale * 2, self.scale), self.scale / 2)
        steps = jnp.where(good & ~grown, self.good + 1, 0)
        return Scaling(jnp.clip(scale, LEAST, MOST), steps, self.skipped + jnp.where(good, 0, 1))


Scales = Scaling | tuple[()]
"""No scaling is an empty tuple: arithmetic whose gradients do not vanish needs none."""


def scaling_of(network: Perceptron) -> Scales:
    """What training begins with."""
    return Scaling(jnp.float32(FIRST), jnp.int32(0), jnp.int32(0)) if network.dtype == "float16" else ()


def skipped_steps(scales: Scales) -> int:
    """How many steps were skipped."""
    return int(scales.skipped) if scales else 0


def raised(rows: dict[str, Array], scales: Scales) -> dict[str, Array]:
    """A batch whose gradients are so many times as great: its rows weigh more."""
    return {**rows, "weighs": rows["weighs"] * scales.scale} if scales else rows


def lowered(gradients: Tree, squares: Array, scales: Scales) -> tuple[Tree, Array]:
    """Gradients, and their squared length, as they are without the scale."""
    if not scales:
        return gradients, squares
    return jax.tree.map(lambda array: array / scales.scale, gradients), squares / scales.scale**2


def updated(
    transform: optax.GradientTransformation, clip: float | None, state: tuple[Tree, Tree, Scales], gradients: Tree, squares: Array
) -> tuple[Tree, Tree, Scales]:
    """Parameters, the optimizer's state and the scale after a step by gradients of that squared length.

    With a scale, gradients that are no finite numbers change nothing but the scale: the step is skipped.
    """
    parameters, inner, scales = state
    changes, stepped = transform.update(clipped(gradients, clip, squares), inner, parameters)
    found = optax.apply_updates(parameters, changes), stepped
    if not scales:
        return *found, scales
    good = jnp.isfinite(squares)
    kept = jax.tree.map(lambda new, old: jnp.where(good, new, old), found, (parameters, inner))
    return *kept, scales.after(good)
