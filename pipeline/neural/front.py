"""What stands before a network's dense layers beside its embeddings: the mean of a text's n-grams (Flax)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import linen as nn

Array = Any


class Bag(nn.Module):
    """The mean of the embeddings of a text's n-grams (Joulin et al. 2017), float32 whatever follows; of none, zeros."""

    rows: int
    width: int

    @nn.compact
    def __call__(self, codes: Array) -> Array:
        """Float32 [rows, width] of codes int32 [rows, n-grams], 0 where there is no n-gram."""
        table = self.param("embedding", nn.initializers.zeros_init(), (self.rows, self.width))
        there = (codes > 0).astype(jnp.float32)
        added = (table[codes] * there[:, :, None]).sum(axis=1)
        return added / jnp.maximum(there.sum(axis=1, keepdims=True), 1)
