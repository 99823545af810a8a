"""Which way each number that comes into a network, embeddings too, moves each number that it gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pipeline.backend.devices import Backend
from pipeline.backend.neural import neural_devices, run_single
from pipeline.neural.perceptron import Perceptron, Shape, variables
from pipeline.neural.saved import Trained

Array = Any


def towards(network: Trained, rows: tuple[Array, Array], backend: Backend) -> Array:
    """The mean over rows of the gradient of each number given, of several classes less the mean of all, float64 [outputs, values]."""
    given = jax.device_put((network.parameters, *rows), neural_devices(backend)[0])
    return np.asarray(run_single(_pulling(network.shape), *given), np.float64)


def of_embeddings(network: Trained, text: int, gradients: Array, codes: Array, centre: Array) -> Array:
    """What n-grams of a text, by the rows `codes` of its embedding, move each number given, float64 [codes, outputs].

    It is their distance from `centre`, what enters in the mean, by the `gradients` of `towards`.
    """
    shape = network.shape
    start = shape.numbers + sum(shape.widths[: len(shape.embeddings) + text])
    at = slice(start, start + shape.texts[text][1])
    table: Array = network.parameters[f"texts_{text}/embedding"]
    moved: Array = (table[codes] - centre[at]) @ gradients[:, at].T
    return moved


@cache
def _pulling(shape: Shape) -> Callable[..., Array]:
    network = Perceptron(shape)

    def program(parameters: Any, numbers: Array, codes: Array) -> Array:
        """Gradients of the outputs, one after another, each the mean over the rows."""
        bound = network.bind(variables(parameters))

        def outputs(values: Array) -> Array:
            """What the network gives for values that enter."""
            out = bound.passed(bound.convolved(values), None, 0, len(shape.layers) + 1)
            return out - (out.mean(axis=1, keepdims=True) if shape.outputs > 1 else 0)

        _, pull = jax.vjp(outputs, bound.embedded(numbers, codes))
        ones = jnp.ones((len(numbers), 1))
        return jax.lax.map(lambda chosen: pull(ones * chosen)[0].mean(axis=0), jnp.eye(shape.outputs))

    return jax.jit(program)
