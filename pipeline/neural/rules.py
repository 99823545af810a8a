"""How a network's parameters step: optimizer, learning rate over the steps, weight decay and clipping (Optax)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

Array = Any
Tree = Any


@dataclass(frozen=True)
class Rule:
    """An optimizer (adamw, sgd) with its numbers. Of all `steps` the first `warmup` rise to the rate."""

    optimizer: str
    learning_rate: float
    momentum: float
    weight_decay: float
    schedule: str
    steps: int
    warmup: int

    def made(self) -> optax.GradientTransformation:
        """The rule as Optax's transformation of gradients. Weights and embeddings decay, biases do not."""
        rate = self.rates()
        if self.optimizer == "adamw":
            return optax.adamw(rate, weight_decay=self.weight_decay, mask=_decaying)
        decay = optax.add_decayed_weights(self.weight_decay, mask=_decaying)
        return optax.chain(decay, optax.sgd(rate, momentum=self.momentum or None))

    def rates(self) -> optax.Schedule:
        """The learning rate of each step."""
        rest = max(self.steps - self.warmup, 1)
        main = (
            optax.cosine_decay_schedule(self.learning_rate, rest)
            if self.schedule == "cosine"
            else optax.constant_schedule(self.learning_rate)
        )
        return optax.join_schedules([optax.linear_schedule(0.0, self.learning_rate, self.warmup), main], [self.warmup])


def clipped(gradients: Tree, limit: float | None, squares: Array | None = None) -> Tree:
    """The gradients, as short as `limit` where they are longer; `squares` is their squared length where it is known."""
    if limit is None:
        return gradients
    length = optax.tree.norm(gradients) if squares is None else jnp.sqrt(squares)
    factor = jnp.minimum(1.0, limit / jnp.maximum(length, 1e-12))
    return jax.tree.map(lambda gradient: gradient * factor, gradients)


def _decaying(parameters: dict[str, Array]) -> dict[str, bool]:
    return {name: not name.endswith("bias") for name in parameters}
