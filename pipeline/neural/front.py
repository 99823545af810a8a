"""What stands before a network's dense layers: convolutions of an image, and the mean of a text's n-grams (Flax)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from flax import linen as nn

Array = Any

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": nn.relu, "gelu": nn.gelu, "silu": nn.silu, "tanh": nn.tanh}


@dataclass(frozen=True)
class Picture:
    """An image's size, and the convolutions that it goes through: filters of each, rows and columns of a filter, and of what is pooled."""

    height: int
    width: int
    channels: int
    convolutions: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(told: dict[str, Any]) -> Picture:
        """As it stands in a file of JSON."""
        convolutions = tuple((int(filters), int(size), int(pool)) for filters, size, pool in told["convolutions"])
        return Picture(told["height"], told["width"], told["channels"], convolutions)

    @property
    def size(self) -> int:
        """Numbers of an image."""
        return self.height * self.width * self.channels

    @property
    def largest(self) -> int:
        """Numbers of an image in its largest layer."""
        height, width, most = self.height, self.width, self.size
        for filters, _, pool in self.convolutions:
            most, height, width = max(most, height * width * filters), height // pool, width // pool
        return most


class Convolutions(nn.Module):
    """Convolutions that keep an image's size (around it is 0, the mean), each followed by the activation and the greatest of each pool."""

    picture: Picture
    activation: str
    dtype: str

    def setup(self) -> None:
        """A layer each."""
        self.convolutions = [nn.Conv(filters, (size, size), dtype=self.dtype) for filters, size, _ in self.picture.convolutions]

    def __call__(self, pixels: Array) -> Array:
        """What comes out [rows, numbers], of pixels [rows, height x width x channels]."""
        values = pixels.reshape(-1, self.picture.height, self.picture.width, self.picture.channels)
        for convolution, (_, _, pool) in zip(self.convolutions, self.picture.convolutions, strict=True):
            values = ACTIVATIONS[self.activation](convolution(values))
            if pool > 1:
                values = nn.max_pool(values, (pool, pool), (pool, pool))
        return values.reshape(len(pixels), -1)


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
