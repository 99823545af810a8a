"""How far each input moves what a network gives: its gradient times the input's distance from its mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pipeline.backend.devices import Backend
from pipeline.neural.perceptron import Perceptron, Shape, variables
from pipeline.neural.predicting import batched, rows_to_watch
from pipeline.neural.saved import Trained

Array = Any


def influences(network: Trained, rows: tuple[Array, Array], backend: Backend) -> Array:
    """Of each number, category and text, float64 [inputs], in this order: the mean over the rows of |gradient x distance|.

    `rows` are numbers and codes as the network takes them. What it gives is its last layer's value: of several classes that of the
    likeliest less the mean of all. An embedding's numbers are summed.
    """
    given = network.parameters, centre_of(network, rows)
    moved = batched(_moving(network.shape), given, rows, backend, rows_to_watch(network.shape, len(rows[0])))
    sums = sum(piece.sum(axis=0, dtype=np.float64) for piece in moved)
    found: Array = sums / max(len(rows[0]), 1)
    return found


def centre_of(network: Trained, rows: tuple[Array, Array]) -> Array:
    """The mean over rows of what comes in, numbers and embeddings, float32 [values]."""
    numbers, codes = rows
    columns = np.split(codes, np.cumsum(network.shape.codes), axis=1)
    weights = [np.ones(of.shape) for of in columns[: len(network.shape.embeddings)]]
    weights += [(of > 0).astype(np.float64) for of in columns[len(weights) : -1]]
    means = [_mean(network.parameters[name], *given) for name, *given in zip(network.shape.tables, columns[:-1], weights, strict=True)]
    return np.concatenate([numbers.mean(axis=0), *means]).astype(np.float32)


def _mean(table: Array, codes: Array, weights: Array) -> Array:
    """The mean over rows of the mean embedding of their codes, of those that weigh 1."""
    shares = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return np.bincount(codes.ravel(), shares.ravel(), len(table)) @ table / max(len(codes), 1)


@cache
def _moving(shape: Shape) -> Callable[..., Array]:
    """A program that gives [rows, numbers + categories + texts], from parameters and centre, numbers and codes."""
    network = Perceptron(shape)
    ends = np.cumsum([shape.numbers, *shape.widths])

    def program(given: tuple[Any, Array], numbers: Array, codes: Array) -> Array:
        """What each input moves each row."""
        parameters, centre = given
        bound = network.bind(variables(parameters))

        def score(values: Array) -> Array:
            """The sum over rows, each of which has its own gradient."""
            out = bound.passed(bound.convolved(values), None, 0, len(shape.layers) + 1)
            return (out.max(axis=1) - (out.mean(axis=1) if shape.outputs > 1 else 0)).sum()

        values = bound.embedded(numbers, codes)
        moved = jax.grad(score)(values) * (values - centre)
        embedded = [moved[:, low:high].sum(axis=1, keepdims=True) for low, high in pairwise(ends)]
        return jnp.abs(jnp.concatenate([moved[:, : shape.numbers], *embedded], axis=1))

    return jax.jit(program)
