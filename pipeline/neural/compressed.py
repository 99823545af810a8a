"""Gradients summed over devices in fewer bytes; what is left out of one step goes into the next (error feedback, Seide et al. 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

Array = Any

TINY = 1e-30
LEVELS = 127  # of 8 bits with a sign


@dataclass(frozen=True)
class Compression:
    """How gradients are sent: `top_k` sends the `share` of values that are greatest, `int8` all of them in 8 bits and a scale."""

    kind: str
    share: float = 0.01

    def summed(self, gradient: Array, left: Array, devices: int) -> tuple[Array, Array]:
        """The sum over the axis `data` of what devices send, float32 [size], and what of the gradient and of `left` was not sent."""
        return (self._greatest if self.kind == "top_k" else _rounded)(gradient + left, devices)

    def _greatest(self, wanted: Array, devices: int) -> tuple[Array, Array]:
        """Values and their places from each device (Aji & Heafield 2017)."""
        count = max(1, round(self.share * wanted.size))
        _, places = jax.lax.top_k(jnp.abs(wanted), count)
        sent = jax.lax.all_gather((wanted[places], places), "data")
        found = jnp.zeros_like(wanted).at[sent[1].ravel()].add(sent[0].ravel())
        return found, wanted.at[places].set(0)


def _rounded(wanted: Array, devices: int) -> tuple[Array, Array]:
    """Each device sums one piece of what all send, and sends the sum; what its rounding leaves is its own to send."""
    pieces = jnp.pad(wanted, (0, -wanted.size % devices)).reshape(devices, -1)
    levels, scales = _levels(pieces)
    theirs = jax.lax.all_to_all(levels, "data", 0, 0), jax.lax.all_to_all(scales, "data", 0, 0)
    mine = (theirs[0] * theirs[1]).sum(axis=0, keepdims=True)
    whole, scale = _levels(mine)
    left = (pieces - levels * scales).at[jax.lax.axis_index("data")].add((mine - whole * scale)[0])
    every = jax.lax.all_gather((whole[0], scale[0]), "data")
    return (every[0] * every[1]).ravel()[: wanted.size], left.ravel()[: wanted.size]


def _levels(pieces: Array) -> tuple[Array, Array]:
    """Each row in 8 bits, and its scale, float32 [rows, 1]."""
    scales = jnp.maximum(jnp.abs(pieces).max(axis=1, keepdims=True), TINY) / LEVELS
    return jnp.round(pieces / scales).astype(jnp.int8), scales
