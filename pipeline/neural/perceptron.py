"""The network of a table: embeddings of its categories and texts beside its numbers, then dense layers (Flax)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict

from pipeline.neural.chance import kept
from pipeline.neural.front import ACTIVATIONS, Bag, Convolutions, Picture

Array = Any
Tree = Any
Parameters = dict[str, Array]
"""Arrays by the path of their layer: `layers_0/kernel`."""


@dataclass(frozen=True)
class Shape:
    """What a network looks like: how many numbers it takes, rows and width of each category's embedding, width of each hidden layer, and
    how many numbers it gives. `texts` are rows and width of the embedding of each text's n-grams, and how many of these a text has.
    The first numbers are the pixels of the `picture`, where there is one."""

    numbers: int
    embeddings: tuple[tuple[int, int], ...]
    layers: tuple[int, ...]
    outputs: int
    activation: str = "relu"
    texts: tuple[tuple[int, int, int], ...] = ()
    picture: Picture | None = None

    @staticmethod
    def of(told: dict[str, Any]) -> Shape:
        """As `told` wrote it down."""
        embeddings = tuple((int(rows), int(width)) for rows, width in told["embeddings"])
        texts = tuple((int(rows), int(width), int(grams)) for rows, width, grams in told.get("texts", ()))
        picture = Picture.of(told["picture"]) if told.get("picture") else None
        return Shape(told["numbers"], embeddings, tuple(told["layers"]), told["outputs"], told["activation"], texts, picture)

    def told(self) -> dict[str, Any]:
        """For a file of JSON."""
        return asdict(self)

    @property
    def codes(self) -> list[int]:
        """How many columns of codes each category has, and each text after them."""
        return [1] * len(self.embeddings) + [grams for _, _, grams in self.texts]

    @property
    def tables(self) -> list[str]:
        """The parameters that are embeddings: of each category, and of each text after them."""
        return [
            f"{kind}_{place}/embedding" for kind, of in (("embeddings", self.embeddings), ("texts", self.texts)) for place in range(len(of))
        ]

    @property
    def widths(self) -> list[int]:
        """How many numbers each category becomes, and each text after them."""
        return [width for _, width in self.embeddings] + [width for _, width, _ in self.texts]


class Perceptron(nn.Module):
    """The network. Masters are float32; `dtype` is what its products are computed in.

    With `shards` it is a device's share of one: of each hidden layer it has so much less, and gathers the rest from those that share the
    axis `model` of a mesh; without `exchange` it takes its own values for theirs, which shows what computing alone costs.
    """

    shape: Shape
    dropout: float = 0.0
    dtype: str = "float32"
    shards: int = 1
    exchange: bool = True

    def setup(self) -> None:
        """Its layers."""
        self.embeddings = [nn.Embed(rows, width, dtype=self.dtype) for rows, width in self.shape.embeddings]
        self.texts = [Bag(rows, width) for rows, width, _ in self.shape.texts]
        self.picture = Convolutions(self.shape.picture, self.shape.activation, self.dtype) if self.shape.picture else None
        hidden = [width // self.shards for width in self.shape.layers]
        self.layers = [nn.Dense(width, dtype=self.dtype) for width in (*hidden, self.shape.outputs)]

    def __call__(self, numbers: Array, codes: Array, keys: Array | None = None) -> Array:
        """Float32 [rows, outputs] of numbers [rows, numbers] and codes [rows, categories and n-grams]."""
        return self.passed(self.entered(numbers, codes), keys, 0, len(self.layers))

    def entered(self, numbers: Array, codes: Array) -> Array:
        """What the first dense layer takes, of what comes in."""
        return self.convolved(self.embedded(numbers, codes))

    def convolved(self, values: Array) -> Array:
        """Values with what convolutions make of the pixels in place of them."""
        if self.picture is None or self.shape.picture is None:
            return values
        size = self.shape.picture.size
        return jnp.concatenate([self.picture(values[:, :size]), values[:, size:]], axis=1)

    def embedded(self, numbers: Array, codes: Array) -> Array:
        """The numbers, and the embeddings of categories and texts beside them."""
        embedded = [embedding(codes[:, place]) for place, embedding in enumerate(self.embeddings)]
        ends = np.cumsum(self.shape.codes)[len(embedded) :]
        embedded += [
            bag(codes[:, end - grams : end]).astype(self.dtype)
            for bag, end, (_, _, grams) in zip(self.texts, ends, self.shape.texts, strict=True)
        ]
        return jnp.concatenate([numbers.astype(self.dtype), *embedded], axis=1)

    def passed(self, values: Array, keys: Array | None, first: int, end: int) -> Array:
        """What layers from `first` on, up to `end`, make of values; without `keys`, one a row, nothing is dropped."""
        for place in range(first, end):
            values = self.layers[place](values)
            if place == len(self.shape.layers):
                return values.astype(jnp.float32)
            values = self._whole(ACTIVATIONS[self.shape.activation](values))
            if keys is not None and self.dropout:
                values = dropped(values, keys, place, self.dropout)
        return values

    def _whole(self, values: Array) -> Array:
        """A layer's values [rows, width], of all shards."""
        if self.shards == 1:
            return values
        return jax.lax.all_gather(values, "model", axis=1, tiled=True) if self.exchange else jnp.tile(values, (1, self.shards))


def dropped(values: Array, keys: Array, layer: int, rate: float) -> Array:
    """Values [rows, width] with a share of `rate` set to 0 and the others as much greater; which ones depends on the row's key alone."""
    stay = kept(keys, layer, jnp.arange(values.shape[1], dtype=jnp.uint32), rate)
    return jnp.where(stay, values / (1 - rate), 0).astype(values.dtype)


def initial(shape: Shape, seed: int, known: list[Array]) -> Parameters:
    """Parameters to begin with, by the same numbers on every device: normal with variance 1 by what comes in, embeddings by their width.

    Those of n-grams begin smaller, by the width's square, as fastText's do: most are in few texts, whose noise they would learn by.
    `known` are, by category, and by text after them, the rows of its embedding that can be learned; the others add nothing: zeros.
    """
    made = Parameters()
    empty = jax.ShapeDtypeStruct((1, shape.numbers), np.float32), jax.ShapeDtypeStruct((1, sum(shape.codes)), np.int32)
    wanted = jax.eval_shape(Perceptron(shape).init, jax.eval_shape(jax.random.key, 0), *empty)
    for number, (name, array) in enumerate(sorted(flatten_dict(wanted["params"], sep="/").items())):
        spread = _spread(name, array.shape)
        drawn = np.random.default_rng([seed, number]).normal(0, spread, array.shape) if len(array.shape) > 1 else np.zeros(array.shape)
        made[name] = drawn.astype(np.float32)
    for name, rows in zip(shape.tables, known, strict=False):
        table = made[name]
        table[~np.isin(np.arange(len(table)), rows)] = 0
    return made


def _spread(name: str, shape: tuple[int, ...]) -> float:
    """The standard deviation of a parameter to begin with."""
    if name.startswith("texts"):
        return 1 / shape[-1]
    return float(1 / np.sqrt(max(shape[-1] if name.endswith("embedding") else np.prod(shape[:-1]), 1)))


def variables(parameters: Parameters) -> Tree:
    """Flax's variables of parameters by path."""
    return {"params": unflatten_dict(parameters, sep="/")}
